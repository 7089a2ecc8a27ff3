//! Options that constrain the answer to a schema or a grammar.

use std::fs;
use std::path::{Path, PathBuf};

use leyden::{Grammar, JsonForm};

use crate::cli::failure::Failure;

/// Options that constrain an answer.
#[derive(Debug, clap::Args)]
pub(super) struct Constraining {
    /// Answer with JSON that follows this JSON schema: a file, or the schema itself
    #[arg(long, value_name = "SCHEMA", group = "constraint")]
    json_schema: Option<String>,
    /// Allow properties that the schema does not name, if it has no `additionalProperties`
    #[arg(long, requires = "json_schema")]
    open_schemas: bool,
    /// Answer with a JSON object
    #[arg(long, group = "constraint")]
    json_object: bool,
    /// Answer with a text that follows the grammar in this file: GBNF, or Lark if its name ends in .lark
    #[arg(long, value_name = "FILE", group = "constraint")]
    grammar: Option<PathBuf>,
}

impl Constraining {
    /// Returns the grammar, if there is one.
    pub(super) fn grammar(&self) -> Result<Option<Grammar>, Failure> {
        if self.json_object {
            return Ok(Some(Grammar::json_object_as(JsonForm::CLOSED)));
        }
        if let Some(schema) = &self.json_schema {
            let is_text = schema.trim_start().starts_with('{');
            let (name, text) = if is_text {
                ("--json-schema".to_owned(), schema.clone())
            } else {
                (schema.clone(), read(Path::new(schema))?)
            };
            let value =
                serde_json::from_str(&text).map_err(|e| Failure::new(format!("{name}: not JSON: {e}")))?;
            let form = JsonForm { closed: !self.open_schemas, ..JsonForm::CLOSED };
            let grammar =
                Grammar::json_schema_as(&value, form).map_err(|e| Failure::new(format!("{name}: {e}")))?;
            return Ok(Some(grammar));
        }
        let Some(path) = &self.grammar else { return Ok(None) };
        let text = read(path)?;
        let lark = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("lark"));
        let grammar = if lark { Grammar::lark(&text) } else { Grammar::gbnf(&text) };
        grammar.map(Some).map_err(|e| Failure::new(format!("{}: {e}", path.display())))
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| Failure::new(format!("{}: cannot read: {e}", path.display())))
}
