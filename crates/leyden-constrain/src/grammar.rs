//! What a text shall be.

use std::sync::Arc;

use leyden_text::output::CallSyntax;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::gbnf;
use crate::keys::Keys;
use crate::schema::{self, JsonForm};
use crate::tools::{Extent, Lenience, ToolCalls, ToolRules};
use crate::vocabulary::Vocabulary;

/// The longest regular expression, in bytes.
const MOST_REGEX_BYTES: usize = 16 << 10;

/// A rule for the text of an answer, checked but not yet tied to a vocabulary.
#[derive(Clone, Debug)]
pub struct Grammar {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// A Lark grammar for llguidance.
    Lark(String),
    /// A schema that says only what is enforced.
    Schema(schema::Lowered),
    /// Calls of tools, whose marks depend on the vocabulary.
    Tools(Box<ToolCalls>),
}

/// What compiling and following a grammar may cost.
///
/// They are counts of work and not times, so that the same grammar is taken or refused on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest source, in bytes.
    pub source_bytes: usize,
    /// Symbols of the grammar.
    pub grammar_symbols: usize,
    /// Nodes of regular expressions that compiling may make; about 50,000 take a millisecond.
    pub lexer_fuel: u64,
    /// States of the automaton, 1 to 2 kB each, that one answer may reach.
    pub lexer_states: usize,
    /// Steps of regular expressions for one mask; about 14,000 take a millisecond.
    pub mask_fuel: u64,
    /// Items of the parser for one mask; about 20,000 take a millisecond.
    pub mask_items: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            source_bytes: 256 << 10,
            grammar_symbols: 200_000,
            lexer_fuel: 1_000_000,
            lexer_states: 50_000,
            mask_fuel: 200_000,
            mask_items: 50_000,
        }
    }
}

impl Limits {
    pub(crate) fn parser(&self) -> ParserLimits {
        ParserLimits {
            initial_lexer_fuel: self.lexer_fuel,
            step_lexer_fuel: self.mask_fuel,
            step_max_items: self.mask_items,
            max_lexer_states: self.lexer_states,
            max_grammar_size: self.grammar_symbols,
            // Errors name what is wrong; the whole grammar in them helps nobody.
            verbose_errors: false,
            ..ParserLimits::default()
        }
    }
}

impl Grammar {
    /// Any JSON object.
    #[must_use]
    pub fn json_object() -> Grammar {
        Self::json_object_as(JsonForm::default())
    }

    /// Any JSON object, written in this form.
    #[must_use]
    pub fn json_object_as(form: JsonForm) -> Grammar {
        let schema = schema::lower_as(&serde_json::json!({ "type": "object" }), false, form);
        let schema = schema.unwrap_or_else(|e| unreachable!("any JSON object: {e}"));
        Grammar { source: Source::Schema(schema) }
    }

    /// JSON that is valid after a schema.
    ///
    /// Enforced are `type`, `const`, `enum`, `anyOf`, `oneOf`, `allOf`, `$ref`; `properties`, `required`,
    /// `additionalProperties`, `patternProperties`, `minProperties`, `maxProperties`; `items`, `prefixItems`,
    /// `additionalItems`, `minItems`, `maxItems`, and `uniqueItems` where items are constants or have no end; `minLength`,
    /// `maxLength`, `pattern`, `format`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`; and
    /// where they can be said by these, `not`, `dependencies` and `dependentRequired`. `docs/constrained.md` lists the
    /// formats, and what is written of numbers without bounds.
    ///
    /// No object has a key twice. Objects have their properties in the schema's order. `oneOf` needs alternatives of which
    /// no two can hold at once; where objects only ask for different properties, each is narrowed so that it lacks one of
    /// the others'.
    /// What else a schema may say is an error, never ignored, except for annotations such as `title`, and names that
    /// no draft of the standard knows. Only references within the schema are followed.
    ///
    /// # Errors
    /// The schema has a keyword that is not enforced, or is not a schema; the error says which and where.
    pub fn json_schema(schema: &Value) -> Result<Grammar, Error> {
        Self::json_schema_as(schema, JsonForm::default())
    }

    /// The same, with objects closed or open and spaces as `form` says.
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema).
    pub fn json_schema_as(schema: &Value, form: JsonForm) -> Result<Grammar, Error> {
        Ok(Grammar { source: Source::Schema(schema::lower_watched(schema, form)?) })
    }

    /// Text that matches a regular expression as a whole, in the syntax of Rust's `regex` without anchors and
    /// look-around.
    ///
    /// # Errors
    /// The expression is too long.
    pub fn regex(regex: &str) -> Result<Grammar, Error> {
        check_length(regex, MOST_REGEX_BYTES)?;
        // `/` ends an expression in Lark.
        let lark = format!("start: /{}/", llguidance::regex_to_lark(regex, ""));
        Ok(Grammar { source: Source::Lark(lark) })
    }

    /// Text of a grammar in llguidance's dialect of Lark, whose start is `start`.
    ///
    /// # Errors
    /// The grammar is too long, or uses `%json` or `allow_invalid_utf8`: schemas come by
    /// [`json_schema`](Self::json_schema), and text is always valid.
    pub fn lark(lark: &str) -> Result<Grammar, Error> {
        check_length(lark, Limits::default().source_bytes)?;
        for (word, what) in [
            ("%json", "a schema inside a grammar is not possible"),
            ("allow_invalid_utf8", "text is always valid UTF-8"),
        ] {
            if lark.contains(word) {
                return Err(ErrorKind::Grammar(format!("`{word}`: {what}")).into());
            }
        }
        Ok(Grammar { source: Source::Lark(lark.to_owned()) })
    }

    /// Text of a grammar in GBNF, llama.cpp's notation, whose start is `root`. A character class that would need tokens
    /// by name or number is not possible.
    ///
    /// A grammar without recursion is followed exactly. In one with recursion, what does not recur is read as far as it
    /// goes before the next thing: some texts of an ambiguous grammar are not written then, and none that are not its.
    ///
    /// # Errors
    /// The grammar is wrong, with the line, or too long.
    pub fn gbnf(gbnf: &str) -> Result<Grammar, Error> {
        check_length(gbnf, Limits::default().source_bytes)?;
        Ok(Grammar { source: Source::Lark(gbnf::to_lark(gbnf)?) })
    }

    /// Nothing but calls of tools, as the model writes them: for `tool_choice` `required`, with `only` for a tool that
    /// must be called. `tools` are the request's. Each call's arguments are valid after its schema; no tool is
    /// [loose](ToolRules::loose).
    ///
    /// The marks around calls are the model's; here alone they may be special tokens. What the model may think before is
    /// not part of it: start the constraint behind the end of reasoning.
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema), with a pointer into `tools`; there is no tool of that name; or the model
    /// writes arguments as plain text, and a parameter asks for more of a text than a list of values.
    pub fn tools(
        syntax: &CallSyntax,
        tools: &Value,
        only: Option<&str>,
        rules: ToolRules,
    ) -> Result<Grammar, Error> {
        let extent = Extent::Answer { parallel: rules.parallel };
        let calls = ToolCalls::new(Some(syntax), tools, only, extent, Lenience::None, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// As [`tools`](Self::tools), for answers in harmony's messages: a call, or the header of a message that thinks, and
    /// what follows such a message from `<|end|>` on. [`Guide::harmony`](crate::Guide::harmony) leads through it.
    ///
    /// # Errors
    /// As [`tools`](Self::tools).
    pub fn harmony_tools(tools: &Value, only: Option<&str>, form: JsonForm) -> Result<Grammar, Error> {
        let extent = Extent::Answer { parallel: false };
        let calls = ToolCalls::new(None, tools, only, extent, Lenience::None, form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// Calls of tools, or else a text after `content`, a grammar of JSON: for `tool_choice` `auto` with a form of the
    /// answer. `syntax` is `None` for harmony, where [`Guide::harmony`](crate::Guide::harmony) leads through it.
    ///
    /// Which schemas are enforced is said at [`opened_tools`](Self::opened_tools).
    ///
    /// # Errors
    /// As [`opened_tools`](Self::opened_tools); or `content` is no grammar of JSON.
    pub fn tools_or(
        content: &Grammar,
        syntax: Option<&CallSyntax>,
        tools: &Value,
        rules: ToolRules,
    ) -> Result<Grammar, Error> {
        let Source::Schema(content) = &content.source else {
            return Err(ErrorKind::Grammar("beside calls of tools an answer can only be JSON".into()).into());
        };
        if content.places.is_some() {
            let what =
                "`uniqueItems` is supported for items that are constants alone where tools may be called";
            return Err(ErrorKind::Grammar(what.into()).into());
        }
        let (lenience, extent) = (lenience(rules), Extent::Answer { parallel: rules.parallel });
        let calls = ToolCalls::new(syntax, tools, None, extent, lenience, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls.or(content))) })
    }

    /// A call in an answer that is otherwise free, from any of the [openings](leyden_text::output::CallWatch::openings)
    /// of the format on: for `tool_choice` `auto`. `syntax` is `None` for harmony. A [`Guide`](crate::Guide) begins it
    /// where the model does.
    ///
    /// A tool whose schema cannot be enforced gets any arguments, unless it says `strict`; with [`ToolRules::loose`] so do
    /// all others.
    ///
    /// # Errors
    /// As [`tools`](Self::tools), for tools that say `strict`.
    pub fn opened_tools(
        syntax: Option<&CallSyntax>,
        tools: &Value,
        rules: ToolRules,
    ) -> Result<Grammar, Error> {
        let (lenience, extent) = (lenience(rules), Extent::Opened { parallel: rules.parallel });
        let calls = ToolCalls::new(syntax, tools, None, extent, lenience, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// Whether the grammar names marks of the model's format.
    pub(crate) fn names_marks(&self) -> bool {
        matches!(self.source, Source::Tools(_))
    }

    /// What watches over keys, of which none may be written twice; `None` if the text is no JSON.
    pub(crate) fn keys(&self) -> Option<Keys> {
        match &self.source {
            Source::Lark(_) => None,
            Source::Schema(schema) => Some(Keys::new(None).with_places(schema.places.clone())),
            Source::Tools(tools) => Some(Keys::new(tools.tags().map(Arc::new))),
        }
    }

    /// The grammar as llguidance takes it.
    pub(crate) fn top_level(
        &self,
        vocabulary: &Vocabulary,
        limits: &Limits,
    ) -> Result<TopLevelGrammar, Error> {
        Ok(match &self.source {
            Source::Lark(lark) => {
                check_length(lark, limits.source_bytes)?;
                TopLevelGrammar::from_lark(lark.clone())
            }
            Source::Tools(tools) => {
                check_length(&tools.source(), limits.source_bytes)?;
                tools.top_level(vocabulary)
            }
            Source::Schema(schema) => {
                check_length(&schema.value.to_string(), limits.source_bytes)?;
                TopLevelGrammar::from_lark(schema.lark.clone())
            }
        })
    }

    /// An error of compiling, with the place it is about where that is known.
    pub(crate) fn refused(&self, message: &str) -> Error {
        classified(plain(message))
    }
}

/// Returns the lenience towards schemas that cannot be enforced, where calls are the model's choice.
fn lenience(rules: ToolRules) -> Lenience {
    if rules.loose { Lenience::All } else { Lenience::Unenforced }
}

fn check_length(source: &str, most: usize) -> Result<(), Error> {
    if source.len() > most {
        let what = format!("its source has {} bytes, {most} are the most", source.len());
        return Err(ErrorKind::TooComplex(what).into());
    }
    Ok(())
}

/// What is said without the state that llguidance prints behind it.
pub(crate) fn plain(message: &str) -> &str {
    let marks = ["\n<state>", "\n<non-verbose/>", "\n<backtrace>"];
    let end = marks.iter().filter_map(|mark| message.find(mark)).min();
    message[..end.unwrap_or(message.len())].trim()
}

fn classified(message: &str) -> Error {
    if message == "NoExtensionBias" {
        return ErrorKind::DeadEnd.into();
    }
    let what = message.to_owned();
    if is_limit(message) { ErrorKind::TooComplex(what).into() } else { ErrorKind::Grammar(what).into() }
}

/// Whether an error of llguidance says that a limit was reached.
pub(crate) fn is_limit(message: &str) -> bool {
    const LIMITS: &[&str] = &[
        "fuel",
        "too large",
        "too big",
        "too complex",
        "toocomplex",
        "too many",
        "limit",
        "exceeded",
        "too deep",
        "max is",
        "stack level",
    ];
    let lower = message.to_lowercase();
    LIMITS.iter().any(|limit| lower.contains(limit))
}
