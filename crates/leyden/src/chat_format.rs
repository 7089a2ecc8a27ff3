//! [`ChatFormat`]: the form of a model's answers, and how tools are put to it.

use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, Tokenizer, generic_tools};
use std::sync::Arc;

/// Form of a model's answers.
#[derive(Debug)]
pub(crate) struct ChatFormat {
    pub(crate) output: OutputFormat,
    /// True if the template shows no tools, so that a system message describes them.
    pub(crate) generic_tools: bool,
    /// True if such a template renders earlier calls itself.
    pub(crate) shows_calls: bool,
    /// Special tokens that the parser of answers needs as text, ascending.
    pub(crate) visible: Arc<[u32]>,
}

impl ChatFormat {
    /// Detects the format from the template.
    pub(crate) fn detect(template: Option<&ChatTemplate>, tokenizer: &dyn Tokenizer) -> ChatFormat {
        let mut output = template.map_or_else(OutputFormat::plain, OutputFormat::detect);
        let generic_tools = output.calls().is_none() && !output.is_harmony();
        let shows_calls = generic_tools && template.is_some_and(generic_tools::shows_calls);
        if generic_tools {
            output = output.with_generic_calls();
        }
        let visible = output.visible_tokens(tokenizer).into();
        ChatFormat { output, generic_tools, shows_calls, visible }
    }
}
