//! The form of an answer: fields that ask for one, and the grammars that they stand for.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::json;
use crate::json_form;
use crate::limits::Limits;
use crate::prompt;
use crate::served::Served;
use leyden_constrain::{Compiled, ErrorKind, Grammar, JsonForm, ToolRules};
use leyden_engine::schedule::KeyId;
use leyden_text::output::CallSyntax;
use serde_json::{Value, json};
use std::sync::Arc;

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
            self.compile(&model, owner)
        })
        .await
    }

    /// Compiles it, unless that has been done meanwhile.
    fn compile(self, model: &Served, owner: KeyId) -> Result<Arc<Compiled>, ApiError> {
        // Somebody whose turn came before may have had the same.
        if let Some(compiled) = model.grammars.known(&self.source) {
            return Ok(compiled);
        }
        if let Some(content) = self.rule.content() {
            content.rule.grammar().map_err(|e| refused(&content.param, &e))?;
        }
        let grammar = self.rule.grammar().map_err(|e| refused(&self.param, &e))?;
        let Some(vocabulary) = model.grammars.vocabulary(model.tokenizer.as_ref()) else {
            let message = "the model's vocabulary cannot be used with grammars";
            return Err(ApiError::unsupported(self.param, message));
        };
        let mut compiled = vocabulary.compile(&grammar);
        if compiled.is_err()
            && let Some(loose) = self.rule.loose()
        {
            compiled = loose.and_then(|grammar| vocabulary.compile(&grammar));
        }
        let compiled = Arc::new(compiled.map_err(|e| refused(&self.param, &e))?);
        model.grammars.keep(owner, self.source, &compiled);
        Ok(compiled)
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
