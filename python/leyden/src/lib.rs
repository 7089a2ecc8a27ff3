//! The native part of the Python package `leyden`: models, requests and their results.
//!
//! Python code in `leyden/` turns arguments of users into those of this module, which computes without Python's lock. A
//! wait for a result looks for signals ten times a second, so that Ctrl-C ends it and cancels the request.
#![forbid(unsafe_code)]
#![expect(clippy::needless_pass_by_value, reason = "functions that Python calls own their arguments")]

mod answers;
mod convert;
mod errors;
mod model;
mod options;
mod tasks;
mod turns;

use pyo3::prelude::*;

/// Registers the types and exceptions.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<model::NativeModel>()?;
    module.add_class::<answers::Pending>()?;
    module.add_class::<answers::Answer>()?;
    module.add_class::<turns::NativeTurn>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("EMBEDDED", leyden::EMBEDDED)?;
    errors::register(module)
}
