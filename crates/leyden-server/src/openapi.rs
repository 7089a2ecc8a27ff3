//! The OpenAPI document, built from the table of routes, so that it has every endpoint.

use crate::app::App;
use crate::auth::Access;
use crate::published;
use crate::route::Route;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Returns status and meaning of the failures of a route.
fn failures(route: &Route, keys: bool) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![("414", "The path is too long"), ("501", "The transfer coding is not `chunked`")];
    if !route.is_health() {
        all.push(("503", "There are too many connections, or the server is shutting down"));
    }
    if !route.has_body() {
        all.push(("400", "The headers are invalid: no Host or several, or two lengths"));
    }
    if !keys && !route.is_health() {
        all.push(("403", "The Host is not allowed"));
    }
    if keys && route.access != Access::Open {
        all.push(("401", "The API key is missing or not valid"));
    }
    if keys && matches!(route.access, Access::Needs(_)) {
        all.push(("403", "The API key lacks the scope"));
    }
    if route.has_body() {
        all.extend([
            ("400", "A field is invalid or not supported; `param` names it"),
            ("408", "The body arrives too slowly"),
            ("413", "The body, or the maximum size of the answer, is too large"),
            ("415", "The content type is not the endpoint's, or the body is compressed"),
            ("500", "Internal error"),
            ("503", "The server is shutting down or overloaded, or the request took too long"),
        ]);
    }
    if route.has_body() || route.path.contains('{') {
        all.push(("404", "The model, or what the request names, does not exist"));
    }
    if route.generates {
        all.extend([
            ("422", "No token continues the grammar"),
            ("429", "The key's rate limit is exceeded, or too many requests are waiting"),
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

/// Returns the document.
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
            let mut response = json!({ "description": description, "content": { "application/json": { "schema": route.dialect.error_reference() } } });
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

/// Allows further properties in the objects of a schema.
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

/// Returns the schemas of the request bodies of all routes, by path, for validation.
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
