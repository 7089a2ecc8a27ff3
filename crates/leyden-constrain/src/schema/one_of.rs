//! `oneOf`: exactly one of several schemas is satisfied.
//!
//! A grammar cannot count. But if the schemas are mutually exclusive, `oneOf` equals `anyOf`; this is proved for
//! most schemas in use, whose alternatives differ in type, in a constant, or in their properties. If two objects
//! could satisfy both because each only requires properties of its own, each is narrowed by forbidding a property
//! that the other requires. All generated texts are valid; some valid texts are not generated.

use serde_json::{Map, Value, json};

use super::decimal::Decimal;
use super::keywords::TYPES;
use super::rewrite::type_names;
use crate::error::{Error, ErrorKind};

/// Temporary key beside `oneOf` with its original place.
pub(super) const ORIGIN: &str = "x-origin";

/// Maximum number of comparisons of two schemas, for all `oneOf` of a schema.
const MAX_COMPARISONS: usize = 100_000;
/// Maximum depth of the comparison of two schemas.
const MAX_DEPTH: usize = 12;

type Object = Map<String, Value>;

/// Replaces every `oneOf` by `anyOf`. Returns an error if the alternatives are not exclusive.
pub(super) fn resolve(schema: &mut Value) -> Result<(), Error> {
    let defs = schema.get("$defs").cloned().unwrap_or_default();
    let mut comparing = Comparing { defs: &defs, left: MAX_COMPARISONS };
    comparing.walk(schema)
}

struct Comparing<'a> {
    /// Definitions before the replacement; `oneOf` and `anyOf` are treated alike here.
    defs: &'a Value,
    left: usize,
}

/// Facts about a value.
#[derive(Clone, Default)]
struct Facts {
    types: u8,
    /// Properties that the value has if it is an object.
    required: Vec<String>,
}

impl Facts {
    const ANY: Facts = Facts { types: ALL, required: Vec::new() };
}

impl<'a> Comparing<'a> {
    fn walk(&mut self, value: &mut Value) -> Result<(), Error> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.walk(item)),
            Value::Object(map) => {
                if let Some(Value::String(origin)) = map.get(ORIGIN).cloned()
                    && map.get("oneOf").is_some_and(Value::is_array)
                {
                    map.shift_remove(ORIGIN);
                    self.resolve_one(map, &origin)?;
                }
                // Constants may contain any keys.
                let inner = map.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "const" | "enum"));
                inner.map(|(_, value)| value).try_for_each(|value| self.walk(value))
            }
            _ => Ok(()),
        }
    }

    fn resolve_one(&mut self, map: &mut Object, origin: &str) -> Result<(), Error> {
        let Some(Value::Array(options)) = map.shift_remove("oneOf") else { return Ok(()) };
        let around = self.facts(map, 0)?;
        let mut absent = vec![Object::new(); options.len()];
        for (i, a) in options.iter().enumerate() {
            for (j, b) in options.iter().enumerate().skip(i + 1) {
                if self.disjoint(a, b, &around, 0)? {
                    continue;
                }
                let Some((in_a, in_b)) = self.tell_apart(a, b, &around)? else {
                    let what = format!("alternatives {i} and {j} may hold at once, which is not supported");
                    return Err(Error::schema(origin, "oneOf", what));
                };
                absent[i].insert(in_b, Value::Bool(false));
                absent[j].insert(in_a, Value::Bool(false));
            }
        }
        let narrowed = options.into_iter().zip(absent).map(|(option, absent)| match absent.is_empty() {
            true => option,
            false => json!({ "allOf": [option, { "type": "object", "properties": absent }] }),
        });
        let options = Value::Array(narrowed.collect());
        if map.contains_key("anyOf") {
            match map.get_mut("allOf") {
                Some(Value::Array(all)) => all.push(json!({ "anyOf": options })),
                _ => {
                    map.insert("allOf".into(), json!([{ "anyOf": options }]));
                }
            }
        } else {
            map.insert("anyOf".into(), options);
        }
        Ok(())
    }

    /// Returns, for two schemas of objects, a property that only the first requires, and one that only the second
    /// does.
    fn tell_apart(
        &mut self,
        a: &Value,
        b: &Value,
        around: &Facts,
    ) -> Result<Option<(String, String)>, Error> {
        let (Value::Object(a), Value::Object(b)) = (a, b) else { return Ok(None) };
        let (a, b) = (self.facts(a, 0)?, self.facts(b, 0)?);
        if a.types & b.types & around.types != OBJECT {
            return Ok(None);
        }
        let only = |x: &Facts, y: &Facts| {
            x.required
                .iter()
                .find(|name| !y.required.contains(name) && !around.required.contains(name))
                .cloned()
        };
        Ok(only(&a, &b).zip(only(&b, &a)))
    }

    fn spend(&mut self) -> Result<(), Error> {
        let what = || Error::from(ErrorKind::TooComplex("telling the alternatives of `oneOf` apart".into()));
        self.left = self.left.checked_sub(1).ok_or_else(what)?;
        Ok(())
    }

    fn target(&self, map: &Object) -> Option<&'a Value> {
        let name = map.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        self.defs.get(name)
    }

    /// Returns the facts about every value that a schema accepts, including its references and `allOf`.
    fn facts(&mut self, map: &Object, depth: usize) -> Result<Facts, Error> {
        self.spend()?;
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut facts = Facts {
            types: types(map),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        if depth > MAX_DEPTH {
            return Ok(facts);
        }
        let all = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        for part in all.chain(self.target(map)) {
            if let Value::Object(part) = part {
                let part = self.facts(part, depth + 1)?;
                facts.types &= part.types;
                facts.required.extend(part.required);
            }
        }
        Ok(facts)
    }

    /// Returns whether no value satisfies both schemas, given the facts in `around`.
    fn disjoint(&mut self, a: &Value, b: &Value, around: &Facts, depth: usize) -> Result<bool, Error> {
        self.spend()?;
        if depth > MAX_DEPTH {
            return Ok(false);
        }
        let (a, b) = match (a, b) {
            (Value::Object(a), Value::Object(b)) => (a, b),
            _ => return Ok(a == &Value::Bool(false) || b == &Value::Bool(false)),
        };
        let both = types(a) & types(b) & around.types;
        if both == 0 {
            return Ok(true);
        }
        if self.parts_disjoint(a, b, around, depth)? || self.parts_disjoint(b, a, around, depth)? {
            return Ok(true);
        }
        if let (Some(a), Some(b)) = (constants(a), constants(b)) {
            return Ok(!a.iter().any(|a| b.iter().any(|b| same(a, b))));
        }
        Ok(match both {
            OBJECT => {
                self.objects_disjoint(a, b, around, depth)? || self.objects_disjoint(b, a, around, depth)?
            }
            ARRAY => {
                let starts = |map: &Object| map.get("minItems").and_then(Value::as_u64) >= Some(1);
                match (a.get("items"), b.get("items")) {
                    // A list of schemas has one for each position.
                    (Some(x), Some(y)) if (starts(a) || starts(b)) && !x.is_array() && !y.is_array() => {
                        let first = |map: &Object| map.contains_key("prefixItems");
                        !first(a) && !first(b) && self.disjoint(x, y, &Facts::ANY, depth + 1)?
                    }
                    _ => false,
                }
            }
            both if both & !(NUMBER | INTEGER) == 0 => above(a, b) || above(b, a),
            _ => false,
        })
    }

    /// Returns whether the parts of `a` make it exclusive with `b`.
    fn parts_disjoint(
        &mut self,
        a: &Object,
        b: &Object,
        around: &Facts,
        depth: usize,
    ) -> Result<bool, Error> {
        let applied = ["allOf", "anyOf", "oneOf"];
        if !a.contains_key("$ref") && !applied.iter().any(|key| a.contains_key(*key)) {
            return Ok(false);
        }
        let b = Value::Object(b.clone());
        if let Some(target) = self.target(a)
            && self.disjoint(target, &b, around, depth + 1)?
        {
            return Ok(true);
        }
        for part in a.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if self.disjoint(part, &b, around, depth + 1)? {
                return Ok(true);
            }
        }
        for key in ["anyOf", "oneOf"] {
            let Some(options) = a.get(key).and_then(Value::as_array) else { continue };
            let mut all = true;
            for option in options {
                all = all && self.disjoint(option, &b, around, depth + 1)?;
            }
            if all {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether a property that every value of both must have is impossible in `b`.
    fn objects_disjoint(
        &mut self,
        a: &Object,
        b: &Object,
        around: &Facts,
        depth: usize,
    ) -> Result<bool, Error> {
        let property = |map: &Object, name: &str| map.get("properties")?.get(name).cloned();
        let closed = !b.contains_key("patternProperties")
            && b.get("additionalProperties") == Some(&Value::Bool(false));
        let mut required = self.facts(a, 0)?.required;
        required.extend(around.required.iter().cloned());
        for name in required {
            let there = property(b, &name);
            if there.is_none() && closed {
                return Ok(true);
            }
            let (here, Some(there)) = (property(a, &name).unwrap_or(Value::Bool(true)), there) else {
                continue;
            };
            if self.disjoint(&here, &there, &Facts::ANY, depth + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

const INTEGER: u8 = 1 << 2;
const NUMBER: u8 = 1 << 3;
const ARRAY: u8 = 1 << 5;
const OBJECT: u8 = 1 << 6;
const ALL: u8 = (1 << 7) - 1;

/// Returns the types of a name, as bits. Integers are numbers too.
fn bits(name: &str) -> u8 {
    match TYPES.iter().position(|t| *t == name) {
        Some(3) => NUMBER | INTEGER,
        Some(at) => 1 << at,
        None => 0,
    }
}

/// Returns the types that a schema by itself accepts.
fn types(map: &Object) -> u8 {
    let named = map.get("type").and_then(type_names);
    let named = named.map_or(ALL, |names| names.into_iter().fold(0, |all, name| all | bits(name)));
    let constant = constants(map).map(|values| {
        values.iter().fold(0, |all, value| {
            all | match value {
                Value::Null => bits("null"),
                Value::Bool(_) => bits("boolean"),
                Value::Number(_) => bits("number"),
                Value::String(_) => bits("string"),
                Value::Array(_) => ARRAY,
                Value::Object(_) => OBJECT,
            }
        })
    });
    named & constant.unwrap_or(ALL)
}

/// Returns the values that a schema lists, if it does.
fn constants(map: &Object) -> Option<Vec<&Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Returns whether two constants may be equal for a validator, as 1 and 1.0 are.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        // Containers may contain such numbers.
        _ => a == b || a.is_array() && b.is_array() || a.is_object() && b.is_object(),
    }
}

/// Returns whether every number of `a` is greater than those of `b`.
fn above(a: &Object, b: &Object) -> bool {
    let number = |map: &Object, key: &str| Decimal::new(map.get(key)?.as_number()?);
    let (low, low_open) = (number(a, "minimum"), number(a, "exclusiveMinimum"));
    let (high, high_open) = (number(b, "maximum"), number(b, "exclusiveMaximum"));
    let over = |low: &Option<Decimal>, high: &Option<Decimal>| {
        low.as_ref().zip(high.as_ref()).is_some_and(|(l, h)| l > h)
    };
    let touches = |low: &Option<Decimal>, high: &Option<Decimal>| {
        low.as_ref().zip(high.as_ref()).is_some_and(|(l, h)| l >= h)
    };
    over(&low, &high)
        || touches(&low, &high_open)
        || touches(&low_open, &high)
        || touches(&low_open, &high_open)
}
