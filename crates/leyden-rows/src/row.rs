//! [`Row`]: one row of an input, with its place in the file.

use serde_json::{Map, Value};
use xxhash_rust::xxh3::xxh3_64;

/// Column of the text where the user names none.
pub(crate) const TEXT: &str = "text";

/// One row of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Fields by name, in the order of the file.
    pub fields: Map<String, Value>,
    /// Place in the file, such as `line 5`.
    pub place: String,
    /// Reason why the row cannot be read; its fields are then incomplete.
    pub problem: Option<String>,
}

impl Row {
    /// A row of fields.
    #[must_use]
    pub fn new(fields: Map<String, Value>, place: String) -> Row {
        Row { fields, place, problem: None }
    }

    /// A row with nothing but a text.
    #[must_use]
    pub fn of_text(text: String, place: String) -> Row {
        Row::new(Map::from_iter([(TEXT.to_owned(), Value::String(text))]), place)
    }

    /// A row that cannot be read.
    #[must_use]
    pub fn bad(place: String, problem: impl Into<String>) -> Row {
        Row { fields: Map::new(), place, problem: Some(problem.into()) }
    }

    /// Returns the text of the row: the field `column`, or `text`.
    ///
    /// # Errors
    /// The reason why there is no text.
    pub fn text(&self, column: Option<&str>) -> Result<&str, String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let column = column.unwrap_or(TEXT);
        match self.fields.get(column) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null) => Err(format!("field `{column}`: empty")),
            Some(_) => Err(format!("field `{column}`: not a text")),
            None => Err(format!("field `{column}`: missing")),
        }
    }

    /// Returns a hash of the fields or of the problem, by which a run that resumes knows the row again.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash_and_bytes().0
    }

    /// Returns the [`hash`](Self::hash), and the length of the fields as JSON in bytes.
    #[must_use]
    pub fn hash_and_bytes(&self) -> (u64, usize) {
        let text = serde_json::to_string(&self.fields).unwrap_or_default();
        let hash = xxh3_64(format!("{text}\n{}", self.problem.as_deref().unwrap_or_default()).as_bytes());
        (hash, text.len())
    }
}
