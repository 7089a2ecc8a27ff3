//! [`NativeTurn`]: the next answer of a conversation, and the parts of its text.

use crate::convert::json;
use crate::errors::{of_library, refused};
use leyden::{ChatOptions, Grammar, Message, OutputEvent, OutputParser, ToolChoice, Turn};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, PoisonError};

/// Next answer of a conversation.
#[pyclass(frozen, name = "Turn", module = "leyden._native")]
pub(crate) struct NativeTurn {
    pub(crate) turn: Turn,
    parser: Mutex<OutputParser>,
}

impl From<Turn> for NativeTurn {
    fn from(turn: Turn) -> NativeTurn {
        NativeTurn { parser: Mutex::new(turn.parser.clone()), turn }
    }
}

#[pymethods]
impl NativeTurn {
    /// The token ids of the prompt.
    #[getter]
    fn prompt<'py>(&self, py: Python<'py>) -> Bound<'py, numpy::PyArray1<u32>> {
        numpy::PyArray1::from_slice(py, &self.turn.prompt)
    }

    /// Takes the next piece of the answer's text; returns its parts as tuples.
    fn push<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
        events(py, self.parser.lock().unwrap_or_else(PoisonError::into_inner).push(text))
    }

    /// Ends the answer; returns the parts that were held back.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        events(py, self.parser.lock().unwrap_or_else(PoisonError::into_inner).finish())
    }
}

/// Returns parts of an answer as tuples that begin with their kind.
fn events(py: Python<'_>, events: Vec<OutputEvent>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for event in events {
        match event {
            OutputEvent::Reasoning(text) => list.append(("reasoning", text))?,
            OutputEvent::Content(text) => list.append(("content", text))?,
            OutputEvent::ToolCallStart { index, id, name } => list.append(("call", index, id, name))?,
            OutputEvent::ToolCallArguments { index, fragment } => {
                list.append(("arguments", index, fragment))?;
            }
            OutputEvent::ToolCallEnd { index } => list.append(("end", index))?,
            OutputEvent::ToolCallUnfinished { index } => list.append(("unfinished", index))?,
        }
    }
    Ok(list)
}

/// Reads messages, written as JSON.
pub(crate) fn messages(py: Python<'_>, text: &str) -> PyResult<Vec<Message>> {
    serde_json::from_str(text).map_err(|error| refused(py, format!("messages: {error}")))
}

/// Reads the options of a conversation: `tools` and `variables` as JSON, `tool_choice`, `constraint` and
/// `continue_last`.
pub(crate) fn chat_options(given: &Bound<'_, PyDict>) -> PyResult<ChatOptions> {
    let py = given.py();
    let mut options = ChatOptions::new();
    for (key, value) in given.iter() {
        match key.extract::<String>()?.as_str() {
            "tools" => options.tools = Some(json(py, "tools", &value.extract::<String>()?)?),
            "tool_choice" => options.tool_choice = choice(&value.extract::<String>()?),
            "constraint" => options.content = Some(grammar(py, value.extract()?)?),
            "continue_last" => options.continue_last = value.extract()?,
            "variables" => {
                options.variables = serde_json::from_str(&value.extract::<String>()?)
                    .map_err(|error| refused(py, format!("template_variables: {error}")))?;
            }
            other => return Err(refused(py, format!("{other}: there is no such option"))),
        }
    }
    Ok(options)
}

fn choice(name: &str) -> ToolChoice {
    match name {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        tool => ToolChoice::Named(tool.to_owned()),
    }
}

/// Returns a grammar of a kind and its text.
pub(crate) fn grammar(py: Python<'_>, (kind, text): (String, String)) -> PyResult<Grammar> {
    let made = match kind.as_str() {
        "json_schema" => Grammar::json_schema(&json(py, "schema", &text)?),
        "regex" => Grammar::regex(&text),
        "gbnf" => Grammar::gbnf(&text),
        "lark" => Grammar::lark(&text),
        other => return Err(refused(py, format!("{other}: there is no such kind of grammar"))),
    };
    made.map_err(|error| of_library(py, &error.into()))
}
