//! `oneOf`: exactly one of several schemas holds.
//!
//! A grammar cannot count. But where no two of the schemas can hold at once, `oneOf` is `anyOf`; and this is shown for
//! most that people write, whose alternatives differ in type, in a constant, or in which properties there are.

use serde_json::{Map, Value};

use super::keywords::TYPES;
use super::lower::ORIGIN;
use crate::error::{Error, ErrorKind};

/// Comparisons of two schemas, for all of a schema's `oneOf`.
const MOST_COMPARISONS: usize = 200_000;
/// How deep two schemas are compared.
const MOST_DEPTH: usize = 12;

/// Makes `anyOf` of every `oneOf`, or says which cannot be.
pub(super) fn resolve(schema: &mut Value) -> Result<(), Error> {
    let defs = schema.get("$defs").cloned().unwrap_or_default();
    let mut comparing = Comparing { defs: &defs, left: MOST_COMPARISONS };
    comparing.walk(schema)
}

struct Comparing<'a> {
    /// As they were before; `oneOf` and `anyOf` are alike here.
    defs: &'a Value,
    left: usize,
}

impl Comparing<'_> {
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
                // Constants may look like anything.
                let inner = map.iter_mut().filter(|(key, _)| !matches!(key.as_str(), "const" | "enum"));
                inner.map(|(_, value)| value).try_for_each(|value| self.walk(value))
            }
            _ => Ok(()),
        }
    }

    fn resolve_one(&mut self, map: &mut Map<String, Value>, origin: &str) -> Result<(), Error> {
        let around = types(map);
        let Some(Value::Array(mut options)) = map.shift_remove("oneOf") else { return Ok(()) };
        self.exclude_properties(&mut options, around);
        for (i, a) in options.iter().enumerate() {
            for (j, b) in options.iter().enumerate().skip(i + 1) {
                if !self.disjoint(a, b, around, 0)? {
                    let what = format!("alternatives {i} and {j} may hold at once, which is not supported");
                    return Err(Error::schema(origin, "oneOf", what));
                }
            }
        }
        let options = Value::Array(options);
        if map.contains_key("anyOf") {
            let mut both = Map::new();
            both.insert("anyOf".into(), options);
            match map.get_mut("allOf") {
                Some(Value::Array(all)) => all.push(Value::Object(both)),
                _ => {
                    map.insert("allOf".into(), Value::Array(vec![Value::Object(both)]));
                }
            }
        } else {
            map.insert("anyOf".into(), options);
        }
        Ok(())
    }

    /// Where every alternative of an object asks for one property, and says nothing else that could fail, exactly one
    /// holds when the others' properties are absent.
    fn exclude_properties(&self, options: &mut [Value], around: u8) {
        let only_required = |option: &Value| {
            let map = option.as_object()?;
            let [Value::String(name)] = map.get("required")?.as_array()?.as_slice() else { return None };
            let fits = around == OBJECT || types(map) == OBJECT;
            let plain = map.keys().all(|key| matches!(key.as_str(), "required" | "type"));
            (fits && plain).then(|| name.clone())
        };
        let Some(names) = options.iter().map(only_required).collect::<Option<Vec<String>>>() else { return };
        for (i, option) in options.iter_mut().enumerate() {
            let absent = names.iter().filter(|name| **name != names[i]).map(|name| (name.clone(), false.into()));
            if let Value::Object(map) = option {
                map.insert("properties".into(), Value::Object(absent.collect()));
            }
        }
    }

    fn target(&self, map: &Map<String, Value>) -> Option<&Value> {
        let name = map.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        self.defs.get(name)
    }

    /// Whether no value satisfies both. `around` are the types that values may have at all.
    fn disjoint(&mut self, a: &Value, b: &Value, around: u8, depth: usize) -> Result<bool, Error> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            Error::from(ErrorKind::TooComplex("telling the alternatives of `oneOf` apart".into()))
        })?;
        if depth > MOST_DEPTH {
            return Ok(false);
        }
        let (a, b) = match (a, b) {
            (Value::Object(a), Value::Object(b)) => (a, b),
            _ => return Ok(a == &Value::Bool(false) || b == &Value::Bool(false)),
        };
        let both = types(a) & types(b) & around;
        if both == 0 || self.parts_disjoint(a, b, around, depth)? || self.parts_disjoint(b, a, around, depth)? {
            return Ok(true);
        }
        if let (Some(a), Some(b)) = (constants(a), constants(b)) {
            return Ok(!a.iter().any(|a| b.iter().any(|b| same(a, b))));
        }
        Ok(match both {
            OBJECT => self.objects_disjoint(a, b, depth)? || self.objects_disjoint(b, a, depth)?,
            ARRAY => {
                let starts = |map: &Map<String, Value>| map.get("minItems").and_then(Value::as_u64) >= Some(1);
                match (a.get("items"), b.get("items")) {
                    (Some(x), Some(y)) if starts(a) || starts(b) => self.disjoint(x, y, ALL, depth + 1)?,
                    _ => false,
                }
            }
            both if both & !(NUMBER | INTEGER) == 0 => above(a, b) || above(b, a),
            _ => false,
        })
    }

    /// Whether what `a` says by its parts keeps it apart from `b`.
    fn parts_disjoint(
        &mut self,
        a: &Map<String, Value>,
        b: &Map<String, Value>,
        around: u8,
        depth: usize,
    ) -> Result<bool, Error> {
        let b = Value::Object(b.clone());
        if let Some(target) = self.target(a).cloned()
            && self.disjoint(&target, &b, around, depth + 1)?
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

    /// Whether a property that `a` requires cannot be had in `b`.
    fn objects_disjoint(
        &mut self,
        a: &Map<String, Value>,
        b: &Map<String, Value>,
        depth: usize,
    ) -> Result<bool, Error> {
        let properties = |map: &'_ Map<String, Value>, name: &str| map.get("properties")?.get(name).cloned();
        for name in a.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = name.as_str() else { continue };
            let there = properties(b, name);
            let forbidden = there.is_none()
                && !b.contains_key("patternProperties")
                && b.get("additionalProperties") == Some(&Value::Bool(false));
            if forbidden {
                return Ok(true);
            }
            let (Some(x), Some(y)) = (properties(a, name).or(Some(true.into())), there) else { continue };
            if self.disjoint(&x, &y, ALL, depth + 1)? {
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

/// The types of JSON that a schema lets through by itself, as bits. An integer is a number too.
fn types(map: &Map<String, Value>) -> u8 {
    let bits = |name: &str| match TYPES.iter().position(|t| *t == name) {
        Some(3) => NUMBER | INTEGER,
        Some(at) => 1 << at,
        None => 0,
    };
    let named = match map.get("type") {
        Some(Value::String(name)) => bits(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).fold(0, |all, name| all | bits(name)),
        _ => ALL,
    };
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

/// The only values that a schema lets through, if it lists them.
fn constants(map: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Whether two constants are equal for a validator; 1 and 1.0 are.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        // Containers may hold such numbers.
        _ => a == b || a.is_array() && b.is_array() || a.is_object() && b.is_object(),
    }
}

/// Whether every number of `a` is greater than those of `b`.
fn above(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let number = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_f64);
    let (low, low_open) = (number(a, "minimum"), number(a, "exclusiveMinimum"));
    let (high, high_open) = (number(b, "maximum"), number(b, "exclusiveMaximum"));
    let over = |low: Option<f64>, high: Option<f64>| low.zip(high).is_some_and(|(low, high)| low > high);
    let touches = |low: Option<f64>, high: Option<f64>| low.zip(high).is_some_and(|(low, high)| low >= high);
    over(low, high) || touches(low, high_open) || touches(low_open, high) || touches(low_open, high_open)
}
