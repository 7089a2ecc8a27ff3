//! Reduction of a schema to the enforced part of the language, with references only to `$defs`.
//!
//! The result accepts the same values as the input, or there is an error. So no keyword that llguidance would
//! ignore, and none of its own options, reaches it; and all recursion is limited here first.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::check::{apply_format, check_harmless, check_pattern, check_shape};
use super::keywords::{Keyword, keyword};
use super::one_of::{self, ORIGIN};
use super::rewrite::{dependencies, negation, type_names};
use super::{JsonForm, Lowered, work};
use crate::error::{Error, ErrorKind};

/// Maximum nesting depth of schemas, including references.
const MAX_DEPTH: usize = 200;
/// Maximum nesting depth of values in `const`, `enum` and annotations.
const MAX_VALUE_DEPTH: usize = 100;
/// Maximum number of schemas in all.
const MAX_SCHEMAS: usize = 20_000;

/// Reduces a schema for text in which duplicate items are detected.
pub(crate) fn lower_watched(schema: &Value, form: JsonForm) -> Result<Lowered, Error> {
    lower_as(schema, true, form)
}

/// Reduces a schema whose JSON is formatted as `form` says.
pub(crate) fn lower_as(schema: &Value, watched: bool, form: JsonForm) -> Result<Lowered, Error> {
    check_value_depth(schema)?;
    crate::own_stack::on_own_stack(|| {
        let id = ["$id", "id"].iter().find_map(|key| schema.get(key)?.as_str()).unwrap_or_default();
        let mut lowering = Lowering {
            root: schema,
            id: id.trim_end_matches('#'),
            names: HashMap::new(),
            origins: Vec::new(),
            defs: Vec::new(),
            schemas: 0,
        };
        let mut lowered =
            lowering.schema(schema, &Place { pointer: String::new(), depth: 0, own_id: false })?;
        let defs = std::mem::take(&mut lowering.defs);
        let defs: Map<String, Value> =
            defs.into_iter().enumerate().map(|(i, def)| (format!("r{i}"), def)).collect();
        if let Value::Object(map) = &mut lowered
            && !defs.is_empty()
        {
            map.insert("$defs".into(), Value::Object(defs));
        }
        one_of::resolve(&mut lowered)?;
        work::check(&lowered)?;
        Lowered::new(lowered, lowering.origins, watched, form)
    })
}

/// Refuses values nested so deeply that recursion over them could overflow the stack; parsers do not produce such
/// values.
fn check_value_depth(value: &Value) -> Result<(), Error> {
    let mut rest = vec![(value, 0)];
    while let Some((value, depth)) = rest.pop() {
        if depth > MAX_DEPTH + MAX_VALUE_DEPTH {
            return Err(ErrorKind::TooComplex("the JSON schema is nested too deep".into()).into());
        }
        match value {
            Value::Array(items) => rest.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => rest.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    Ok(())
}

/// Place of a schema.
struct Place {
    pointer: String,
    depth: usize,
    /// True if this schema, or one around it below the root, has an `$id` of its own.
    own_id: bool,
}

impl Place {
    fn below(&self, keyword: &str, name: Option<&str>) -> Place {
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        let mut pointer = format!("{}/{}", self.pointer, escaped(keyword));
        if let Some(name) = name {
            pointer.push('/');
            pointer.push_str(&escaped(name));
        }
        Place { pointer, depth: self.depth + 1, own_id: self.own_id }
    }
}

struct Lowering<'a> {
    root: &'a Value,
    /// Identifier of the root schema, without a fragment.
    id: &'a str,
    /// Index of each reference's definition.
    names: HashMap<String, usize>,
    /// Original place of each definition.
    origins: Vec<String>,
    defs: Vec<Value>,
    schemas: usize,
}

impl Lowering<'_> {
    fn schema(&mut self, schema: &Value, at: &Place) -> Result<Value, Error> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(ErrorKind::TooComplex(format!("more than {MAX_SCHEMAS} JSON schemas in one")).into());
        }
        if at.depth > MAX_DEPTH {
            let what = format!("{}: JSON schemas nested deeper than {MAX_DEPTH}", at.pointer);
            return Err(ErrorKind::TooComplex(what).into());
        }
        let map = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(map) => map,
            _ => {
                let (pointer, what) = (at.pointer.clone(), "a schema is an object or a boolean".into());
                return Err(ErrorKind::Schema { pointer, keyword: None, what }.into());
            }
        };
        let has_id =
            ["$id", "id"].iter().filter_map(|key| map.get(*key)?.as_str()).any(|id| !id.starts_with('#'));
        let at = Place {
            pointer: at.pointer.clone(),
            depth: at.depth,
            own_id: at.own_id || has_id && at.depth > 0,
        };
        let mut out = Map::new();
        // Equivalents of keywords that are rewritten.
        let mut rewritten = Vec::new();
        for (name, value) in map {
            match keyword(name) {
                Keyword::Annotation => {}
                Keyword::Unsupported => match (name.as_str(), negation(value), dependencies(value, map)) {
                    ("not", Some(said), _) => rewritten.push(said),
                    ("dependencies" | "dependentRequired", _, Some(said)) => rewritten.extend(said),
                    _ => check_harmless(name, value, map, &at.pointer)?,
                },
                Keyword::Reference => {
                    out.insert(name.clone(), Value::from(self.reference(value, &at)?));
                }
                Keyword::Plain(shape) => {
                    check_shape(name, value, shape, &at.pointer)?;
                    out.insert(name.clone(), value.clone());
                }
                Keyword::Schema => {
                    let lowered = match value {
                        Value::Array(items) if name == "items" => self.list(name, items, &at)?,
                        _ => self.schema(value, &at.below(name, None))?,
                    };
                    out.insert(name.clone(), lowered);
                }
                Keyword::List => {
                    let Value::Array(items) = value else {
                        return Err(Error::schema(&at.pointer, name, "must be a list of schemas"));
                    };
                    if name == "oneOf" {
                        out.insert(ORIGIN.into(), Value::from(at.pointer.as_str()));
                    }
                    let lowered = self.list(name, items, &at)?;
                    out.insert(name.clone(), lowered);
                }
                Keyword::Map => {
                    let Value::Object(schemas) = value else {
                        return Err(Error::schema(&at.pointer, name, "must be an object of schemas"));
                    };
                    let mut lowered = Map::new();
                    for (key, schema) in schemas {
                        if name == "patternProperties" {
                            check_pattern(name, key, &at.pointer)?;
                        }
                        lowered.insert(key.clone(), self.schema(schema, &at.below(name, Some(key)))?);
                    }
                    out.insert(name.clone(), Value::Object(lowered));
                }
            }
        }
        apply_format(&mut out, &at.pointer)?;
        self.drop_repeated_type(&mut out);
        if !rewritten.is_empty() {
            match out.get_mut("allOf") {
                Some(Value::Array(all)) => all.extend(rewritten),
                _ => {
                    out.insert("allOf".into(), Value::Array(rewritten));
                }
            }
        }
        Ok(Value::Object(out))
    }

    fn list(&mut self, name: &str, items: &[Value], at: &Place) -> Result<Value, Error> {
        let mut lowered = Vec::new();
        for (i, item) in items.iter().enumerate() {
            lowered.push(self.schema(item, &at.below(name, Some(&i.to_string())))?);
        }
        Ok(Value::Array(lowered))
    }

    /// Removes a type beside a reference to a schema of the same type, because a recursive reference must have no
    /// keywords beside it.
    fn drop_repeated_type(&self, out: &mut Map<String, Value>) {
        let Some(Value::String(reference)) = out.get("$ref") else { return };
        let index = reference.trim_start_matches("#/$defs/r").parse::<usize>();
        let target = index.ok().and_then(|index| self.root.pointer(self.origins.get(index)?));
        let there = target.and_then(|target| target.get("type")).and_then(type_names);
        let here = out.get("type").and_then(type_names);
        if let (Some(here), Some(there)) = (here, there)
            && there.iter().all(|name| here.contains(name))
        {
            out.shift_remove("type");
        }
    }

    /// Returns the new text of a reference. Its target is reduced at its first use, at the depth of the reference,
    /// since it is compiled at that depth.
    fn reference(&mut self, value: &Value, at: &Place) -> Result<String, Error> {
        let wrong = |what: &str| Error::schema(&at.pointer, "$ref", what);
        let Value::String(text) = value else { return Err(wrong("must be a text")) };
        let fragment = match text.split_once('#') {
            Some((address, fragment)) if address.is_empty() || address == self.id => fragment,
            None if text.is_empty() || text == self.id => "",
            _ => return Err(wrong("only references within the schema are followed; nothing is fetched")),
        };
        if at.own_id {
            return Err(wrong("is not followed inside a schema with an `$id` of its own"));
        }
        let fragment = percent_decoded(fragment).ok_or_else(|| wrong("is not a fragment in UTF-8"))?;
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment).map(|target| (fragment.clone(), target))
        } else {
            anchor(self.root, &fragment)
        };
        let (pointer, target) = target.ok_or_else(|| wrong("leads to nothing in this schema"))?;
        let index = match self.names.get(&pointer) {
            Some(&index) => index,
            None => {
                let index = self.defs.len();
                self.names.insert(pointer.clone(), index);
                self.origins.push(pointer.clone());
                self.defs.push(Value::Bool(true));
                let lowered = self.schema(target, &Place { pointer, depth: at.depth + 1, own_id: false })?;
                self.defs[index] = lowered;
                index
            }
        };
        Ok(format!("#/$defs/r{index}"))
    }
}

/// Returns the schema with this anchor, and its place.
fn anchor<'a>(root: &'a Value, name: &str) -> Option<(String, &'a Value)> {
    let mut rest = vec![(String::new(), root)];
    while let Some((pointer, value)) = rest.pop() {
        match value {
            Value::Object(map) => {
                let named = |key: &str, prefix: &str| {
                    map.get(key).and_then(Value::as_str).and_then(|text| text.strip_prefix(prefix))
                        == Some(name)
                };
                if named("$anchor", "") || named("$id", "#") || named("id", "#") {
                    return Some((pointer, value));
                }
                rest.extend(map.iter().map(|(key, item)| {
                    (format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), item)
                }));
            }
            Value::Array(items) => {
                rest.extend(items.iter().enumerate().map(|(i, item)| (format!("{pointer}/{i}"), item)));
            }
            _ => {}
        }
    }
    None
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |c: Option<u8>| char::from(c?).to_digit(16);
            bytes.push((digit(rest.next())? * 16 + digit(rest.next())?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}
