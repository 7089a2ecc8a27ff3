//! Sets of values that a schema accepts, by type, and their intersections.

use std::collections::HashSet;
use std::rc::Rc;

use super::decimal::{self, Bound};
use super::text::{Pattern, none_follows};
use crate::error::{Error, ErrorKind};

/// Set of values that a schema accepts.
#[derive(Clone, Debug)]
pub(super) enum Values {
    Any,
    /// No value, with the reason.
    None(Rc<Reason>),
    /// Values of any of these kinds.
    Of(Vec<Kind>),
}

/// Reason for which there are no values.
#[derive(Debug)]
pub(super) struct Reason {
    pub(super) pointer: String,
    pub(super) keyword: String,
    pub(super) what: String,
}

impl Reason {
    pub(super) fn new(pointer: &str, keyword: &str, what: impl Into<String>) -> Rc<Reason> {
        Rc::new(Reason { pointer: pointer.to_owned(), keyword: keyword.to_owned(), what: what.into() })
    }
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Boolean(Option<bool>),
    Number(NumberValues),
    Text(TextValues),
    Array(Box<ArrayValues>),
    Object(Box<ObjectValues>),
    /// Values of a definition.
    Reference(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct NumberValues {
    pub(super) integer: bool,
    pub(super) low: Option<Bound>,
    pub(super) high: Option<Bound>,
    /// Divisors, as written in the schema.
    pub(super) divisors: Vec<serde_json::Number>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TextValues {
    /// The only allowed texts, if listed.
    pub(super) constants: Option<Vec<String>>,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
    pub(super) patterns: Vec<Rc<Pattern>>,
}

#[derive(Clone, Debug)]
pub(super) struct ArrayValues {
    pub(super) prefix: Vec<Values>,
    pub(super) items: Values,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
    /// Place of `uniqueItems`, if set.
    pub(super) unique: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct ObjectValues {
    pub(super) properties: Vec<(String, Values)>,
    pub(super) patterns: Vec<(Rc<KeyPattern>, Values)>,
    pub(super) additional: Values,
    /// True if a schema has `additionalProperties`.
    pub(super) says_additional: bool,
    pub(super) required: Vec<String>,
    pub(super) least: u64,
    pub(super) most: Option<u64>,
    /// Place of `minProperties`, `maxProperties` or `patternProperties`.
    pub(super) pointer: String,
}

/// Pattern of keys.
#[derive(Debug)]
pub(super) struct KeyPattern {
    pub(super) source: String,
    pub(super) pattern: Pattern,
    pub(super) pointer: String,
}

/// Maximum number of intersections.
const MAX_STEPS: usize = 50_000;
/// Maximum depth of intersections.
const MAX_DEPTH: usize = 100;

/// Access to definitions for intersections.
pub(super) trait Definitions {
    /// Returns the values of a definition; `None` while it is being read.
    fn values(&mut self, index: usize) -> Result<Option<Values>, Error>;
    fn steps(&mut self) -> &mut usize;
}

/// Place of the combining schema: pointer and keyword.
pub(super) type Place<'a> = (&'a str, &'a str);

/// Returns the intersection of two sets of values.
pub(super) fn both(
    a: Values,
    b: Values,
    at: Place<'_>,
    definitions: &mut dyn Definitions,
    depth: usize,
) -> Result<Values, Error> {
    let steps = definitions.steps();
    *steps += 1;
    if *steps > MAX_STEPS || depth > MAX_DEPTH {
        return Err(Error::schema(at.0, at.1, "combining what schemas say at once takes too much"));
    }
    let (a, b) = match (a, b) {
        (Values::Any, other) | (other, Values::Any) => return Ok(other),
        (Values::None(why), _) | (_, Values::None(why)) => return Ok(Values::None(why)),
        (Values::Of(a), Values::Of(b)) => (a, b),
    };
    let mut kinds = Vec::new();
    let mut why = None;
    for x in &a {
        for y in &b {
            match kinds_both(x, y, at, definitions, depth)? {
                Values::Of(found) => kinds.extend(found),
                Values::None(reason) => why = why.or(Some(reason)),
                Values::Any => return Ok(Values::Any),
            }
        }
    }
    if kinds.is_empty() {
        let reason =
            why.unwrap_or_else(|| Reason::new(at.0, at.1, "nothing is of the types that are asked for"));
        return Ok(Values::None(reason));
    }
    Ok(Values::Of(kinds))
}

fn kinds_both(
    a: &Kind,
    b: &Kind,
    at: Place<'_>,
    definitions: &mut dyn Definitions,
    depth: usize,
) -> Result<Values, Error> {
    let none = |what: &str| Ok(Values::None(Reason::new(at.0, at.1, what)));
    let one = |kind: Kind| Ok(Values::Of(vec![kind]));
    match (a, b) {
        (Kind::Reference(x), Kind::Reference(y)) if x == y => one(Kind::Reference(*x)),
        (Kind::Reference(index), other) | (other, Kind::Reference(index)) => {
            let Some(target) = definitions.values(*index)? else {
                return Err(Error::schema(at.0, at.1, "a reference in a circle, with keywords beside it"));
            };
            let other = Values::Of(vec![other.clone()]);
            // Properties keep the order in which they are mentioned.
            match a {
                Kind::Reference(_) => both(target, other, at, definitions, depth + 1),
                _ => both(other, target, at, definitions, depth + 1),
            }
        }
        (Kind::Null, Kind::Null) => one(Kind::Null),
        (Kind::Boolean(x), Kind::Boolean(y)) => match (x, y) {
            (Some(x), Some(y)) if x != y => none("no value is equal to both constants"),
            (x, y) => one(Kind::Boolean(x.or(*y))),
        },
        (Kind::Number(x), Kind::Number(y)) => {
            let number = NumberValues {
                integer: x.integer || y.integer,
                low: decimal::stricter(x.low.clone(), y.low.clone(), true),
                high: decimal::stricter(x.high.clone(), y.high.clone(), false),
                divisors: x.divisors.iter().chain(&y.divisors).cloned().collect(),
            };
            if decimal::is_empty(number.low.as_ref(), number.high.as_ref()) {
                return none("no number lies within the bounds");
            }
            one(Kind::Number(number))
        }
        (Kind::Text(x), Kind::Text(y)) => {
            let mut text = TextValues {
                constants: match (&x.constants, &y.constants) {
                    (Some(x), Some(y)) => {
                        let y: HashSet<&String> = y.iter().collect();
                        Some(x.iter().filter(|text| y.contains(text)).cloned().collect())
                    }
                    (x, y) => x.clone().or_else(|| y.clone()),
                },
                least: x.least.max(y.least),
                most: x.most.into_iter().chain(y.most).min(),
                patterns: x.patterns.iter().chain(&y.patterns).cloned().collect(),
            };
            match text.settle() {
                Some(true) => one(Kind::Text(text)),
                Some(false) => none("no text has the length and the form that are asked for"),
                None => Err(Error::schema(
                    at.0,
                    at.1,
                    "this is too much to combine with other rules for the text",
                )),
            }
        }
        (Kind::Array(x), Kind::Array(y)) => {
            let count = x.prefix.len().max(y.prefix.len());
            let item = |array: &ArrayValues, i: usize| array.prefix.get(i).unwrap_or(&array.items).clone();
            let mut prefix = Vec::new();
            for i in 0..count {
                prefix.push(both(item(x, i), item(y, i), at, definitions, depth + 1)?);
            }
            let items = both(x.items.clone(), y.items.clone(), at, definitions, depth + 1)?;
            one(Kind::Array(Box::new(ArrayValues {
                prefix,
                items,
                least: x.least.max(y.least),
                most: x.most.into_iter().chain(y.most).min(),
                unique: x.unique.clone().or_else(|| y.unique.clone()),
            })))
        }
        (Kind::Object(x), Kind::Object(y)) => {
            one(Kind::Object(Box::new(objects_both(x, y, at, definitions, depth)?)))
        }
        _ => none("nothing is of the types that are asked for"),
    }
}

fn objects_both(
    x: &ObjectValues,
    y: &ObjectValues,
    at: Place<'_>,
    definitions: &mut dyn Definitions,
    depth: usize,
) -> Result<ObjectValues, Error> {
    let mut properties: Vec<(String, Values)> = Vec::new();
    let named = |object: &ObjectValues, name: &str| object.properties.iter().any(|(key, _)| key == name);
    for (name, values) in &x.properties {
        let other = y.property(name)?;
        properties.push((name.clone(), both(values.clone(), other, at, definitions, depth + 1)?));
    }
    for (name, values) in y.properties.iter().filter(|(name, _)| !named(x, name)) {
        let other = x.property(name)?;
        properties.push((name.clone(), both(other, values.clone(), at, definitions, depth + 1)?));
    }
    let mut patterns: Vec<(Rc<KeyPattern>, Values)> = Vec::new();
    for (here, there) in [(x, y), (y, x)] {
        for (pattern, values) in &here.patterns {
            if patterns.iter().any(|(known, _)| known.source == pattern.source) {
                continue;
            }
            // A property that matches a pattern on one side only is additional on the other.
            let same = there.patterns.iter().find(|(other, _)| other.source == pattern.source);
            let other = same.map_or(&there.additional, |(_, values)| values).clone();
            patterns.push((Rc::clone(pattern), both(values.clone(), other, at, definitions, depth + 1)?));
        }
    }
    disjoint(&patterns)?;
    let mut required = x.required.clone();
    required.extend(y.required.iter().filter(|name| !x.required.contains(name)).cloned());
    let counted =
        |object: &ObjectValues| object.least > 0 || object.most.is_some() || !object.patterns.is_empty();
    Ok(ObjectValues {
        properties,
        patterns,
        additional: both(x.additional.clone(), y.additional.clone(), at, definitions, depth + 1)?,
        says_additional: x.says_additional || y.says_additional,
        required,
        least: x.least.max(y.least),
        most: x.most.into_iter().chain(y.most).min(),
        pointer: if counted(x) { x.pointer.clone() } else { y.pointer.clone() },
    })
}

/// Returns an error if a key can match two patterns.
pub(super) fn disjoint(patterns: &[(Rc<KeyPattern>, Values)]) -> Result<(), Error> {
    for (i, (a, _)) in patterns.iter().enumerate() {
        for (b, _) in &patterns[i + 1..] {
            if none_follows(&[&a.pattern, &b.pattern], 0, None) != Some(true) {
                let what = format!("a key may match both \"{}\" and \"{}\"", a.source, b.source);
                return Err(Error::schema(&b.pointer, "patternProperties", what));
            }
        }
    }
    Ok(())
}

impl ObjectValues {
    /// Returns the values of a property.
    pub(super) fn property(&self, name: &str) -> Result<Values, Error> {
        if let Some((_, values)) = self.properties.iter().find(|(key, _)| key == name) {
            return Ok(values.clone());
        }
        for (pattern, values) in &self.patterns {
            if pattern.matches(name)? {
                return Ok(values.clone());
            }
        }
        Ok(self.additional.clone())
    }

    /// Returns whether the object names a property, or one of its patterns matches it.
    pub(super) fn names(&self, name: &str) -> Result<bool, Error> {
        if self.properties.iter().any(|(key, _)| key == name) || self.required.iter().any(|key| key == name) {
            return Ok(true);
        }
        for (pattern, _) in &self.patterns {
            if pattern.matches(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the closed form restricts the object to named and required properties.
    pub(super) fn is_closed_by_default(&self) -> bool {
        let has_value = |values: &Values| !matches!(values, Values::None(_));
        let named = self.properties.iter().filter(|(_, values)| has_value(values)).count();
        let unnamed = |name: &&String| !self.properties.iter().any(|(key, _)| key == *name);
        let most = named + self.required.iter().filter(unnamed).count();
        !self.says_additional
            && (named > 0 || !self.patterns.is_empty())
            && (self.least <= most as u64 || !self.patterns.is_empty())
    }
}

impl KeyPattern {
    pub(super) fn matches(&self, name: &str) -> Result<bool, Error> {
        self.pattern.matches(name).ok_or_else(|| {
            ErrorKind::TooComplex(format!("{}: the pattern \"{}\"", self.pointer, self.source)).into()
        })
    }
}

impl TextValues {
    /// Removes constants that violate the other rules, and then these rules. Returns whether any text is left;
    /// `None` if deciding exceeds a limit.
    pub(super) fn settle(&mut self) -> Option<bool> {
        let Some(constants) = self.constants.take() else {
            if self.most.is_some_and(|most| most < self.least) {
                return Some(false);
            }
            if self.patterns.len() + usize::from(self.least > 0 || self.most.is_some()) < 2 {
                return Some(true);
            }
            let patterns: Vec<&Pattern> = self.patterns.iter().map(Rc::as_ref).collect();
            return none_follows(&patterns, self.least, self.most).map(|none| !none);
        };
        let mut kept = Vec::new();
        for text in constants {
            let length = text.chars().count() as u64;
            let mut follows = length >= self.least && self.most.is_none_or(|most| length <= most);
            for pattern in &self.patterns {
                follows = follows && pattern.matches(&text)?;
            }
            if follows {
                kept.push(text);
            }
        }
        let any = !kept.is_empty();
        *self = TextValues { constants: Some(kept), ..TextValues::default() };
        Some(any)
    }
}
