//! JSON schemas, reduced to the enforced part of the language.

mod check;
mod decimal;
mod emit;
mod fits;
mod form;
mod formats;
mod keywords;
mod lower;
mod multiples;
mod one_of;
mod places;
mod read;
mod rewrite;
mod text;
mod values;
mod work;

pub use form::JsonForm;
pub(crate) use lower::{lower_as, lower_watched};
pub(crate) use places::Places;

use std::sync::Arc;

use serde_json::Value;

use self::values::{Kind, Values};
use crate::error::{Error, ErrorKind};

/// Schema reduced to what is enforced.
#[derive(Clone, Debug)]
pub(crate) struct Lowered {
    pub(crate) value: Value,
    /// Grammar of the valid texts, in Lark.
    pub(crate) lark: String,
    /// Arrays with unique items, if duplicates must be detected in the text.
    pub(crate) places: Option<Arc<Places>>,
    /// Original place of each definition.
    origins: Vec<String>,
    form: JsonForm,
}

impl Lowered {
    /// Creates a reduced schema, with the original places of its definitions. Arrays whose duplicate items can only
    /// be detected in the generated text are refused unless `watched` is true.
    fn new(value: Value, origins: Vec<String>, watched: bool, form: JsonForm) -> Result<Lowered, Error> {
        let mut lowered = Lowered { value, origins, lark: String::new(), places: None, form };
        let (lark, places) = lowered.to_lark(watched).map_err(|e| lowered.placed(e))?;
        (lowered.lark, lowered.places) = (lark, places.map(Arc::new));
        Ok(lowered)
    }

    fn to_lark(&self, watched: bool) -> Result<(String, Option<Places>), Error> {
        let mut reading = read::Reading::new(&self.value);
        let values = reading.root()?;
        let (lark, watches) =
            emit::Emitting::new(&mut reading, self.form).watched(watched).grammar(&values)?;
        if !watches {
            return Ok((lark, None));
        }
        let mut placing = places::Placing::new(&mut reading);
        placing.places.outermost = placing.values(&values)?;
        Ok((lark, Some(placing.places)))
    }

    /// Returns an error with its place in the original schema.
    fn placed(&self, e: Error) -> Error {
        match e.kind() {
            ErrorKind::Schema { pointer, keyword, what } => ErrorKind::Schema {
                pointer: self.origin(pointer),
                keyword: keyword.clone(),
                what: what.clone(),
            }
            .into(),
            _ => e,
        }
    }

    /// Returns the place in the original schema.
    fn origin(&self, pointer: &str) -> String {
        let in_definition = pointer.strip_prefix("/$defs/r").and_then(|rest| {
            let digits = rest.find('/').unwrap_or(rest.len());
            let origin = self.origins.get(rest[..digits].parse::<usize>().ok()?)?;
            Some(format!("{origin}{}", &rest[digits..]))
        });
        in_definition.unwrap_or_else(|| pointer.to_owned())
    }
}

/// Parameter of a tool in a call syntax with separate parameters.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) value: ParameterValue,
}

/// Form of a parameter's value.
#[derive(Clone, Debug)]
pub(crate) enum ParameterValue {
    /// JSON of this grammar.
    Json(String),
    /// One of these texts.
    Constants(Vec<String>),
    /// Text that matches this term of a terminal, if there is one.
    Text(Option<String>),
}

impl Lowered {
    /// Returns the parameters of a tool for a call syntax with separate parameters, in which texts have no quotes.
    pub(crate) fn parameters(&self) -> Result<Vec<Parameter>, Error> {
        self.read_parameters().map_err(|e| self.placed(e))
    }

    fn read_parameters(&self) -> Result<Vec<Parameter>, Error> {
        let what = "is not supported in this model's way of writing calls";
        let refused = |pointer: &str, keyword: &str| Err(Error::schema(pointer, keyword, what));
        let mut reading = read::Reading::new(&self.value);
        let values = reading.root()?;
        let first =
            |map: &Value| map.as_object().and_then(|map| map.keys().next()).cloned().unwrap_or_default();
        let Values::Of(kinds) = &values else { return refused("", &first(&self.value)) };
        let [Kind::Object(object)] = kinds.as_slice() else { return refused("", &first(&self.value)) };
        for (says, keyword) in [
            (object.least > object.required.len() as u64, "minProperties"),
            (object.most.is_some_and(|most| most < object.properties.len() as u64), "maxProperties"),
        ] {
            if says {
                return refused(&object.pointer, keyword);
            }
        }
        let undeclared =
            object.required.iter().filter(|name| !object.properties.iter().any(|(key, _)| key == *name));
        let names: Vec<&String> = object.properties.iter().map(|(name, _)| name).chain(undeclared).collect();
        let mut parameters = Vec::new();
        for name in names {
            let required = object.required.contains(name);
            let values = object.property(name)?;
            // The call parser uses the type given here.
            let property = self.value.get("properties").and_then(|properties| properties.get(name));
            let is_text = property.and_then(|property| property.get("type")) == Some(&Value::from("string"));
            let text = match &values {
                Values::None(_) if !required => continue,
                Values::Of(kinds) if is_text => match kinds.as_slice() {
                    [Kind::Text(text)] => Some(text.clone()),
                    _ => None,
                },
                _ => None,
            };
            let value = match text {
                Some(text) => match &text.constants {
                    Some(constants) => ParameterValue::Constants(constants.clone()),
                    None if text.patterns.is_empty() && text.least == 0 && text.most.is_none() => {
                        ParameterValue::Text(None)
                    }
                    None => ParameterValue::Text(Some(emit::conjunction(&text, text::Writing::Plain))),
                },
                None => {
                    ParameterValue::Json(emit::Emitting::new(&mut reading, self.form).grammar(&values)?.0)
                }
            };
            parameters.push(Parameter { name: name.clone(), required, value });
        }
        Ok(parameters)
    }
}
