//! Validation of requests against the schemas of the OpenAPI document.
//!
//! Every field has one definition, which is data: the document describes what is enforced, and the tests of edge values
//! are derived from it. Code that reads a validated body can rely on the types of its fields.
//!
//! The keywords of JSON Schema that the document uses are supported. `null` for an optional field means the same as
//! leaving it out, and is removed. Unknown fields are removed, too, and their names are returned; with `strict` they
//! are an error. Rules about several fields (`if`, `allOf`) are checked by the code that reads them.

use crate::error::ApiError;
use crate::fields::{self, kind, wrong};
use crate::media;
use crate::published::{self, same};
use leyden_text::check_json_text;
use serde_json::{Map, Value, json};
use std::fmt;

/// Key in a schema whose `enum` or `maximum` covers all models; the code that reads the value checks the limit of the
/// model.
pub(crate) const BY_MODEL: &str = "x-by-model";

/// The only `pattern`: names of tools, as templates and grammars accept them.
pub(crate) const WORD: &str = "^[a-zA-Z0-9_.-]{1,64}$";

/// Returns the schema of a field that is refused unless it is null; `instead` tells the client an alternative.
pub(crate) fn refused(instead: &str) -> Value {
    json!({ "not": {}, "description": instead })
}

/// Maximum number of unknown fields that are reported by name.
const MAX_NAMES: usize = 16;
/// Maximum length of a reported name in characters.
const NAME_CHARS: usize = 128;

/// Validates a body. Returns the names of its unknown fields.
///
/// # Errors
/// 400: a value violates the schema, named by its path; with `strict` also an unknown field.
pub(crate) fn check(schema: &Value, body: &mut Value, strict: bool) -> Result<Vec<String>, ApiError> {
    if !body.is_object() {
        return Err(ApiError::body(format!("the body must be an object, not {}", kind(body))));
    }
    let mut checker = Checker { strict, unknown: Vec::new() };
    checker.value(schema, body, At::Body)?;
    Ok(checker.unknown)
}

/// Path of a value in a body.
#[derive(Clone, Copy)]
enum At<'a> {
    Body,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Body => Ok(()),
            At::Field(At::Body, name) => shown(name, f),
            At::Field(outer, name) => {
                write!(f, "{outer}.")?;
                shown(name, f)
            }
            At::Item(outer, i) => write!(f, "{outer}[{i}]"),
        }
    }
}

fn shown(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(name.char_indices().nth(NAME_CHARS).map_or(name, |(end, _)| &name[..end]))
}

struct Checker {
    strict: bool,
    unknown: Vec<String>,
}

impl Checker {
    fn value(&mut self, schema: &Value, value: &mut Value, at: At<'_>) -> Result<(), ApiError> {
        if let Some(Value::Array(branches)) = schema.get("anyOf") {
            return self.any(branches, value, at);
        }
        if schema.get("not").is_some_and(|not| not == &json!({})) {
            let instead = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            return Err(ApiError::unsupported(at.to_string(), format!("`{at}` is not supported: {instead}")));
        }
        if !has_type(schema, value) {
            return Err(wrong(&at.to_string(), &wanted(std::iter::once(schema)), value));
        }
        listed(schema, value, at)?;
        match value {
            Value::Number(_) => number(schema, value, at),
            Value::String(text) => check_text(schema, text, at),
            Value::Array(items) => {
                let (low, high) = (size(schema, "minItems"), size(schema, "maxItems"));
                if items.len() < low.unwrap_or(0) || items.len() > high.unwrap_or(usize::MAX) {
                    let high = high.map_or_else(|| "any number".to_owned(), |n| n.to_string());
                    let message =
                        format!("`{at}` has {} items, not {} to {high}", items.len(), low.unwrap_or(0));
                    return Err(ApiError::field(at.to_string(), message));
                }
                let Some(of_items) = schema.get("items") else { return Ok(()) };
                items
                    .iter_mut()
                    .enumerate()
                    .try_for_each(|(i, item)| self.value(of_items, item, At::Item(&at, i)))
            }
            Value::Object(map) => self.object(schema, map, at),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn object(&mut self, schema: &Value, map: &mut Map<String, Value>, at: At<'_>) -> Result<(), ApiError> {
        if let Some(most) = size(schema, "maxProperties").filter(|most| map.len() > *most) {
            let message = format!("`{at}` has {} entries; the maximum is {most}", map.len());
            return Err(ApiError::field(at.to_string(), message));
        }
        if let Some(most) = schema.get("propertyNames").and_then(|names| size(names, "maxLength"))
            && let Some(name) = map.keys().find(|name| name.chars().count() > most)
        {
            let at = At::Field(&at, name).to_string();
            let message =
                format!("`{at}`: the name has {} characters; the maximum is {most}", name.chars().count());
            return Err(ApiError::field(at, message));
        }
        if let Some(Value::Array(reserved)) = schema.pointer("/propertyNames/not/enum")
            && let Some(name) = map.keys().find(|name| reserved.iter().any(|r| r == name.as_str()))
        {
            let at = At::Field(&at, name).to_string();
            let message =
                format!("`{at}`: the server sets the template's variable `{name}`; it cannot be set here");
            return Err(ApiError::field(at, message));
        }
        let others = schema.get("additionalProperties");
        let Some(Value::Object(properties)) = schema.get("properties") else {
            return match others.filter(|others| others.is_object()) {
                Some(others) => map
                    .iter_mut()
                    .try_for_each(|(name, value)| self.value(others, value, At::Field(&at, name))),
                None => needed(schema, map, at),
            };
        };
        // In the document `false` becomes the type `null`, as `null` stands for a missing field.
        let closed =
            others.is_some_and(|o| o == &Value::Bool(false) || o.get("type").is_some_and(|t| t == "null"));
        for (name, value) in map.iter_mut().filter(|(_, value)| !value.is_null()) {
            let at = At::Field(&at, name);
            let schema = properties.get(name);
            if schema.is_none_or(|schema| size(schema, "maxItems") == Some(0))
                && let Some(refusal) = media::of_field(&at.to_string(), name, value)
            {
                return Err(refusal);
            }
            match schema {
                Some(schema) if published::ignores(schema, value) => {
                    self.ignore(at);
                    *value = Value::Null;
                }
                Some(schema) => {
                    if let Some(reason) = published::refuses(schema, value) {
                        return Err(ApiError::unsupported(at.to_string(), format!("`{at}`: {reason}")));
                    }
                    self.value(schema, value, at)?;
                }
                None if !closed => {}
                None if self.strict => {
                    return Err(ApiError::unsupported(at.to_string(), format!("`{at}` is not supported")));
                }
                None => self.ignore(at),
            }
        }
        needed(schema, map, at)?;
        map.retain(|name, value| if properties.contains_key(name) { !value.is_null() } else { !closed });
        Ok(())
    }

    fn ignore(&mut self, at: At<'_>) {
        if self.unknown.len() < MAX_NAMES {
            self.unknown.push(at.to_string());
        }
    }

    /// Validates against one of several schemas, chosen by the value's type, then by a field that distinguishes them.
    fn any(&mut self, branches: &[Value], value: &mut Value, at: At<'_>) -> Result<(), ApiError> {
        let mut fitting: Vec<&Value> = branches.iter().filter(|branch| fits(branch, value)).collect();
        if fitting.is_empty() {
            // If lists are allowed, the first item has the wrong type.
            let lists = branches.iter().filter(|branch| has_type(branch, value));
            let items: Vec<Value> = lists.filter_map(|branch| branch.get("items").cloned()).collect();
            if let Some(first) = value.as_array_mut().and_then(|all| all.first_mut())
                && !items.is_empty()
            {
                return self.any(&items, first, At::Item(&at, 0));
            }
            return Err(wrong(&at.to_string(), &wanted(branches.iter()), value));
        }
        if fitting.len() > 1
            && let Some(map) = value.as_object()
            && let Some(name) = distinguishing(&fitting)
        {
            let at = At::Field(&at, name);
            let names = |branch: &Value| choices(branch.get("properties").and_then(|p| p.get(name)));
            let known: Vec<Value> = fitting.iter().flat_map(|branch| names(branch)).collect();
            let given = map.get(name).filter(|given| !given.is_null());
            fitting.retain(|branch| {
                given.map_or(!requires(branch, name), |given| {
                    names(branch).contains(given)
                        || excluded(branch, name).is_some_and(|all| !all.contains(given))
                })
            });
            if fitting.is_empty() {
                return Err(if given.is_some() { not_one_of(at, &known, given) } else { missing(at) });
            }
        }
        if let [one] = fitting[..] {
            return self.value(one, value, at);
        }
        let mut first = None;
        for branch in fitting {
            let (mut copy, mut trial) = (value.clone(), Checker { strict: self.strict, unknown: Vec::new() });
            match trial.value(branch, &mut copy, at) {
                Ok(()) => {
                    *value = copy;
                    self.unknown.append(&mut trial.unknown);
                    return Ok(());
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| ApiError::field(at.to_string(), format!("`{at}` is not supported"))))
    }
}

/// Checks that the required fields of an object are present.
fn needed(schema: &Value, map: &Map<String, Value>, at: At<'_>) -> Result<(), ApiError> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let mut absent =
        required.filter_map(Value::as_str).filter(|name| map.get(*name).is_none_or(Value::is_null));
    absent.next().map_or(Ok(()), |name| Err(missing(At::Field(&at, name))))
}

fn missing(at: At<'_>) -> ApiError {
    let error = ApiError::field(at.to_string(), format!("`{at}` is missing"));
    ApiError { code: "missing_required_parameter", ..error }
}

fn not_one_of(at: At<'_>, known: &[Value], given: Option<&Value>) -> ApiError {
    if let Some(refusal) = media::of_type(&at.to_string(), given) {
        return refusal;
    }
    let mut names: Vec<String> = known
        .iter()
        .filter(|v| !v.is_null())
        .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
        .collect();
    names.dedup();
    ApiError::field(at.to_string(), format!("`{at}` is not one of {}", names.join(", ")))
}

/// Checks `const` and `enum`.
fn listed(schema: &Value, value: &Value, at: At<'_>) -> Result<(), ApiError> {
    let known = choices(Some(schema));
    if known.is_empty() || schema.get(BY_MODEL).is_some() || known.iter().any(|k| same(k, value)) {
        return Ok(());
    }
    Err(not_one_of(at, &known, Some(value)))
}

/// Returns the values of a schema's `const` or `enum`; none if it has neither.
fn choices(schema: Option<&Value>) -> Vec<Value> {
    let Some(schema) = schema else { return Vec::new() };
    match (schema.get("const"), schema.get("enum"), schema.get("anyOf")) {
        (Some(one), ..) => vec![one.clone()],
        (_, Some(Value::Array(all)), _) => all.clone(),
        // The document's form of a nullable value.
        (.., Some(Value::Array(branches))) => {
            branches.iter().flat_map(|branch| choices(Some(branch))).collect()
        }
        _ => Vec::new(),
    }
}

fn number(schema: &Value, value: &Value, at: At<'_>) -> Result<(), ApiError> {
    let bound = |name| schema.get(name).filter(|_| name == "minimum" || schema.get(BY_MODEL).is_none());
    let (low, high) = (bound("minimum"), bound("maximum"));
    if types(schema).any(|t| t == "integer") {
        let whole = |bound: Option<&Value>, other| bound.and_then(Value::as_i64).unwrap_or(other);
        return fields::integer(&at.to_string(), value, whole(low, i64::MIN)..=whole(high, i64::MAX))
            .map(drop);
    }
    let real = |bound: Option<&Value>, other| bound.and_then(Value::as_f64).unwrap_or(other);
    fields::number(&at.to_string(), value, real(low, f64::MIN)..=real(high, f64::MAX)).map(drop)
}

fn check_text(schema: &Value, text: &str, at: At<'_>) -> Result<(), ApiError> {
    if size(schema, "minLength").is_some_and(|least| text.len() < least) {
        return Err(ApiError::field(at.to_string(), format!("`{at}` is empty")));
    }
    // JSON Schema counts characters, not bytes.
    if let Some(most) = size(schema, "maxLength").filter(|most| text.len() > *most)
        && text.chars().count() > most
    {
        let message = format!("`{at}` has {} characters; the maximum is {most}", text.chars().count());
        return Err(ApiError::field(at.to_string(), message));
    }
    let in_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if schema.get("pattern").is_some_and(|p| p == WORD) && (text.is_empty() || !text.chars().all(in_word)) {
        let message = format!("`{at}` may contain only letters, digits, `_`, `-` and `.`");
        return Err(ApiError::field(at.to_string(), message));
    }
    if schema.get("contentMediaType").is_some_and(|kind| kind == "application/json")
        && !text.trim().is_empty()
    {
        check_json_text(text).map_err(|e| {
            ApiError::field(at.to_string(), format!("`{at}` is not JSON: {}, at byte {}", e.what, e.at))
        })?;
    }
    Ok(())
}

fn size(schema: &Value, name: &str) -> Option<usize> {
    schema.get(name).and_then(Value::as_u64).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// Returns the types that a schema allows.
fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let of = schema.get("type");
    let many = of.and_then(Value::as_array).into_iter().flatten();
    of.filter(|of| of.is_string()).into_iter().chain(many).filter_map(Value::as_str)
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let mut any = false;
    let is = |name: &str| match (name, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        // Integers are checked with the range.
        | ("number" | "integer", Value::Number(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    };
    types(schema).inspect(|_| any = true).any(is) || !any
}

/// Returns true if a value has the type of a schema; for lists the first item decides.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(Value::Array(branches)) = schema.get("anyOf") {
        return branches.iter().any(|branch| fits(branch, value));
    }
    let known = choices(Some(schema));
    if !known.is_empty() && schema.get("type").is_none() {
        return known.iter().any(|k| kind(k) == kind(value));
    }
    let first = value.as_array().and_then(|items| items.first());
    has_type(schema, value)
        && first.is_none_or(|first| schema.get("items").is_none_or(|items| fits(items, first)))
}

/// Returns the field that distinguishes these schemas. A schema that does not require the field is chosen without it.
fn distinguishing<'a>(branches: &[&'a Value]) -> Option<&'a str> {
    let names = |branch: &'a Value| branch.get("properties").and_then(Value::as_object).into_iter().flatten();
    let names_it = |branch: &&Value, name: &str| {
        !choices(branch.get("properties").and_then(|p| p.get(name))).is_empty()
            || excluded(branch, name).is_some()
    };
    let first = names(branches.first()?).map(|(name, _)| name.as_str());
    first.into_iter().find(|name| branches.iter().all(|branch| names_it(branch, name)))
}

/// Returns the values that the schema of an object excludes for one of its fields.
fn excluded<'a>(schema: &'a Value, name: &str) -> Option<&'a Vec<Value>> {
    schema.get("properties")?.get(name)?.get("not")?.get("enum")?.as_array()
}

/// Returns true if an object's schema requires a field.
fn requires(schema: &Value, name: &str) -> bool {
    schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|required| required.iter().any(|n| n == name))
}

/// Returns the expected types or values of schemas, in words.
fn wanted<'a>(schemas: impl Iterator<Item = &'a Value>) -> String {
    let word = |name: &str| match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" => "an object",
        _ => "",
    };
    let mut words: Vec<String> = Vec::new();
    for schema in schemas {
        match schema.get("anyOf") {
            Some(Value::Array(branches)) => words.push(wanted(branches.iter())),
            _ => words.extend(types(schema).map(|t| word(t).to_owned())),
        }
        let named = choices(Some(schema)).into_iter().filter(|_| schema.get("type").is_none());
        words.extend(named.filter(|v| v.is_string()).map(|_| "a text".to_owned()));
    }
    words.retain(|word| !word.is_empty());
    let mut seen: Vec<String> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    if seen.is_empty() { "something else".to_owned() } else { seen.join(" or ") }
}

/// Merges the properties of schemas.
pub(crate) fn with(mut schema: Value, more: Value) -> Value {
    if let (Value::Object(all), Value::Object(more)) = (&mut schema, more) {
        all.extend(more);
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(schema: &Value, mut body: Value) -> Result<Value, String> {
        check(schema, &mut body, false)
            .map(|_| body)
            .map_err(|e| format!("{}: {}", e.param.unwrap_or_default(), e.message))
    }

    #[test]
    fn values_are_held_against_their_schemas() {
        let part = |kind: &str| {
            json!({ "type": "object", "additionalProperties": false, "required": ["type", kind],
                "properties": { "type": { "const": kind }, kind: { "type": "string", "maxLength": 3 } } })
        };
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["must"],
            "properties": {
                "must": {}, "n": { "type": ["integer", "null"], "minimum": 1, "maximum": 8 },
                "x": { "type": "number", "minimum": 0, "maximum": 1 },
                "word": { "anyOf": [{ "enum": ["a", "b"] }, { "type": "null" }] },
                "parts": { "anyOf": [{ "type": "string" }, { "type": "array", "minItems": 1, "maxItems": 2,
                    "items": { "anyOf": [part("text"), part("image")] } }] },
                "ids": { "anyOf": [{ "type": "array", "items": { "type": "integer" } },
                    { "type": "array", "items": { "type": "string" } }] },
                "free": { "type": "object" }, "no": refused("leave it out"),
                "kinds": { "type": "array", "items": { "anyOf": [part("text"), { "type": "object", "required": ["type"],
                    "properties": { "type": { "type": "string", "not": { "enum": ["text"] } } } }] } },
                "items": { "type": "array", "items": { "anyOf": [
                    { "type": "object", "required": ["x"], "properties": { "type": { "const": "plain" }, "x": {} } },
                    { "type": "object", "required": ["type", "y"],
                      "properties": { "type": { "const": "other" }, "y": { "type": "integer" } } }
                ] } },
            }
        });
        let with = |name: &str, value: Value| json!({ "must": 1, name: value });
        for (name, value) in [
            ("n", json!(1)),
            ("n", json!(8.0)),
            ("n", json!(null)),
            ("x", json!(1)),
            ("word", json!("b")),
            ("parts", json!("any")),
            ("parts", json!([{ "type": "image", "image": "äöü" }])),
            ("ids", json!(["a"])),
            ("free", json!({ "any": null })),
            ("items", json!([{ "x": 1 }, { "type": "plain", "x": 1 }, { "type": "other", "y": 1 }])),
            ("kinds", json!([{ "type": "text", "text": "abc" }, { "type": "any", "more": [null] }])),
            ("no", json!(null)),
            ("unknown", json!(1)),
        ] {
            let read = checked(&schema, with(name, value.clone()));
            let kept =
                if value.is_null() || name == "unknown" { json!({ "must": 1 }) } else { with(name, value) };
            assert_eq!(read, Ok(kept), "{name}");
        }
        for (body, wanted) in [
            (json!({}), "must: `must` is missing"),
            (json!({ "must": null }), "must: `must` is missing"),
            (with("n", json!(0)), "n: `n` is not between 1 and 8"),
            (with("n", json!(1.5)), "n: `n` must be an integer, not a fraction"),
            (with("n", json!("1")), "n: `n` must be an integer, not a text"),
            (with("x", json!(1.5)), "x: `x` is not between 0 and 1"),
            (with("word", json!("c")), "word: `word` is not one of a, b"),
            (with("word", json!(1)), "word: `word` must be a text, not an integer"),
            (with("parts", json!(1)), "parts: `parts` must be a text or a list, not an integer"),
            (with("parts", json!([])), "parts: `parts` has 0 items, not 1 to 2"),
            (with("parts", json!([3])), "parts[0]: `parts[0]` must be an object, not an integer"),
            (with("ids", json!([null])), "ids[0]: `ids[0]` must be an integer or a text, not null"),
            (with("ids", json!([[1]])), "ids[0]: `ids[0]` must be an integer or a text, not a list"),
            (with("parts", json!([{}])), "parts[0].type: `parts[0].type` is missing"),
            (
                with("parts", json!([{ "type": "x" }])),
                "parts[0].type: `parts[0].type` is not one of text, image",
            ),
            (
                with("parts", json!([{ "type": "text", "text": "four" }])),
                "parts[0].text: `parts[0].text` has 4 characters; the maximum is 3",
            ),
            (with("no", json!(1)), "no: `no` is not supported: leave it out"),
            (with("kinds", json!([{ "type": "text" }])), "kinds[0].text: `kinds[0].text` is missing"),
            (
                with("kinds", json!([{ "type": 1 }])),
                "kinds[0].type: `kinds[0].type` must be a text, not an integer",
            ),
            (with("items", json!([{ "y": 1 }])), "items[0].x: `items[0].x` is missing"),
            (
                with("items", json!([{ "type": "x" }])),
                "items[0].type: `items[0].type` is not one of plain, other",
            ),
            (with("ids", json!([1, "a"])), "ids[1]: `ids[1]` must be an integer, not a text"),
        ] {
            assert_eq!(checked(&schema, body), Err(wanted.to_owned()));
        }
        let mut odd = json!({ "must": 1, "other": 1, "parts": [{ "type": "text", "text": "", "more": {} }] });
        let strict = check(&schema, &mut odd.clone(), true).unwrap_err();
        assert_eq!((strict.param.as_deref(), strict.code), (Some("other"), "unsupported_parameter"));
        assert_eq!(check(&schema, &mut odd, false).unwrap(), ["other", "parts[0].more"]);
        assert_eq!(odd, json!({ "must": 1, "parts": [{ "type": "text", "text": "" }] }));
    }
}
