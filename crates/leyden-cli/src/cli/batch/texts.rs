//! [`Texts`]: the text of a row.

use super::template::Template;
use leyden_rows::Row;
use std::borrow::Cow;

/// Rule for the text of a row: a template, or the first of some columns that the row has.
pub(super) struct Texts {
    columns: Vec<String>,
    template: Option<Template>,
}

impl Texts {
    /// Returns the rule for these columns or this template.
    pub(super) fn new(columns: Vec<String>, template: Option<Template>) -> Texts {
        Texts { columns, template }
    }

    /// Returns true if there is a template.
    pub(super) fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Returns the text of a row.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) fn of<'r>(&self, row: &'r Row) -> Result<Cow<'r, str>, String> {
        if let Some(template) = &self.template {
            return template.render(&row.fields).map(Cow::Owned);
        }
        let there = self.columns.iter().find(|column| row.fields.contains_key(*column));
        row.text(there.or(self.columns.first()).map(String::as_str)).map(Cow::Borrowed)
    }

    /// Returns a text that identifies the rule.
    pub(super) fn identity(&self) -> String {
        format!("{:?} {:?}", self.columns, self.template.as_ref().map(Template::source))
    }
}
