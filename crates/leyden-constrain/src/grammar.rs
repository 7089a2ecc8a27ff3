//! Grammars of constrained texts.

use std::sync::Arc;

use leyden_text::output::CallSyntax;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::gbnf;
use crate::keys::Keys;
use crate::schema::{self, JsonForm};
use crate::tools::{CallScope, Lenience, ToolCalls, ToolRules};
use crate::vocabulary::Vocabulary;

/// Maximum length of a regular expression in bytes.
const MAX_REGEX_BYTES: usize = 16 << 10;

/// Rule for the text of an answer, validated but not compiled for a vocabulary.
#[derive(Clone, Debug)]
pub struct Grammar {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Lark grammar for llguidance.
    Lark(String),
    /// Schema reduced to what is enforced.
    Schema(schema::Lowered),
    /// Tool calls, whose special tokens depend on the vocabulary.
    Tools(Box<ToolCalls>),
}

/// Limits of compiling and following a grammar.
///
/// They count work instead of time, so that a grammar is accepted or refused on every machine alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of the source in bytes.
    pub source_bytes: usize,
    /// Maximum number of symbols of the grammar.
    pub grammar_symbols: usize,
    /// Maximum number of regular expression nodes created by compiling; about 50,000 take a millisecond.
    pub lexer_fuel: u64,
    /// Maximum number of automaton states, of 1 to 2 kB each, per answer.
    pub lexer_states: usize,
    /// Maximum number of regular expression steps per mask; about 14,000 take a millisecond.
    pub mask_fuel: u64,
    /// Maximum number of parser items per mask; about 20,000 take a millisecond.
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
            // The error names the cause; the whole grammar in it would not help.
            verbose_errors: false,
            ..ParserLimits::default()
        }
    }
}

impl Grammar {
    /// Allows any JSON object.
    #[must_use]
    pub fn json_object() -> Grammar {
        Self::json_object_as(JsonForm::default())
    }

    /// Allows any JSON object, formatted as `form` says.
    #[must_use]
    pub fn json_object_as(form: JsonForm) -> Grammar {
        let schema = schema::lower_as(&serde_json::json!({ "type": "object" }), false, form);
        let schema = schema.unwrap_or_else(|e| unreachable!("any JSON object: {e}"));
        Grammar { source: Source::Schema(schema) }
    }

    /// Allows JSON that is valid under a schema.
    ///
    /// Enforced are `type`, `const`, `enum`, `anyOf`, `oneOf`, `allOf`, `$ref`; `properties`, `required`,
    /// `additionalProperties`, `patternProperties`, `minProperties`, `maxProperties`; `items`, `prefixItems`,
    /// `additionalItems`, `minItems`, `maxItems`, and `uniqueItems` if items are constants or unbounded;
    /// `minLength`, `maxLength`, `pattern`, `format`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`,
    /// `multipleOf`; and, if they can be expressed by these, `not`, `dependencies` and `dependentRequired`.
    /// `docs/constrained.md` lists the formats, and the forms of numbers without bounds.
    ///
    /// No object has a duplicate key. Objects have their properties in the schema's order. The alternatives of
    /// `oneOf` must be mutually exclusive; objects that only require different properties are made exclusive by
    /// forbidding in each a property that another requires. All other keywords are errors, never ignored, except
    /// for annotations such as `title`, and names unknown to all drafts of the standard. Only references within the
    /// schema are followed.
    ///
    /// # Errors
    /// The schema has a keyword that is not enforced, or is malformed; the error says which and where.
    pub fn json_schema(schema: &Value) -> Result<Grammar, Error> {
        Self::json_schema_as(schema, JsonForm::default())
    }

    /// Allows JSON as [`json_schema`](Self::json_schema) does, with objects closed or open and spaces as `form`
    /// says.
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema).
    pub fn json_schema_as(schema: &Value, form: JsonForm) -> Result<Grammar, Error> {
        Ok(Grammar { source: Source::Schema(schema::lower_watched(schema, form)?) })
    }

    /// Allows text that matches a regular expression as a whole, in the syntax of Rust's `regex` without anchors
    /// and look-around.
    ///
    /// # Errors
    /// The expression is too long.
    pub fn regex(regex: &str) -> Result<Grammar, Error> {
        check_length(regex, MAX_REGEX_BYTES)?;
        // `/` ends an expression in Lark.
        let lark = format!("start: /{}/", llguidance::regex_to_lark(regex, ""));
        Ok(Grammar { source: Source::Lark(lark) })
    }

    /// Allows text of a grammar in llguidance's dialect of Lark, whose start rule is `start`.
    ///
    /// # Errors
    /// The grammar is too long, or uses `%json` or `allow_invalid_utf8`: schemas are given to
    /// [`json_schema`](Self::json_schema), and text is always valid UTF-8.
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

    /// Allows text of a grammar in GBNF, llama.cpp's notation, whose start rule is `root`. References to tokens by
    /// name or number are not supported.
    ///
    /// A grammar without recursion is followed exactly. In one with recursion, parts without recursion match
    /// greedily: some texts of an ambiguous grammar are then not generated, but no other texts are.
    ///
    /// # Errors
    /// The grammar is malformed (the error has the line) or too long.
    pub fn gbnf(gbnf: &str) -> Result<Grammar, Error> {
        check_length(gbnf, Limits::default().source_bytes)?;
        Ok(Grammar { source: Source::Lark(gbnf::to_lark(gbnf)?) })
    }

    /// Allows only tool calls, in the model's syntax: for `tool_choice` `required`, or with `only` for a tool that
    /// must be called. `tools` are the request's. The arguments of each call are valid under its schema;
    /// [`ToolRules::loose`](ToolRules::loose) has no effect.
    ///
    /// The markers around calls are the model's; only in this kind of grammar may they be special tokens. Reasoning
    /// before the call is not part of the grammar: start the constraint after its end.
    ///
    /// # Errors
    /// As [`json_schema`](Self::json_schema), with a pointer into `tools`; there is no tool of that name; or the
    /// model writes arguments as plain text, and a parameter's schema restricts a text other than to a list of
    /// values.
    pub fn tools(
        syntax: &CallSyntax,
        tools: &Value,
        only: Option<&str>,
        rules: ToolRules,
    ) -> Result<Grammar, Error> {
        let scope = CallScope::Answer { parallel: rules.parallel };
        let calls = ToolCalls::new(Some(syntax), tools, only, scope, Lenience::None, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// Allows tool calls as [`tools`](Self::tools) does, for harmony answers: a call, or the header of a reasoning
    /// message, and the continuation after such a message from `<|end|>` on. To be used with
    /// [`Guide::harmony`](crate::Guide::harmony).
    ///
    /// # Errors
    /// As [`tools`](Self::tools).
    pub fn harmony_tools(tools: &Value, only: Option<&str>, form: JsonForm) -> Result<Grammar, Error> {
        let scope = CallScope::Answer { parallel: false };
        let calls = ToolCalls::new(None, tools, only, scope, Lenience::None, form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// Allows tool calls, or else a text of `content`, a JSON grammar: for `tool_choice` `auto` with a response
    /// format. `syntax` is `None` for harmony, to be used with [`Guide::harmony`](crate::Guide::harmony).
    ///
    /// Schemas are enforced as in [`opened_tools`](Self::opened_tools).
    ///
    /// # Errors
    /// As [`opened_tools`](Self::opened_tools); or `content` is not a JSON grammar.
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
        let (lenience, scope) = (lenience(rules), CallScope::Answer { parallel: rules.parallel });
        let calls = ToolCalls::new(syntax, tools, None, scope, lenience, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls.or(content))) })
    }

    /// Allows a call within an otherwise unconstrained answer, from any of the format's
    /// [openings](leyden_text::output::CallWatch::openings) on: for `tool_choice` `auto`. `syntax` is `None` for
    /// harmony. A [`Guide`](crate::Guide) starts it where the model opens a call.
    ///
    /// A tool whose schema cannot be enforced accepts any arguments, unless it has `strict`; with
    /// [`ToolRules::loose`] so do all tools without `strict`.
    ///
    /// # Errors
    /// As [`tools`](Self::tools), for tools with `strict`.
    pub fn opened_tools(
        syntax: Option<&CallSyntax>,
        tools: &Value,
        rules: ToolRules,
    ) -> Result<Grammar, Error> {
        let (lenience, scope) = (lenience(rules), CallScope::Opened { parallel: rules.parallel });
        let calls = ToolCalls::new(syntax, tools, None, scope, lenience, rules.form)?;
        Ok(Grammar { source: Source::Tools(Box::new(calls)) })
    }

    /// Returns whether the grammar contains special tokens of the model's format.
    pub(crate) fn names_marks(&self) -> bool {
        matches!(self.source, Source::Tools(_))
    }

    /// Returns the check for duplicate keys; `None` if the text is not JSON.
    pub(crate) fn keys(&self) -> Option<Keys> {
        match &self.source {
            Source::Lark(_) => None,
            Source::Schema(schema) => Some(Keys::new(None).with_places(schema.places.clone())),
            Source::Tools(tools) => Some(Keys::new(tools.tags().map(Arc::new))),
        }
    }

    /// Returns the grammar in the form of llguidance.
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

    /// Classifies an error of compiling.
    pub(crate) fn refused(&self, message: &str) -> Error {
        classified(plain(message))
    }
}

/// Returns the treatment of schemas that cannot be enforced, for calls by the model's choice.
fn lenience(rules: ToolRules) -> Lenience {
    if rules.loose { Lenience::All } else { Lenience::Unenforced }
}

fn check_length(source: &str, most: usize) -> Result<(), Error> {
    if source.len() > most {
        let what = format!("its source has {} bytes, the maximum is {most}", source.len());
        return Err(ErrorKind::TooComplex(what).into());
    }
    Ok(())
}

/// Returns an error message without the parser state that llguidance appends.
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

/// Returns whether an error of llguidance is about a limit.
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
