//! Parts of the OpenAPI document that several endpoints share: operations and schemas.

use crate::app::App;
use crate::published::or_null;
use crate::schema::BY_MODEL;
use serde_json::{Value, json};

/// Returns an operation: its name, summary, the schema of its body if it has one, and that of its answer.
pub(crate) fn operation(name: &str, summary: &str, body: Option<&Value>, answer: &Value) -> Value {
    let mut it = json!({
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": { "description": "The answer", "content": { "application/json": { "schema": answer } } },
        }
    });
    if let Some(body) = body {
        let mut body = body.clone();
        allow_null(&mut body);
        it["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body } } });
    }
    it
}

/// Allows `null` for optional properties in all objects of a schema; it means the same as leaving them out.
fn allow_null(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if let Some(Value::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.iter_mut().for_each(allow_null);
    }
    if let Some(items) = schema.get_mut("items") {
        allow_null(items);
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &String| required.as_array().is_some_and(|all| all.iter().any(|n| n == name));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties.iter_mut() {
        allow_null(property);
        if !is_required(name) && property != &json!({}) {
            *property = or_null(property.take());
        }
    }
    if schema.get("additionalProperties") == Some(&json!(false)) {
        schema.insert("additionalProperties".to_owned(), json!({ "type": "null" }));
    }
}

/// Returns the schema of a token id.
pub(crate) fn token_schema(app: &App) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": app.vocabulary().saturating_sub(1), BY_MODEL: true })
}

/// Returns the schema of one or more texts, each a string or token ids.
pub(crate) fn several_schema(app: &App, most: usize) -> Value {
    let ids = json!({ "type": "array", "minItems": 1, "items": token_schema(app) });
    let item = json!({ "anyOf": [{ "type": "string" }, ids] });
    json!({ "anyOf": [
        { "type": "string" }, ids, { "type": "array", "minItems": 1, "maxItems": most, "items": item }
    ] })
}

/// Returns a conditional schema of objects: if `field` matches `given`, `other` must be present and match `needed`.
pub(crate) fn rule(field: &str, given: &Value, other: &str, needed: &Value) -> Value {
    let has = |name: &str, schema: &Value| json!({ "required": [name], "properties": { name: schema } });
    json!({ "if": has(field, given), "then": has(other, needed) })
}
