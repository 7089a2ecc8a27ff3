//! Form of JSON for a schema in respects that the schema leaves open: vLLM's fields, whose defaults depend on the
//! dialect.

use crate::app::App;
use crate::fields::Fields;
use leyden_constrain::JsonForm;
use serde_json::{Value, json};

const CLOSED: &str = "disable_additional_properties";
const COMPACT: &str = "disable_any_whitespace";

/// Takes the fields; those that are absent are as in `form`.
pub(crate) fn read(body: &mut Fields, form: JsonForm) -> JsonForm {
    JsonForm {
        closed: body.flag(CLOSED).unwrap_or(form.closed),
        compact: body.flag(COMPACT).unwrap_or(form.compact),
    }
}

/// Sets absent fields to the defaults of llama.cpp's grammars and Ollama: closed and compact.
pub(crate) fn closed_by_default(body: &mut Fields, app: &App) {
    for (name, default) in [(CLOSED, !app.open_schemas), (COMPACT, true)] {
        if !body.has(name) {
            body.put(name, default);
        }
    }
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema() -> Value {
    json!({
        CLOSED: { "type": "boolean", "description": "Whether objects are limited to the properties in the schema, if it has no `additionalProperties`" },
        COMPACT: { "type": "boolean", "description": "Whether JSON is written without line breaks, and without spaces except one after a comma or colon" }
    })
}
