//! What an answer must look like: the fields that say so, and the compiled grammars of a model.

use crate::app::{App, Call, Served};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::json_form;
use crate::limits::Limits;
use crate::prompt;
use leyden_constrain::{Compiled, ErrorKind, Grammar, JsonForm, ToolRules, Vocabulary};
use leyden_engine::schedule::KeyId;
use leyden_text::output::CallSyntax;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Compiled grammars that are kept.
const KEPT: usize = 64;
/// What they may occupy together, as [`Compiled::bytes`] estimates it and with their sources; the last is kept in any case.
const KEPT_BYTES: usize = 64 << 20;

/// A model's vocabulary as grammars need it, and the last grammars.
#[derive(Default)]
pub(crate) struct Grammars {
    /// Made with the first request that needs it, half a second for a large one.
    vocabulary: OnceLock<Option<Arc<Vocabulary>>>,
    /// The last one used first.
    kept: Mutex<Vec<Kept>>,
}

/// A compiled grammar, kept for all keys at the cost of the one that had it compiled.
struct Kept {
    owner: KeyId,
    source: String,
    compiled: Arc<Compiled>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").finish_non_exhaustive()
    }
}

impl Grammars {
    /// A grammar that was compiled before.
    fn known(&self, source: &str) -> Option<Arc<Compiled>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.source == source)?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].compiled))
    }

    fn compile(&self, model: &Served, owner: KeyId, shape: Shape) -> Result<Arc<Compiled>, ApiError> {
        // Somebody whose turn came before may have had the same.
        if let Some(compiled) = self.known(&shape.source) {
            return Ok(compiled);
        }
        if let Some(content) = shape.rule.content() {
            content.rule.grammar().map_err(|e| refused(&content.param, &e))?;
        }
        let grammar = shape.rule.grammar().map_err(|e| refused(&shape.param, &e))?;
        let vocabulary = self.vocabulary.get_or_init(|| Vocabulary::new(model.tokenizer.as_ref()).ok());
        let Some(vocabulary) = vocabulary else {
            let message = "the model's vocabulary cannot be used with grammars";
            return Err(ApiError::unsupported(shape.param, message));
        };
        let mut compiled = vocabulary.compile(&grammar);
        if compiled.is_err()
            && let Some(loose) = shape.rule.loose()
        {
            compiled = loose.and_then(|grammar| vocabulary.compile(&grammar));
        }
        let compiled = compiled.map_err(|e| refused(&shape.param, &e))?;
        let compiled = Arc::new(compiled);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(0, Kept { owner, source: shape.source, compiled: Arc::clone(&compiled) });
        let sizes =
            kept.iter().map(|kept| (kept.owner, kept.source.len().saturating_add(kept.compiled.bytes())));
        for at in beyond(sizes.collect()) {
            kept.remove(at);
        }
        Ok(compiled)
    }
}

/// Returns the places of the grammars that are not kept, the last first. `sizes` has the owner and bytes of each, the one used last
/// first. Where there is no room, the owner who takes most of it loses the grammar used longest ago; one grammar is kept in any
/// case.
fn beyond(mut sizes: Vec<(KeyId, usize)>) -> Vec<usize> {
    let sum = |sizes: &[(KeyId, usize)], of: Option<KeyId>| {
        let of = sizes.iter().filter(|(owner, _)| of.is_none_or(|of| of == *owner));
        of.fold((0_usize, 0_usize), |(count, bytes), (_, size)| (count + 1, bytes.saturating_add(*size)))
    };
    let mut places: Vec<usize> = (0..sizes.len()).collect();
    let mut gone = Vec::new();
    while sizes.len() > 1 {
        let (count, bytes) = sum(&sizes, None);
        if count <= KEPT && bytes <= KEPT_BYTES {
            break;
        }
        let taken = |owner: KeyId| {
            let (count, of) = sum(&sizes, Some(owner));
            if bytes > KEPT_BYTES { of } else { count }
        };
        // Of several owners who have the same, the first from the end.
        let most = sizes.iter().map(|(owner, _)| taken(*owner)).max();
        let Some(at) = sizes.iter().rposition(|(owner, _)| Some(taken(*owner)) == most) else { break };
        sizes.remove(at);
        gone.push(places.remove(at));
    }
    gone.sort_unstable_by(|a, b| b.cmp(a));
    gone
}

/// What a grammar is made of. Making it takes time, too, so it has to wait for its turn.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Any JSON object.
    Object(JsonForm),
    /// JSON after a schema.
    Schema(Value, JsonForm),
    /// A text in GBNF.
    Gbnf(String),
    /// A text in Lark.
    Lark(String),
    /// A regular expression.
    Regex(String),
    /// Calls of these tools, or of the one that is named; without a syntax, in harmony's messages.
    Tools { syntax: Option<Box<CallSyntax>>, tools: Value, only: Option<String>, rules: ToolRules },
    /// What follows the opening of a call that the model has decided on.
    Opened { syntax: Option<Box<CallSyntax>>, tools: Value, rules: ToolRules },
    /// Calls of these tools, or else what a form of the answer says.
    ToolsOr { syntax: Option<Box<CallSyntax>>, tools: Value, rules: ToolRules, content: Box<Shape> },
}

impl Rule {
    fn grammar(&self) -> Result<Grammar, leyden_constrain::Error> {
        match self {
            Rule::Object(form) => Ok(Grammar::json_object_as(*form)),
            Rule::Schema(schema, form) => Grammar::json_schema_as(schema, *form),
            Rule::Gbnf(text) => Grammar::gbnf(text),
            Rule::Lark(text) => Grammar::lark(text),
            Rule::Regex(text) => Grammar::regex(text),
            Rule::Tools { syntax: Some(syntax), tools, only, rules } => {
                Grammar::tools(syntax, tools, only.as_deref(), *rules)
            }
            Rule::Tools { syntax: None, tools, only, rules } => {
                Grammar::harmony_tools(tools, only.as_deref(), rules.form)
            }
            Rule::Opened { syntax, tools, rules } => Grammar::opened_tools(syntax.as_deref(), tools, *rules),
            Rule::ToolsOr { .. } => self.calls_or(false),
        }
    }

    fn calls_or(&self, loose: bool) -> Result<Grammar, leyden_constrain::Error> {
        let Rule::ToolsOr { syntax, tools, rules, content } = self else { return self.grammar() };
        let rules = ToolRules { loose, ..*rules };
        Grammar::tools_or(&content.rule.grammar()?, syntax.as_deref(), tools, rules)
    }

    /// The rule that an error is about if it is about a form beside calls, and the field of that.
    fn content(&self) -> Option<&Shape> {
        match self {
            Rule::ToolsOr { content, .. } => Some(content),
            _ => None,
        }
    }

    /// What is enforced instead if that is too much: schemas that are too much together are not a reason to refuse what
    /// nobody asked to be enforced.
    fn loose(&self) -> Option<Result<Grammar, leyden_constrain::Error>> {
        match self {
            Rule::Opened { syntax, tools, rules } => {
                let rules = ToolRules { loose: true, ..*rules };
                Some(Grammar::opened_tools(syntax.as_deref(), tools, rules))
            }
            Rule::ToolsOr { .. } => Some(self.calls_or(true)),
            _ => None,
        }
    }
}

/// A grammar to be made, and the field that it came in.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    param: String,
    /// What tells it from others.
    source: String,
    rule: Rule,
}

impl Shape {
    pub(crate) fn new(param: impl Into<String>, source: String, rule: Rule) -> Shape {
        Shape { param: param.into(), source, rule }
    }

    /// Whether it is JSON, which can stand beside calls of tools.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.rule, Rule::Object(_) | Rule::Schema(..))
    }

    /// The field.
    pub(crate) fn param(&self) -> &str {
        &self.param
    }

    /// What tells it from others.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Ready to be followed: it was compiled before, or is when it is its turn.
    pub(crate) async fn compiled(
        self,
        app: &App,
        model: &Arc<Served>,
        call: &Call,
    ) -> Result<Arc<Compiled>, ApiError> {
        if let Some(compiled) = model.grammars.known(&self.source) {
            return Ok(compiled);
        }
        let owner = call.caller.fairness();
        let turn = app.turns.take(owner, call.deadline(app).into()).await?;
        let model = Arc::clone(model);
        prompt::aside(move || {
            // Whoever asked may have gone; the turn is over when the thread is free again.
            let _turn = turn;
            model.grammars.compile(&model, owner, self)
        })
        .await
    }
}

/// Takes the fields that say what an answer looks like, of which there may be one. JSON is written as `form` says.
pub(crate) fn shape(
    body: &mut Fields,
    mut form: JsonForm,
    limits: &Limits,
) -> Result<Option<Shape>, ApiError> {
    let mut shapes = Vec::new();
    if let Some(format) = body.object("response_format") {
        shapes.extend(response_format(format, form, limits)?);
    }
    match body.take("grammar") {
        // llama-server's default, which its clients send back.
        Some(Value::String(text)) if text.trim().is_empty() => {}
        Some(value) => shapes.push(grammar(value)),
        None => {}
    }
    // vLLM's newer names are those of its older ones in an object.
    if let Some(mut forms) = body.object("structured_outputs") {
        form = json_form::read(&mut forms, form);
        for name in ["json", "regex", "grammar", "choice"] {
            if let Some(value) = forms.take(name) {
                body.put(&format!("guided_{name}"), value);
            }
        }
        if forms.flag("json_object").unwrap_or(false) {
            let source = format!("json_object {form:?}");
            shapes.push(Shape::new("structured_outputs", source, Rule::Object(form)));
        }
    }
    // vLLM's older names, and llama-server's.
    for name in ["guided_json", "json_schema"] {
        match body.take(name) {
            Some(Value::String(text)) if text.trim().is_empty() => {}
            Some(Value::String(text)) => {
                let schema = json::parse(text.as_bytes(), limits.json_depth, limits.json_values);
                let schema = schema.map_err(|e| ApiError::field(name, format!("`{name}`: {}", e.message)))?;
                shapes.push(json_schema(name, schema, form, limits)?);
            }
            Some(schema) => shapes.push(json_schema(name, schema, form, limits)?),
            None => {}
        }
    }
    if let Some(text) = body.text("guided_regex") {
        shapes.push(Shape::new("guided_regex", format!("regex {text}"), Rule::Regex(text)));
    }
    if let Some(text) = body.text("guided_grammar") {
        shapes.push(Shape::new("guided_grammar", format!("gbnf {text}"), Rule::Gbnf(text)));
    }
    if let Some(choices) = body.list("guided_choice") {
        shapes.push(one_of(&choices));
    }
    match shapes.len() {
        0 | 1 => Ok(shapes.pop()),
        _ => {
            let (first, second) = (&shapes[0].param, &shapes[1].param);
            let name = |param: &str| param.split('.').next().unwrap_or(param).to_owned();
            let message = format!("`{}` and `{}` exclude each other", name(second), name(first));
            Err(ApiError::conflict(name(second), message))
        }
    }
}

fn response_format(mut format: Fields, form: JsonForm, limits: &Limits) -> Result<Option<Shape>, ApiError> {
    match format.text("type").as_deref() {
        Some("json_object") => {
            // llama-server's older way.
            match format.take("schema") {
                Some(schema) => json_schema("response_format.schema", schema, form, limits).map(Some),
                None => {
                    let source = format!("json_object {form:?}");
                    Ok(Some(Shape::new("response_format", source, Rule::Object(form))))
                }
            }
        }
        Some("json_schema") => {
            // Whether it is asked for by `strict` or not, an answer follows the schema; with it, as OpenAI's rules are,
            // no object has properties that the schema does not name.
            let mut inner = format.object("json_schema").unwrap_or_default();
            let strict = inner.flag("strict").unwrap_or(false);
            let form = JsonForm { closed: form.closed || strict, ..form };
            let schema = inner.take("schema").unwrap_or_default();
            json_schema("response_format.json_schema.schema", schema, form, limits).map(Some)
        }
        _ => Ok(None),
    }
}

/// JSON after a schema.
fn json_schema(param: &str, schema: Value, form: JsonForm, limits: &Limits) -> Result<Shape, ApiError> {
    let source = schema.to_string();
    check_length(param, &source, limits)?;
    Ok(Shape::new(param, format!("schema {form:?} {source}"), Rule::Schema(schema, form)))
}

/// One of several texts.
fn one_of(choices: &[Value]) -> Shape {
    let texts = choices.iter().filter_map(Value::as_str);
    let quoted: Vec<String> = texts.map(|text| Value::from(text).to_string()).collect();
    let text = format!("start: {}", quoted.join(" | "));
    Shape::new("guided_choice", format!("lark {text}"), Rule::Lark(text))
}

fn grammar(value: Value) -> Shape {
    let mut fields = match value {
        Value::String(text) => return Shape::new("grammar", format!("gbnf {text}"), Rule::Gbnf(text)),
        other => Fields::from(other),
    };
    let kind = fields.text("type").unwrap_or_default();
    let text = fields.text("value").unwrap_or_default();
    let source = format!("{kind} {text}");
    let rule = match kind.as_str() {
        "lark" => Rule::Lark(text),
        "regex" => Rule::Regex(text),
        _ => Rule::Gbnf(text),
    };
    Shape::new("grammar.value", source, rule)
}

fn check_length(param: &str, source: &str, limits: &Limits) -> Result<(), ApiError> {
    if source.len() <= limits.schema_bytes {
        return Ok(());
    }
    let message = format!("`{param}` has {} bytes; {} are the most", source.len(), limits.schema_bytes);
    Err(ApiError::field(param, message))
}

/// Why a grammar is not taken. The messages are made to be shown: bounded, escaped, with keyword and place.
pub(crate) fn refused(param: &str, error: &leyden_constrain::Error) -> ApiError {
    match error.kind() {
        ErrorKind::Internal(_) => ApiError::internal("the grammar could not be compiled"),
        _ => ApiError { code: "invalid_grammar", ..ApiError::field(param, error.to_string()) },
    }
}

/// The fields in the OpenAPI document.
pub(crate) fn schema(limits: &Limits) -> Value {
    let any_schema =
        json!({ "type": ["object", "boolean"], "description": "What is not enforced is refused by name" });
    let text = json!({ "type": "string", "maxLength": limits.schema_bytes });
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["schema"],
        "properties": {
            "name": { "type": "string", "maxLength": limits.name_chars }, "description": text,
            "strict": { "type": "boolean" }, "schema": any_schema
        }
    });
    let of = |kinds: &[&str], required: &[&str], more: Value| {
        let mut properties = json!({ "type": { "enum": kinds } });
        if let (Value::Object(properties), Value::Object(more)) = (&mut properties, more) {
            properties.extend(more);
        }
        json!({
            "type": "object", "additionalProperties": false, "required": required, "properties": properties
        })
    };
    let either = json!({
        "anyOf": [{ "type": ["object", "boolean"] }, { "type": "string", "contentMediaType": "application/json" }],
        "description": "As `response_format` with a `json_schema`"
    });
    let source =
        |meaning: &str| json!({ "type": "string", "maxLength": limits.schema_bytes, "description": meaning });
    let (regex, gbnf) = (source("As `grammar` with a regex"), source("As `grammar`"));
    let choice = json!({
        "type": "array", "minItems": 1, "maxItems": limits.choices,
        "items": { "type": "string", "minLength": 1, "maxLength": limits.name_chars },
        "description": "The answer is one of these"
    });
    let mut structured = json_form::schema();
    let forms = json!({ "json": either, "regex": regex, "grammar": gbnf, "choice": choice });
    let mut all = json_form::schema();
    let fields = json!({
        "response_format": { "anyOf": [
            of(&["text"], &["type"], json!({})),
            of(&["json_object"], &["type"], json!({ "schema": any_schema })),
            of(&["json_schema"], &["type", "json_schema"], json!({ "json_schema": schema })),
        ] },
        "grammar": {
            "description": "A grammar in GBNF, or one whose notation is named",
            "anyOf": [text, of(&["gbnf", "lark", "regex"], &["type", "value"], json!({ "value": text }))]
        },
        "guided_json": either, "json_schema": either, "guided_regex": regex, "guided_grammar": gbnf,
        "guided_choice": choice
    });
    for (all, more) in [(&mut structured, forms), (&mut all, fields)] {
        if let (Value::Object(all), Value::Object(more)) = (all, more) {
            all.extend(more);
        }
    }
    structured["json_object"] = json!({ "type": "boolean" });
    all["structured_outputs"] = json!({
        "type": "object", "additionalProperties": false, "description": "One of these forms",
        "properties": structured
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let kept = |sizes: Vec<(u32, usize)>| {
            let count = sizes.len();
            let gone = beyond(sizes.into_iter().map(|(owner, size)| (KeyId(owner), size)).collect());
            assert!(gone.is_sorted_by(|a, b| a > b));
            (0..count).filter(|at| !gone.contains(at)).collect::<Vec<_>>()
        };
        let of = |size: usize| vec![(0, size); 200];
        assert_eq!(kept(of(1000)), (0..KEPT).collect::<Vec<_>>());
        assert_eq!(kept(of(8 << 20)), (0..8).collect::<Vec<_>>());
        assert_eq!(kept(of(usize::MAX)), [0]);
        assert_eq!(kept(vec![(0, usize::MAX)]), [0]);
        // A key with few grammars keeps them, whatever another has compiled since.
        let few = [(1, 1000), (1, 4 << 20)];
        assert_eq!(kept([&of(1000)[..], &few].concat()).last(), Some(&201));
        assert_eq!(kept([&of(8 << 20)[..], &few].concat()).iter().filter(|at| **at >= 200).count(), 2);
    }
}
