//! The table of request fields that other servers publish, `published.tsv`, and its use.
//!
//! A row has six columns, separated by tabs: publishers, endpoints, field as a path into the body, value in JSON,
//! outcome, reason. Fields with the outcome `honoured` have readers and schemas elsewhere. All other rows are the
//! implementation, so a new field is a new row:
//!
//! * `no effect`: the value is accepted and changes nothing. If all rows of the field say so, any value is accepted.
//! * `ignored`: the value is dropped, and `x-leyden-ignored` names the field; with `--strict` it is refused.
//! * `refused`: status 400, with the reason in the message.
//!
//! Endpoints of forms read the table through [`of_form`]; a list there is a field that is sent several times.
//!
//! Values without a row are treated as the ignored or refused value of the same field, unless the field is `honoured`.

use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Key in the schema of a field: `true` if all values but those of [`HARMLESS`] are ignored, or a list of the ignored
/// values.
pub(crate) const IGNORED: &str = "x-ignored";

/// Key in the schema of an ignored or refused field: the list of values without effect.
pub(crate) const HARMLESS: &str = "x-harmless";

/// Key in the schema of a field: the reason for refusing the values of [`REFUSED`], or without that list all but those of
/// [`HARMLESS`].
pub(crate) const REASON: &str = "x-reason";

/// Key in the schema of a field with a reader: the list of refused values.
pub(crate) const REFUSED: &str = "x-refused";

/// The outcome for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Honoured,
    NoEffect,
    Ignored,
    Refused,
}

impl Outcome {
    fn of_name(name: &str) -> Option<Outcome> {
        Some(match name {
            "honoured" => Outcome::Honoured,
            "no effect" => Outcome::NoEffect,
            "ignored" => Outcome::Ignored,
            "refused" => Outcome::Refused,
            _ => return None,
        })
    }
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The paths of the routes.
    pub(crate) endpoints: Vec<&'static str>,
    /// The path from the body, such as `stream_options.include_usage`.
    pub(crate) field: &'static str,
    pub(crate) value: Value,
    pub(crate) outcome: Outcome,
    pub(crate) reason: &'static str,
}

/// Returns the rows. A malformed line is skipped; a test finds it.
pub(crate) fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| lines().filter_map(row).collect())
}

/// Returns the lines of the table without comments.
pub(crate) fn lines() -> impl Iterator<Item = &'static str> {
    include_str!("published.tsv").lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a line; `None` if it is malformed.
pub(crate) fn row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    let (_publishers, endpoints, field, value, outcome) = (next()?, next()?, next()?, next()?, next()?);
    let reason = next().unwrap_or_default();
    Some(Row {
        endpoints: endpoints.split(' ').flat_map(routes).collect(),
        field,
        value: serde_json::from_str(value).ok()?,
        outcome: Outcome::of_name(outcome)?,
        reason,
    })
}

/// Returns the paths for a word in the column of endpoints.
fn routes(word: &'static str) -> Vec<&'static str> {
    match word {
        "chat" => vec![
            "/v1/chat/completions",
            "/chat/completions",
            "/v1/chat/completions/input_tokens",
            "/chat/completions/input_tokens",
        ],
        "completions" => vec!["/v1/completions"],
        "completion" => vec!["/completion", "/completions"],
        "infill" => vec!["/infill"],
        "responses" => vec!["/v1/responses", "/responses"],
        "rerank" => vec!["/rerank", "/v1/rerank", "/v2/rerank", "/reranking", "/v1/reranking"],
        "score" => vec!["/score", "/v1/score"],
        "audio" => vec!["/v1/audio/transcriptions", "/v1/audio/translations"],
        path => vec![path],
    }
}

/// Adds the fields of the table to the schema of a route's body. With `strict` only values without effect are added of
/// ignored fields, so that others are refused.
pub(crate) fn extend(path: &str, schema: &mut Value, strict: bool) {
    let mut fields: Vec<&str> = Vec::new();
    for row in rows().iter().filter(|row| row.endpoints.contains(&path)) {
        if !fields.contains(&row.field) {
            fields.push(row.field);
        }
    }
    for field in fields {
        let of_field: Vec<&Row> =
            rows().iter().filter(|row| row.field == field && row.endpoints.contains(&path)).collect();
        if let Some((object, name)) = place(schema, field) {
            extend_field(object, name, &of_field, strict);
        }
    }
}

/// Finds the properties of the object around a field, and the field's name there; `None` if the schema has no such object.
fn place<'a>(
    schema: &'a mut Value,
    field: &'static str,
) -> Option<(&'a mut Map<String, Value>, &'static str)> {
    // Items of a list are described by the code that reads them.
    if field.contains('[') {
        return None;
    }
    let mut object = schema.get_mut("properties")?.as_object_mut()?;
    let mut rest = field;
    // Names of llama-server contain a dot.
    while let Some((outer, inner)) = rest.split_once('.').filter(|(outer, _)| *outer != "speculative") {
        object = object.get_mut(outer)?.get_mut("properties")?.as_object_mut()?;
        rest = inner;
    }
    Some((object, rest))
}

fn extend_field(object: &mut Map<String, Value>, name: &str, rows: &[&Row], strict: bool) {
    let values = |outcome: Outcome| -> Vec<Value> {
        rows.iter().filter(|row| row.outcome == outcome).map(|row| row.value.clone()).collect()
    };
    let refused = rows.iter().find(|row| row.outcome == Outcome::Refused);
    let (honoured, harmless, ignored) =
        (values(Outcome::Honoured), values(Outcome::NoEffect), values(Outcome::Ignored));
    // A field whose schema allows any value has no reader.
    if !honoured.is_empty() || object.get(name).is_some_and(|schema| *schema != json!({})) {
        let Some(Value::Object(schema)) = object.get_mut(name) else { return };
        if let Some(refused) = refused {
            schema.insert(REASON.to_owned(), refused.reason.into());
            schema.insert(REFUSED.to_owned(), values(Outcome::Refused).into());
        }
        if !ignored.is_empty() && !strict {
            schema.insert(IGNORED.to_owned(), ignored.into());
        }
        return;
    }
    let schema = if let Some(refused) = refused {
        json!({ "enum": harmless, HARMLESS: harmless, REASON: refused.reason })
    } else if ignored.is_empty() {
        json!({})
    } else if !strict {
        json!({ IGNORED: true, HARMLESS: harmless })
    } else if harmless.is_empty() {
        return;
    } else {
        json!({ "enum": harmless })
    };
    // These keywords stay at the field itself, outside the branches of its schema.
    let said: Map<String, Value> = [REASON, HARMLESS]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), schema.get(key)?.clone())))
        .collect();
    let mut schema = if schema.get("enum").is_some() { or_null(schema) } else { schema };
    if let Value::Object(schema) = &mut schema {
        schema.extend(said);
    }
    object.insert(name.to_owned(), schema);
}

/// Returns `true` if the schema of a field ignores this value.
pub(crate) fn ignores(schema: &Value, value: &Value) -> bool {
    match schema.get(IGNORED) {
        Some(Value::Bool(all)) => *all && !lists(schema, HARMLESS, value),
        _ => lists(schema, IGNORED, value),
    }
}

/// Returns the reason if the schema of a field refuses this value.
pub(crate) fn refuses<'a>(schema: &'a Value, value: &Value) -> Option<&'a str> {
    let reason = schema.get(REASON)?.as_str()?;
    let refused = match schema.get(REFUSED) {
        Some(_) => lists(schema, REFUSED, value),
        None => !lists(schema, HARMLESS, value),
    };
    refused.then_some(reason)
}

/// Returns `true` if a list in a schema has this value.
fn lists(schema: &Value, key: &str, value: &Value) -> bool {
    let list = schema.get(key).and_then(Value::as_array);
    list.is_some_and(|all| all.iter().any(|one| same(one, value)))
}

/// Returns the row that decides about a field of a form, whose values are texts; `None` if the table has no such field.
/// The reader of an `honoured` field judges the values without a row.
pub(crate) fn of_form(path: &str, field: &str, text: &str) -> Option<&'static Row> {
    let of_field = || rows().iter().filter(|row| row.field == field && row.endpoints.contains(&path));
    let honoured = of_field().any(|row| row.outcome == Outcome::Honoured);
    let is_other = |row: &&Row| !honoured && matches!(row.outcome, Outcome::Ignored | Outcome::Refused);
    let exact = of_field().find(|row| is_text_of(text, &row.value));
    exact.or_else(|| of_field().find(is_other)).or_else(|| of_field().next())
}

/// Returns `true` if a form's text says this value, or one of a list.
fn is_text_of(text: &str, value: &Value) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Array(values) => values.iter().any(|value| is_text_of(text, value)),
        value => serde_json::from_str(text).is_ok_and(|given| same(&given, value)),
    }
}

/// Compares values; `1` and `1.0` are equal.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64()
        }
        _ => a == b,
    }
}

/// The schema of a value, or of none.
pub(crate) fn or_null(mut schema: Value) -> Value {
    let limited = schema.get("enum").is_some() || schema.get("const").is_some();
    if let Some(Value::String(kind)) = schema.get("type").filter(|_| !limited) {
        schema["type"] = json!([kind, "null"]);
        return schema;
    }
    if let Some(Value::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.push(json!({ "type": "null" }));
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}
