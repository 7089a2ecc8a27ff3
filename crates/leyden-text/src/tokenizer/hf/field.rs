//! [`Field`]: value of `tokenizer.json` with its path, for error messages.

use serde_json::Value;

use crate::error::{Error, ErrorKind};

/// Value, its path in the file, and the file.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) file: &'a str,
    pub(super) path: String,
    value: &'a Value,
}

/// Reader of one kind of component, with the name of the kind.
pub(super) type Row<T> = (&'static str, fn(&Field<'_>) -> Result<T, Error>);

impl<'a> Field<'a> {
    pub(super) fn new(file: &'a str, path: impl Into<String>, value: &'a Value) -> Self {
        Field { file, path: path.into(), value }
    }

    /// Creates an error about this field.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::at(self.file, &self.path, kind)
    }

    pub(super) fn invalid(&self, why: impl Into<String>) -> Error {
        self.error(ErrorKind::Invalid(why.into()))
    }

    fn wanted(&self, wanted: &str) -> Error {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        self.invalid(format!("want {wanted}, found {found}"))
    }

    /// Returns the value under a key of this object; `None` if it is absent or `null`.
    pub(super) fn opt(&self, key: &str) -> Result<Option<Field<'a>>, Error> {
        let object = self.value.as_object().ok_or_else(|| self.wanted("an object"))?;
        let child = |value| Field::new(self.file, format!("{}.{key}", self.path), value);
        Ok(object.get(key).filter(|value| !value.is_null()).map(child))
    }

    pub(super) fn get(&self, key: &str) -> Result<Field<'a>, Error> {
        self.opt(key)?.ok_or_else(|| {
            let path = format!("{}.{key}", self.path);
            Error::at(self.file, &path, ErrorKind::Invalid("required, but missing".into()))
        })
    }

    pub(super) fn as_str(&self) -> Result<&'a str, Error> {
        self.value.as_str().ok_or_else(|| self.wanted("a string"))
    }

    pub(super) fn as_bool(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.wanted("a boolean"))
    }

    pub(super) fn as_u32(&self) -> Result<u32, Error> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| self.wanted("an integer from 0 to 4294967295"))
    }

    pub(super) fn as_char(&self) -> Result<char, Error> {
        let mut chars = self.as_str()?.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            _ => Err(self.wanted("a single character")),
        }
    }

    pub(super) fn items(&self) -> Result<impl Iterator<Item = Field<'a>>, Error> {
        let items = self.value.as_array().ok_or_else(|| self.wanted("an array"))?;
        let (file, path) = (self.file, self.path.clone());
        Ok(items.iter().enumerate().map(move |(i, value)| Field::new(file, format!("{path}[{i}]"), value)))
    }

    /// Returns the keys and values of this object, in the order of the file.
    pub(super) fn entries(&self) -> Result<impl Iterator<Item = (&'a str, Field<'a>)>, Error> {
        let object = self.value.as_object().ok_or_else(|| self.wanted("an object"))?;
        let (file, path) = (self.file, self.path.clone());
        Ok(object
            .iter()
            .map(move |(key, value)| (key.as_str(), Field::new(file, format!("{path}.{key}"), value))))
    }

    pub(super) fn is_string(&self) -> bool {
        self.value.is_string()
    }

    pub(super) fn is_array(&self) -> bool {
        self.value.is_array()
    }

    pub(super) fn str(&self, key: &str) -> Result<&'a str, Error> {
        self.get(key)?.as_str()
    }

    pub(super) fn bool(&self, key: &str) -> Result<bool, Error> {
        self.get(key)?.as_bool()
    }

    /// Returns the boolean under a key, or `default` if it is absent.
    pub(super) fn bool_or(&self, key: &str, default: bool) -> Result<bool, Error> {
        self.opt(key)?.map_or(Ok(default), |field| field.as_bool())
    }

    /// Reads this component by the row of the table for its `type`.
    pub(super) fn component<T>(&self, what: &'static str, table: &[Row<T>]) -> Result<T, Error> {
        let name = self.get("type")?;
        let name_text = name.as_str()?;
        match table.iter().find(|row| row.0 == name_text) {
            Some((_, read)) => read(self),
            None => Err(self.unsupported(what, name_text, table.iter().map(|row| row.0).collect())),
        }
    }

    /// Creates an error about a component of an unsupported kind.
    pub(super) fn unsupported(&self, what: &'static str, name: &str, known: Vec<&'static str>) -> Error {
        self.error(ErrorKind::UnsupportedComponent { what, name: name.into(), known })
    }
}

/// Maximum number of components of one kind. Files have up to ten.
const MAX_COMPONENTS: usize = 32;
/// Maximum length of a text that a component inserts into another: known files use one character.
const MAX_INSERTED_BYTES: usize = 64;

impl<'a> Field<'a> {
    /// Returns a text that is inserted into others, whose length limits the growth of the result.
    pub(super) fn inserted(&self, key: &str) -> Result<&'a str, Error> {
        let field = self.get(key)?;
        match field.as_str()? {
            text if text.len() <= MAX_INSERTED_BYTES => Ok(text),
            text => Err(field.invalid(format!("{} bytes are too many to insert into a text", text.len()))),
        }
    }
}

/// Returns the components of a component, with every `Sequence` replaced by its members, at any depth.
pub(super) fn flatten<'a>(field: Field<'a>, members: &str) -> Result<Vec<Field<'a>>, Error> {
    let mut flat = Vec::new();
    // Components not yet visited, in reverse order.
    let mut open = vec![field];
    while let Some(field) = open.pop() {
        if field.str("type")? == "Sequence" {
            let from = open.len();
            open.extend(field.get(members)?.items()?);
            open[from..].reverse();
        } else if flat.len() == MAX_COMPONENTS {
            return Err(field.invalid(format!("more than {MAX_COMPONENTS} components")));
        } else {
            flat.push(field);
        }
    }
    Ok(flat)
}
