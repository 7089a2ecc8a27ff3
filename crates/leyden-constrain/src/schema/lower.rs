//! A schema rewritten: only what is enforced, with references that lead to `$defs` alone.
//!
//! What comes out says the same about values as what came in, or there is an error. So nothing that llguidance would
//! pass over, and none of its own options, gets to it; and everything recursive is bounded here first.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::keywords::{EXACT, FORMATS, Keyword, Shape, TYPES, integer_range, keyword};
use super::rewrite::{dependencies, negation, type_names};
use super::{Lowered, one_of, work};
use crate::error::{Error, ErrorKind};

/// How deep schemas may nest, references followed.
const MOST_DEPTH: usize = 200;
/// How deep values of `const`, `enum` and annotations may nest.
const MOST_VALUE_DEPTH: usize = 100;
/// How many schemas there may be in all.
const MOST_SCHEMAS: usize = 20_000;
/// The most digits of a divisor, zeros at either end aside.
const MOST_MULTIPLE_DIGITS: usize = 3;
/// The longest pattern, in bytes.
const MOST_PATTERN_BYTES: usize = 4 << 10;

/// Beside `oneOf` while a schema is rewritten: where it came from.
pub(super) const ORIGIN: &str = "x-origin";

/// Rewrites a schema.
pub(crate) fn lower(schema: &Value) -> Result<Lowered, Error> {
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
        Ok(Lowered { value: lowered, origins: lowering.origins })
    })
}

/// Refuses values so deep that walking them would be a danger; those from a parser are not.
fn check_value_depth(value: &Value) -> Result<(), Error> {
    let mut rest = vec![(value, 0)];
    while let Some((value, depth)) = rest.pop() {
        if depth > MOST_DEPTH + MOST_VALUE_DEPTH {
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

/// Where a schema stands.
struct Place {
    pointer: String,
    depth: usize,
    /// Whether it, or one around it below the root, has an address of its own.
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
    /// The schema's own address, without a fragment.
    id: &'a str,
    /// The number of the definition that each reference leads to.
    names: HashMap<String, usize>,
    /// Where each of them stands.
    origins: Vec<String>,
    defs: Vec<Value>,
    schemas: usize,
}

impl Lowering<'_> {
    fn schema(&mut self, schema: &Value, at: &Place) -> Result<Value, Error> {
        self.schemas += 1;
        if self.schemas > MOST_SCHEMAS {
            return Err(ErrorKind::TooComplex(format!("more than {MOST_SCHEMAS} JSON schemas in one")).into());
        }
        if at.depth > MOST_DEPTH {
            let what = format!("{}: JSON schemas nested deeper than {MOST_DEPTH}", at.pointer);
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
        // What keywords say that are put in other words.
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

    /// Drops a type beside a reference to a schema that has it anyway: alone, a reference may lead around in circles.
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

    /// What a reference becomes. Its target is rewritten at its first use, as deep as the reference stands, since that
    /// is how it is compiled.
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

/// The schema that calls itself by this name, and where it stands.
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

/// Lets a keyword pass that is not enforced but says nothing where it stands.
fn check_harmless(name: &str, value: &Value, map: &Map<String, Value>, pointer: &str) -> Result<(), Error> {
    let anything =
        |value: &Value| value == &Value::Bool(true) || value.as_object().is_some_and(Map::is_empty);
    let says_nothing = match name {
        "uniqueItems" => {
            let at_most_one = map.get("maxItems").and_then(Value::as_u64).is_some_and(|most| most <= 1);
            value == &Value::Bool(false) || at_most_one
        }
        "if" => !map.contains_key("then") && !map.contains_key("else"),
        "then" | "else" => !map.contains_key("if"),
        "minContains" | "maxContains" => !map.contains_key("contains"),
        "propertyNames" | "unevaluatedItems" | "unevaluatedProperties" => anything(value),
        "dependencies" | "dependentRequired" | "dependentSchemas" => {
            value.as_object().is_some_and(Map::is_empty)
        }
        _ => false,
    };
    if says_nothing { Ok(()) } else { Err(Error::schema(pointer, name, "this keyword is not supported")) }
}

fn check_pattern(name: &str, pattern: &str, pointer: &str) -> Result<(), Error> {
    if pattern.len() > MOST_PATTERN_BYTES {
        let what = format!("a pattern of {} bytes; {MOST_PATTERN_BYTES} are the most", pattern.len());
        return Err(Error::schema(pointer, name, what));
    }
    Ok(())
}

fn check_shape(name: &str, value: &Value, shape: Shape, pointer: &str) -> Result<(), Error> {
    let wrong = |what: &str| Err(Error::schema(pointer, name, what));
    let texts = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    match shape {
        Shape::Count if !value.is_u64() => wrong("must be a whole number that is not negative"),
        Shape::Number if name == "multipleOf" && value.is_number() => check_multiple(value, pointer),
        Shape::Number | Shape::Bound if value.is_number() => check_exact(name, value, pointer),
        Shape::Number => wrong("must be a number"),
        Shape::Bound if !value.is_boolean() => wrong("must be a number"),
        Shape::Text if !value.is_string() => wrong("must be a text"),
        Shape::Text if name == "pattern" => check_pattern(name, value.as_str().unwrap_or_default(), pointer),
        Shape::Texts if !texts(value) => wrong("must be a list of texts"),
        Shape::Types => {
            let known = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
            match value {
                Value::Array(types) if !types.is_empty() && types.iter().all(known) => Ok(()),
                value if known(value) => Ok(()),
                _ => wrong(&format!("must be one of {} or a list of them", TYPES.join(", "))),
            }
        }
        Shape::Value => check_exact(name, value, pointer),
        Shape::Values => match value {
            Value::Array(values) if !values.is_empty() => {
                values.iter().try_for_each(|value| check_exact(name, value, pointer))
            }
            _ => wrong("must be a list of at least one value"),
        },
        _ => Ok(()),
    }
}

/// Refuses divisors of many digits: telling their multiples takes a state for each remainder.
fn check_multiple(value: &Value, pointer: &str) -> Result<(), Error> {
    let divisor = value.as_f64().unwrap_or_default();
    let written = divisor.to_string();
    let digits = written.replace('.', "");
    if !(1e-9..=1e9).contains(&divisor) || digits.trim_matches('0').len() > MOST_MULTIPLE_DIGITS {
        let what =
            format!("{value}: only positive numbers of at most {MOST_MULTIPLE_DIGITS} digits are supported");
        return Err(Error::schema(pointer, "multipleOf", what));
    }
    Ok(())
}

/// Refuses numbers that the compiler would round.
fn check_exact(name: &str, value: &Value, pointer: &str) -> Result<(), Error> {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Number(number) => {
                let float = number.as_f64().unwrap_or(f64::INFINITY);
                if !float.is_finite() || float.abs() > EXACT {
                    return Err(Error::schema(
                        pointer,
                        name,
                        format!("{number} is beyond the exact numbers"),
                    ));
                }
            }
            Value::Array(items) => rest.extend(items),
            Value::Object(map) => rest.extend(map.values()),
            _ => {}
        }
    }
    Ok(())
}

/// Enforces `format` where it applies: texts by name, integers by their range.
fn apply_format(out: &mut Map<String, Value>, pointer: &str) -> Result<(), Error> {
    let Some(Value::String(format)) = out.get("format").cloned() else { return Ok(()) };
    if FORMATS.contains(&format.as_str()) {
        return Ok(());
    }
    out.remove("format");
    let is = |name: &str| match out.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|t| t == name),
        _ => true,
    };
    let constant = out.contains_key("const") || out.contains_key("enum");
    if is("string") && !constant {
        let what = format!("\"{format}\" is not supported; supported: {}", FORMATS.join(", "));
        return Err(Error::schema(pointer, "format", what));
    }
    let Some((least, greatest)) = integer_range(&format) else { return Ok(()) };
    let bound = |key: &str| out.get(key).and_then(Value::as_f64);
    let (minimum, maximum) = (bound("minimum"), bound("maximum"));
    out.insert("minimum".into(), Value::from(minimum.map_or(least, |m| m.max(least))));
    out.insert("maximum".into(), Value::from(maximum.map_or(greatest, |m| m.min(greatest))));
    Ok(())
}
