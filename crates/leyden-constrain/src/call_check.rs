//! [`CallCheck`]: validation of tool calls that were generated without a grammar.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::schema::{JsonForm, Lowered};
use crate::tools::{CallScope, Lenience, ToolCalls};

/// Names and parameter schemas of tools.
#[derive(Clone, Debug)]
pub struct CallCheck {
    /// Tools by name; `None` for a schema that cannot be enforced.
    tools: Vec<(String, Option<Lowered>)>,
}

impl CallCheck {
    /// Reads the tools of a request, in the form of [`Grammar::tools`](crate::Grammar::tools).
    ///
    /// # Errors
    /// `tools` is not a list of tools, or the schema of a tool with `strict` cannot be enforced.
    pub fn new(tools: &Value) -> Result<CallCheck, Error> {
        let scope = CallScope::Answer { parallel: true };
        let calls = ToolCalls::new(None, tools, None, scope, Lenience::Unenforced, JsonForm::default())?;
        Ok(CallCheck { tools: calls.into_parameters() })
    }

    /// Returns whether there is a tool of this name and its schema accepts the arguments. Objects are open unless
    /// the schema says otherwise, but closed for a tool with `strict`. A schema that cannot be enforced accepts any
    /// object.
    #[must_use]
    pub fn fits(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        let Some((_, schema)) = self.tools.iter().find(|(known, _)| known == name) else { return false };
        let Some(schema) = schema else { return true };
        schema.fits(&Value::Object(arguments.clone())).unwrap_or(false)
    }
}
