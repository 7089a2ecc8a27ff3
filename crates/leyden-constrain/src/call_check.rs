//! [`CallCheck`]: the tools of a request, to check calls against that no grammar led.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::schema::{JsonForm, Lowered};
use crate::tools::{Extent, Lenience, ToolCalls};

/// The names and parameters of tools.
#[derive(Clone, Debug)]
pub struct CallCheck {
    /// Without the schema where it cannot be enforced.
    tools: Vec<(String, Option<Lowered>)>,
}

impl CallCheck {
    /// Reads the tools of a request, as [`Grammar::tools`](crate::Grammar::tools) takes them.
    ///
    /// # Errors
    /// `tools` is no list of tools, or the schema of a tool that says `strict` cannot be enforced.
    pub fn new(tools: &Value) -> Result<CallCheck, Error> {
        let extent = Extent::Answer { parallel: true };
        let calls = ToolCalls::new(None, tools, None, extent, Lenience::Unenforced, JsonForm::default())?;
        Ok(CallCheck { tools: calls.into_parameters() })
    }

    /// Returns whether there is a tool of this name and its schema lets the arguments through. Objects of the schema are
    /// open where it is silent, those of a tool that says `strict` closed. A schema that cannot be enforced lets any
    /// object through.
    #[must_use]
    pub fn fits(&self, name: &str, arguments: &Map<String, Value>) -> bool {
        let Some((_, schema)) = self.tools.iter().find(|(known, _)| known == name) else { return false };
        let Some(schema) = schema else { return true };
        schema.fits(&Value::Object(arguments.clone())).unwrap_or(false)
    }
}
