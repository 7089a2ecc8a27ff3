//! Python's values as JSON and back, and lists of texts.

use crate::errors::refused;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::Value;

/// Reads JSON that Python code has written with `json.dumps`.
pub(crate) fn json(py: Python<'_>, name: &str, text: &str) -> PyResult<Value> {
    serde_json::from_str(text).map_err(|error| refused(py, format!("{name}: {error}")))
}

/// Returns token ids: those of a text, which is tokenized with the token that begins a prompt, of an array of uint32, or
/// of a list of integers.
pub(crate) fn tokens(model: &leyden::Model, prompt: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(text) = prompt.cast::<PyString>() {
        return model
            .tokenize(text.to_cow()?.as_ref())
            .map_err(|error| crate::errors::of_library(prompt.py(), &error));
    }
    ids(prompt)
}

/// Returns token ids of an array of uint32 or of a list of integers.
pub(crate) fn ids(given: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(array) = given.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(array.as_array().to_vec());
    }
    given.extract::<Vec<u32>>().map_err(|_| {
        refused(
            given.py(),
            "prompt: a text, or token ids as a list of integers or a uint32 array, is expected",
        )
    })
}

/// Returns rows of the same width as an array `[n, width]`.
pub(crate) fn matrix(py: Python<'_>, rows: &[Vec<f32>], width: usize) -> PyResult<Py<PyArray2<f32>>> {
    let width = rows.first().map_or(width, Vec::len);
    // NumPy takes over the memory of the joined rows.
    let flat = PyArray1::from_vec(py, rows.concat());
    Ok(flat.reshape([rows.len(), width])?.unbind())
}
