//! Conversion of a reduced schema to the values that it accepts.

use std::collections::HashSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::decimal::{Bound, Decimal, stricter};
use super::formats;
use super::keywords::integer_range;
use super::rewrite::type_names;
use super::text::Pattern;
use super::values::{
    ArrayValues, Definitions, KeyPattern, Kind, NumberValues, ObjectValues, Reason, TextValues, Values, both,
    disjoint,
};
use crate::error::Error;

/// Reader of the schemas of one root; each definition is read once.
pub(super) struct Reading<'a> {
    root: &'a Value,
    definitions: Vec<Definition>,
    steps: usize,
}

#[derive(Clone, Debug)]
enum Definition {
    Unread,
    /// It is being read.
    Open,
    Read(Values),
}

impl Definitions for Reading<'_> {
    fn values(&mut self, index: usize) -> Result<Option<Values>, Error> {
        let known = match self.definitions.get(index) {
            Some(Definition::Read(values)) => return Ok(Some(values.clone())),
            Some(Definition::Open) | None => return Ok(None),
            Some(Definition::Unread) => index,
        };
        self.definitions[known] = Definition::Open;
        let name = format!("r{known}");
        let root = self.root;
        let schema = root.get("$defs").and_then(|defs| defs.get(&name)).unwrap_or(&Value::Bool(true));
        let values = self.schema(schema, &format!("/$defs/{name}"))?;
        self.definitions[known] = Definition::Read(values.clone());
        Ok(Some(values))
    }

    fn steps(&mut self) -> &mut usize {
        &mut self.steps
    }
}

/// Keywords that combine whole schemas, or list whole values.
const APPLICATORS: [&str; 5] = ["const", "enum", "allOf", "anyOf", "$ref"];

impl<'a> Reading<'a> {
    pub(super) fn new(root: &'a Value) -> Reading<'a> {
        let count = root.get("$defs").and_then(Value::as_object).map_or(0, Map::len);
        Reading { root, definitions: vec![Definition::Unread; count], steps: 0 }
    }

    /// Returns the values of the root.
    pub(super) fn root(&mut self) -> Result<Values, Error> {
        let root = self.root;
        self.schema(root, "")
    }

    fn schema(&mut self, schema: &Value, pointer: &str) -> Result<Values, Error> {
        let map = match schema {
            Value::Object(map) => map,
            Value::Bool(false) => {
                let (parent, keyword) = pointer.rsplit_once('/').unwrap_or_default();
                let keyword = keyword.replace("~1", "/").replace("~0", "~");
                return Ok(Values::None(Reason::new(parent, &keyword, "no value is allowed here")));
            }
            _ => return Ok(Values::Any),
        };
        let simple = |key: &str| !APPLICATORS.contains(&key) && key != "$defs";
        // Properties keep the order in which they are mentioned.
        let own_at =
            map.keys().position(|key| key == "properties").or_else(|| map.keys().position(|key| simple(key)));
        let mut values = Values::Any;
        for (i, (key, value)) in map.iter().enumerate() {
            let at = (pointer, key.as_str());
            if Some(i) == own_at {
                let own = self.own(map, pointer)?;
                values = both(values, own, at, self, 0)?;
                continue;
            }
            match (key.as_str(), value) {
                ("const", value) => {
                    values = both(values, constants(std::slice::from_ref(value), at)?, at, self, 0)?
                }
                ("enum", Value::Array(items)) => values = both(values, constants(items, at)?, at, self, 0)?,
                ("allOf", Value::Array(parts)) => {
                    for (i, part) in parts.iter().enumerate() {
                        let part = self.schema(part, &format!("{pointer}/allOf/{i}"))?;
                        values = both(values, part, at, self, 0)?;
                    }
                }
                ("anyOf", Value::Array(parts)) => {
                    let any = self.any_of(parts, at)?;
                    values = both(values, any, at, self, 0)?;
                }
                ("$ref", Value::String(reference)) => {
                    let index = reference.trim_start_matches("#/$defs/r").parse().unwrap_or(usize::MAX);
                    let target = Values::Of(vec![Kind::Reference(index)]);
                    values = both(values, target, at, self, 0)?;
                }
                _ => {}
            }
        }
        Ok(values)
    }

    fn any_of(&mut self, parts: &[Value], at: (&str, &str)) -> Result<Values, Error> {
        let mut kinds = Vec::new();
        let mut why = None;
        let mut any = false;
        for (i, part) in parts.iter().enumerate() {
            match self.schema(part, &format!("{}/{}/{i}", at.0, at.1))? {
                Values::Any => any = true,
                Values::None(reason) => why = why.or(Some(reason)),
                Values::Of(of) => kinds.extend(of),
            }
        }
        Ok(match (any, kinds.is_empty()) {
            (true, _) => Values::Any,
            (false, false) => Values::Of(kinds),
            (false, true) => {
                Values::None(why.unwrap_or_else(|| Reason::new(at.0, at.1, "there is no alternative")))
            }
        })
    }

    /// Returns the values of one schema's own keywords, without those that combine schemas.
    fn own(&mut self, map: &Map<String, Value>, pointer: &str) -> Result<Values, Error> {
        let says = |key: &String| !APPLICATORS.contains(&key.as_str()) && key != "$defs";
        if !map.keys().any(says) {
            return Ok(Values::Any);
        }
        let all = vec!["null", "boolean", "number", "string", "array", "object"];
        let types = map.get("type").and_then(type_names).unwrap_or(all);
        let mut kinds = Vec::new();
        let mut why = None;
        for name in &types {
            let kind = match *name {
                "null" => Ok(Kind::Null),
                "boolean" => Ok(Kind::Boolean(None)),
                // Every integer is a number.
                "integer" if types.contains(&"number") => continue,
                "integer" | "number" => self.number(map, pointer, *name == "integer")?,
                "string" => text(map, pointer)?,
                "array" => Ok(Kind::Array(Box::new(self.array(map, pointer)?))),
                _ => Ok(Kind::Object(Box::new(self.object(map, pointer)?))),
            };
            match kind {
                Ok(kind) => kinds.push(kind),
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        match why {
            Some(why) if kinds.is_empty() => Ok(Values::None(why)),
            _ => Ok(Values::Of(kinds)),
        }
    }

    fn number(
        &mut self,
        map: &Map<String, Value>,
        pointer: &str,
        integer: bool,
    ) -> Result<Result<Kind, Rc<Reason>>, Error> {
        let bound = |key: &str, open: bool| -> Result<Option<Bound>, Error> {
            let Some(Value::Number(number)) = map.get(key) else { return Ok(None) };
            let at = Decimal::new(number).ok_or_else(|| too_long(pointer, key, number))?;
            Ok(Some(Bound { at, open }))
        };
        // In old drafts a boolean declares the adjacent bound exclusive.
        let open = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let low =
            stricter(bound("minimum", open("exclusiveMinimum"))?, bound("exclusiveMinimum", true)?, true);
        let high =
            stricter(bound("maximum", open("exclusiveMaximum"))?, bound("exclusiveMaximum", true)?, false);
        let mut number = NumberValues { integer, low, high, divisors: Vec::new() };
        if let Some(Value::Number(divisor)) = map.get("multipleOf") {
            number.divisors.push(divisor.clone());
        }
        if let Some((least, greatest)) = map.get("format").and_then(Value::as_str).and_then(integer_range) {
            let closed =
                |number: serde_json::Number| Decimal::new(&number).map(|at| Bound { at, open: false });
            number.low = stricter(number.low, closed(least), true);
            number.high = stricter(number.high, closed(greatest), false);
        }
        if super::decimal::between(integer, number.low.as_ref(), number.high.as_ref()).is_none() {
            let keys = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "format"];
            let key = keys.into_iter().find(|key| map.contains_key(*key)).unwrap_or("type");
            return Ok(Err(Reason::new(pointer, key, "no number lies within the bounds")));
        }
        Ok(Ok(Kind::Number(number)))
    }

    fn array(&mut self, map: &Map<String, Value>, pointer: &str) -> Result<ArrayValues, Error> {
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let mut prefix = Vec::new();
        // In old drafts `prefixItems` is a list under `items`.
        let (listed, rest) = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(_)), _) => ("prefixItems", "items"),
            (_, Some(Value::Array(_))) => ("items", "additionalItems"),
            _ => ("prefixItems", "items"),
        };
        if let Some(Value::Array(schemas)) = map.get(listed) {
            for (i, schema) in schemas.iter().enumerate() {
                prefix.push(self.schema(schema, &format!("{pointer}/{listed}/{i}"))?);
            }
        }
        let items = match map.get(rest) {
            Some(schema) => self.schema(schema, &format!("{pointer}/{rest}"))?,
            None => Values::Any,
        };
        let unique = map.get("uniqueItems") == Some(&Value::Bool(true));
        Ok(ArrayValues {
            prefix,
            items,
            least: count("minItems").unwrap_or(0),
            most: count("maxItems"),
            unique: unique.then(|| pointer.to_owned()),
        })
    }

    fn object(&mut self, map: &Map<String, Value>, pointer: &str) -> Result<ObjectValues, Error> {
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
        let schemas = |key: &str| map.get(key).and_then(Value::as_object).into_iter().flatten();
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        let mut patterns = Vec::new();
        // A pattern that matches few keys is replaced by the list of these keys.
        let mut listed: Vec<(String, Values)> = Vec::new();
        for (source, schema) in schemas("patternProperties") {
            let values = self.schema(schema, &format!("{pointer}/patternProperties/{}", escaped(source)))?;
            let pattern =
                Pattern::search(source).map_err(|what| Error::schema(pointer, "patternProperties", what))?;
            match pattern.listed() {
                Some(names) => {
                    for name in names {
                        match listed.iter().position(|(known, _)| *known == name) {
                            Some(at) => {
                                let known = std::mem::replace(&mut listed[at].1, Values::Any);
                                listed[at].1 =
                                    both(known, values.clone(), (pointer, "patternProperties"), self, 0)?;
                            }
                            None => listed.push((name, values.clone())),
                        }
                    }
                }
                None => {
                    let (source, pointer) = (source.clone(), pointer.to_owned());
                    patterns.push((Rc::new(KeyPattern { source, pattern, pointer }), values));
                }
            }
        }
        disjoint(&patterns)?;
        let mut properties: Vec<(String, Values)> = Vec::new();
        for (name, schema) in schemas("properties") {
            properties.push((
                name.clone(),
                self.schema(schema, &format!("{pointer}/properties/{}", escaped(name)))?,
            ));
        }
        for (name, values) in listed {
            match properties.iter().position(|(known, _)| *known == name) {
                Some(at) => {
                    let known = std::mem::replace(&mut properties[at].1, Values::Any);
                    properties[at].1 = both(known, values, (pointer, "patternProperties"), self, 0)?;
                }
                None => properties.push((name, values)),
            }
        }
        for (name, values) in &mut properties {
            for (pattern, said) in &patterns {
                if pattern.matches(name)? {
                    let known = std::mem::replace(values, Values::Any);
                    *values = both(known, said.clone(), (pointer, "patternProperties"), self, 0)?;
                }
            }
        }
        let additional = match map.get("additionalProperties") {
            Some(schema) => self.schema(schema, &format!("{pointer}/additionalProperties"))?,
            None => Values::Any,
        };
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut names: Vec<String> = Vec::new();
        for name in required.filter_map(Value::as_str) {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(ObjectValues {
            properties,
            patterns,
            additional,
            says_additional: map.contains_key("additionalProperties"),
            required: names,
            least: count("minProperties").unwrap_or(0),
            most: count("maxProperties"),
            pointer: pointer.to_owned(),
        })
    }
}

fn too_long(pointer: &str, key: &str, number: &serde_json::Number) -> Error {
    Error::schema(pointer, key, format!("{number} has more digits than are supported"))
}

fn text(map: &Map<String, Value>, pointer: &str) -> Result<Result<Kind, Rc<Reason>>, Error> {
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    let mut text = TextValues {
        constants: None,
        least: count("minLength").unwrap_or(0),
        most: count("maxLength"),
        patterns: Vec::new(),
    };
    let mut key = "maxLength";
    if let Some(Value::String(format)) = map.get("format")
        && let Some(pattern) = formats::pattern(format)
    {
        key = "format";
        text.patterns.push(Rc::new(pattern));
    }
    if let Some(Value::String(source)) = map.get("pattern") {
        key = "pattern";
        let pattern = Pattern::search(source).map_err(|what| Error::schema(pointer, "pattern", what))?;
        text.patterns.push(Rc::new(pattern));
    }
    match text.settle() {
        Some(true) => Ok(Ok(Kind::Text(text))),
        Some(false) => {
            Ok(Err(Reason::new(pointer, key, "no text has the length and the form that are asked for")))
        }
        None => Err(Error::schema(pointer, key, "this is too much to combine with other rules for the text")),
    }
}

/// Returns the values of `const` or `enum`.
fn constants(values: &[Value], at: (&str, &str)) -> Result<Values, Error> {
    let mut kinds = Vec::new();
    let mut texts = Vec::new();
    let mut known = HashSet::new();
    for value in values {
        match value {
            Value::String(text) if known.insert(text) => texts.push(text.clone()),
            Value::String(_) => {}
            value => kinds.push(constant(value, at)?),
        }
    }
    if !texts.is_empty() {
        kinds.push(Kind::Text(TextValues { constants: Some(texts), ..TextValues::default() }));
    }
    Ok(Values::Of(kinds))
}

fn constant(value: &Value, at: (&str, &str)) -> Result<Kind, Error> {
    let values = |value: &Value| -> Result<Values, Error> { Ok(Values::Of(vec![constant(value, at)?])) };
    let nothing = || Values::None(Reason::new(at.0, at.1, "the constant ends here"));
    Ok(match value {
        Value::Null => Kind::Null,
        Value::Bool(value) => Kind::Boolean(Some(*value)),
        Value::Number(number) => {
            let at = Decimal::new(number).ok_or_else(|| too_long(at.0, at.1, number))?;
            let bound = Some(Bound { at, open: false });
            Kind::Number(NumberValues {
                integer: false,
                low: bound.clone(),
                high: bound,
                divisors: Vec::new(),
            })
        }
        Value::String(text) => {
            Kind::Text(TextValues { constants: Some(vec![text.clone()]), ..TextValues::default() })
        }
        Value::Array(items) => {
            let count = items.len() as u64;
            Kind::Array(Box::new(ArrayValues {
                prefix: items.iter().map(values).collect::<Result<_, _>>()?,
                items: nothing(),
                least: count,
                most: Some(count),
                unique: None,
            }))
        }
        Value::Object(map) => {
            let properties = map.iter().map(|(name, value)| Ok((name.clone(), values(value)?)));
            Kind::Object(Box::new(ObjectValues {
                properties: properties.collect::<Result<_, Error>>()?,
                patterns: Vec::new(),
                additional: nothing(),
                says_additional: true,
                required: map.keys().cloned().collect(),
                least: 0,
                most: None,
                pointer: at.0.to_owned(),
            }))
        }
    })
}
