//! Validation of values against a schema, for text generated without a grammar.

use std::collections::HashSet;

use serde_json::{Number, Value};

use super::decimal::Decimal;
use super::read::Reading;
use super::values::{ArrayValues, Definitions, Kind, NumberValues, ObjectValues, TextValues, Values};
use super::{JsonForm, Lowered};
use crate::error::{Error, ErrorKind};

/// Maximum number of comparisons of a value with a schema.
const MAX_STEPS: usize = 200_000;
/// Maximum nesting depth of references and values.
const MAX_DEPTH: usize = 400;

impl Lowered {
    /// Returns whether a value is valid under the schema.
    ///
    /// # Errors
    /// Validation exceeds a limit.
    pub(crate) fn fits(&self, value: &Value) -> Result<bool, Error> {
        crate::own_stack::on_own_stack(|| {
            let mut reading = Reading::new(&self.value);
            let values = reading.root()?;
            Fitting { reading: &mut reading, form: self.form, steps: 0, depth: 0 }.values(&values, value)
        })
    }
}

struct Fitting<'a, 'b> {
    reading: &'a mut Reading<'b>,
    form: JsonForm,
    steps: usize,
    depth: usize,
}

impl Fitting<'_, '_> {
    fn values(&mut self, values: &Values, value: &Value) -> Result<bool, Error> {
        let kinds = match values {
            Values::Any => return Ok(true),
            Values::None(_) => return Ok(false),
            Values::Of(kinds) => kinds,
        };
        self.depth += 1;
        for kind in kinds {
            self.steps += 1;
            if self.steps > MAX_STEPS || self.depth > MAX_DEPTH {
                return Err(ErrorKind::TooComplex("checking a value against its schema".into()).into());
            }
            if self.kind(kind, value)? {
                self.depth -= 1;
                return Ok(true);
            }
        }
        self.depth -= 1;
        Ok(false)
    }

    fn kind(&mut self, kind: &Kind, value: &Value) -> Result<bool, Error> {
        match (kind, value) {
            (Kind::Null, Value::Null) => Ok(true),
            (Kind::Boolean(only), Value::Bool(value)) => Ok(only.is_none_or(|only| only == *value)),
            (Kind::Number(number), Value::Number(value)) => Ok(number_fits(number, value)),
            (Kind::Text(text), Value::String(value)) => text_fits(text, value),
            (Kind::Array(array), Value::Array(items)) => self.array(array, items),
            (Kind::Object(object), Value::Object(map)) => {
                let own: Vec<(&String, &Value)> = map.iter().collect();
                self.object(object, &own)
            }
            (Kind::Reference(index), value) => match self.reading.values(*index)? {
                Some(values) => self.values(&values, value),
                None => Ok(false),
            },
            _ => Ok(false),
        }
    }

    fn array(&mut self, array: &ArrayValues, items: &[Value]) -> Result<bool, Error> {
        let count = items.len() as u64;
        if count < array.least || array.most.is_some_and(|most| count > most) {
            return Ok(false);
        }
        for (i, item) in items.iter().enumerate() {
            if !self.values(array.prefix.get(i).unwrap_or(&array.items), item)? {
                return Ok(false);
            }
        }
        let mut seen = HashSet::new();
        Ok(array.unique.is_none() || items.iter().all(|item| seen.insert(canonical(item))))
    }

    fn object(&mut self, object: &ObjectValues, entries: &[(&String, &Value)]) -> Result<bool, Error> {
        let count = entries.len() as u64;
        let has = |name: &String| entries.iter().any(|(key, _)| *key == name);
        if count < object.least
            || object.most.is_some_and(|most| count > most)
            || !object.required.iter().all(has)
        {
            return Ok(false);
        }
        let closed = self.form.closed && object.is_closed_by_default();
        for (name, value) in entries {
            if closed && !object.names(name)? {
                return Ok(false);
            }
            let values = object.property(name)?;
            if !self.values(&values, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn number_fits(number: &NumberValues, value: &Number) -> bool {
    let Some(value) = Decimal::new(value) else { return false };
    let above = number.low.as_ref().is_none_or(|low| value > low.at || value == low.at && !low.open);
    let below = number.high.as_ref().is_none_or(|high| value < high.at || value == high.at && !high.open);
    let divisors = number.divisors.iter().map(Decimal::new);
    above
        && below
        && (!number.integer || value.is_whole())
        && divisors.into_iter().all(|divisor| divisor.is_some_and(|divisor| value.is_multiple_of(&divisor)))
}

fn text_fits(text: &TextValues, value: &str) -> Result<bool, Error> {
    if let Some(constants) = &text.constants {
        return Ok(constants.iter().any(|constant| constant == value));
    }
    let length = value.chars().count() as u64;
    if length < text.least || text.most.is_some_and(|most| length > most) {
        return Ok(false);
    }
    for pattern in &text.patterns {
        let matches = pattern.matches(value);
        if !matches.ok_or_else(|| Error::from(ErrorKind::TooComplex("a pattern on a value".into())))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns a text that is the same for equal values, such as 1 and 1.0.
fn canonical(value: &Value) -> String {
    match value {
        Value::Number(number) => Decimal::new(number).map_or_else(|| number.to_string(), |n| n.text()),
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let mut entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(&**key), canonical(value)))
                .collect();
            entries.sort();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}
