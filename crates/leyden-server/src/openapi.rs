//! The OpenAPI document: built from the table of routes, so that no endpoint is missing.

use crate::app::App;
use crate::auth::Access;
use crate::dialect::Dialect;
use crate::dialects::openai::OPENAI;
use crate::published::{self, or_null};
use crate::routes::Route;
use crate::schema::BY_MODEL;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// An operation: its name, what it does, the schema of its body if it takes one, and that of its answer.
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

/// Says of every object in a schema that `null` is the same as leaving a field out.
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

/// The ways in which requests to a route fail: status, and what it means.
fn failures(route: &Route, keys: bool) -> Vec<(&'static str, &'static str)> {
    let mut all =
        vec![("414", "The path is too long"), ("501", "The body has another transfer coding than `chunked`")];
    if !route.is_health() {
        all.push(("503", "There are too many connections, or the server closes"));
    }
    if !route.has_body() {
        all.push(("400", "The head is invalid: no host or several, or two lengths"));
    }
    if !keys && !route.is_health() {
        all.push(("403", "The Host is not one of this server's"));
    }
    if keys && route.access != Access::Open {
        all.push(("401", "There is no valid key"));
    }
    if keys && matches!(route.access, Access::Needs(_)) {
        all.push(("403", "The key may not do this"));
    }
    if route.has_body() {
        all.extend([
            ("400", "A field is invalid or not supported; `param` names it"),
            ("408", "The body does not arrive"),
            ("413", "The body is too large, or the answer could be"),
            ("415", "The body is not plain JSON"),
            ("500", "A fault of the server"),
            ("503", "The server closes, is overloaded, or took too long"),
        ]);
    }
    if route.has_body() || route.path.contains('{') {
        all.push(("404", "There is no such model"));
    }
    if route.generates {
        all.extend([
            ("422", "No token continues the grammar"),
            ("429", "The key's limit is reached, or too many requests wait"),
        ]);
    }
    all
}

/// Returns a route's operation, with the fields of the table of published fields added.
fn described(route: &Route, app: &App) -> Value {
    let mut operation = (route.describe)(app);
    if let Some(schema) = operation.pointer_mut(BODY) {
        published::extend(route.path, schema, app.strict);
    }
    operation
}

/// The JSON pointer from an operation to the schema of its body.
const BODY: &str = "/requestBody/content/application~1json/schema";

/// The document.
pub(crate) fn document(routes: &[Route], app: &App) -> Value {
    let keys = app.keys.is_some();
    let (mut paths, mut errors, mut names) = (Map::new(), Map::new(), Vec::new());
    for route in routes {
        let mut operation = described(route, app);
        if let Some(body) = operation.get_mut("requestBody").filter(|_| !app.strict) {
            open(body);
        }
        errors.insert(route.dialect.name.to_owned(), (route.dialect.error_schema)());
        operation["x-access"] = route.access.name().into();
        if route.access == Access::Open {
            operation["security"] = json!([]);
        }
        for (status, description) in failures(route, keys) {
            let mut response = json!({ "description": description, "content": { "application/json": { "schema": error_reference(route.dialect) } } });
            match status {
                "401" => response["headers"] = header("WWW-Authenticate", &json!({ "const": "Bearer" })),
                "429" | "503" => {
                    response["headers"] = header("Retry-After", &json!({ "type": "integer", "minimum": 1 }));
                }
                _ => {}
            }
            operation["responses"][status] = response;
        }
        operation["operationId"] = own_name(&mut names, &operation["operationId"], route.path).into();
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "leyden", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "security": if keys { json!([{ "key": [] }]) } else { json!([]) },
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": errors
        }
    })
}

/// Returns a unique name for an operation: an endpoint with several paths has the path added from the second on.
fn own_name(names: &mut Vec<String>, given: &Value, path: &str) -> String {
    let mut name = given.as_str().unwrap_or_default().to_owned();
    if names.contains(&name) {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        name.extend(path.chars().map(word));
    }
    names.push(name.clone());
    name
}

fn error_reference(dialect: &Dialect) -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", dialect.name) })
}

/// Says of objects in a schema that they may have fields that it does not name.
fn open(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("additionalProperties") == Some(&json!({ "type": "null" })) {
                map.shift_remove("additionalProperties");
            }
            map.values_mut().for_each(open);
        }
        Value::Array(items) => items.iter_mut().for_each(open),
        _ => {}
    }
}

/// The schemas of the bodies of all routes that take one, by path: what requests are held against.
pub(crate) fn bodies(routes: &[Route], app: &App) -> HashMap<&'static str, Value> {
    let body = |route: &Route| {
        let mut operation = described(route, app);
        let schema = operation.pointer_mut(BODY)?.take();
        Some((route.path, schema))
    };
    routes.iter().filter_map(body).collect()
}

fn header(name: &str, schema: &Value) -> Value {
    json!({ name: { "required": true, "schema": schema } })
}

/// The schema of a token id.
pub(crate) fn token_schema(app: &App) -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": app.vocabulary().saturating_sub(1), BY_MODEL: true })
}

/// The schema of one text or more, each as text or as tokens.
pub(crate) fn several_schema(app: &App, most: usize) -> Value {
    let ids = json!({ "type": "array", "minItems": 1, "items": token_schema(app) });
    let item = json!({ "anyOf": [{ "type": "string" }, ids] });
    json!({ "anyOf": [
        { "type": "string" }, ids, { "type": "array", "minItems": 1, "maxItems": most, "items": item }
    ] })
}

/// A schema for objects in which, where `field` is like the first schema, `other` is there and like the second.
pub(crate) fn rule(field: &str, given: &Value, other: &str, needed: &Value) -> Value {
    let has = |name: &str, schema: &Value| json!({ "required": [name], "properties": { name: schema } });
    json!({ "if": has(field, given), "then": has(other, needed) })
}

/// The schema of the events of a stream, whose data are like `chunk` and, at the end, the word `[DONE]` or an error.
pub(crate) fn events_schema(chunk: &Value) -> Value {
    json!({ "schema": {
        "type": "object",
        "required": ["data"],
        "properties": { "data": { "anyOf": [{ "const": "[DONE]" }, {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": { "anyOf": [chunk, error_reference(&OPENAI)] }
        }] } }
    } })
}

/// The schema of an answer with choices, or of a piece of one.
pub(crate) fn answer_schema(object: &str, choice: &Value, whole: bool) -> Value {
    let mut required = vec!["id", "object", "created", "model", "choices"];
    let mut usage = usage_schema();
    if whole {
        required.push("usage");
    } else {
        usage = or_null(usage);
    }
    json!({
        "type": "object",
        "required": required,
        "properties": {
            "id": { "type": "string" }, "object": { "const": object }, "created": { "type": "integer" },
            "model": { "type": "string" }, "choices": { "type": "array", "items": choice }, "usage": usage,
            "seed": { "type": "integer", "description": "With this seed the same request gives the same answer" },
            "system_fingerprint": { "type": "string" }
        }
    })
}

/// The schema of a usage.
fn usage_schema() -> Value {
    json!({
        "type": "object",
        "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": { "type": "integer" },
            "completion_tokens": { "type": "integer" },
            "total_tokens": { "type": "integer" },
            "prompt_tokens_details": { "type": "object", "properties": { "cached_tokens": { "type": "integer" } } }
        }
    })
}
