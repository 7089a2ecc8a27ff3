//! Exceptions: errors of the library with the same words.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

create_exception!(leyden, Error, PyException, "Error of leyden; `hint`, if not None, says what to do next.");
create_exception!(leyden, ModelError, Error, "A model that cannot be found, read, loaded or computed.");
create_exception!(leyden, ResourceError, Error, "Memory or threads that are short.");

/// Adds the exceptions to the module. `RequestError` is an `Error` and a `ValueError`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    py.get_type::<Error>().setattr("hint", py.None())?;
    module.add("Error", py.get_type::<Error>())?;
    module.add("ModelError", py.get_type::<ModelError>())?;
    module.add("ResourceError", py.get_type::<ResourceError>())?;
    module.add("RequestError", request_error(py)?)
}

/// Returns the class of errors of arguments, which is made once.
fn request_error(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
    let class = CLASS.get_or_try_init(py, || {
        let bases = PyTuple::new(py, [py.get_type::<Error>(), py.get_type::<PyValueError>()])?;
        let members = pyo3::types::PyDict::new(py);
        members.set_item("__module__", "leyden")?;
        members
            .set_item("__doc__", "A request that leyden refuses: its text, an option, a schema or a tool.")?;
        let class = py.get_type::<pyo3::types::PyType>().call1(("RequestError", bases, members))?;
        Ok::<_, PyErr>(class.unbind())
    })?;
    Ok(class.bind(py).clone())
}

/// Returns the exception of a request that is refused with these words.
pub(crate) fn refused(py: Python<'_>, message: impl ToString) -> PyErr {
    match request_error(py).and_then(|class| class.call1((message.to_string(),))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Returns the exception of an error of the library.
pub(crate) fn of_library(py: Python<'_>, error: &leyden::Error) -> PyErr {
    use leyden::Error as E;
    let message = error.to_string();
    match error {
        E::Shared(error) => of_library(py, error),
        E::Resources(_) | E::Thread { .. } => ResourceError::new_err(message),
        E::File(_) | E::Model(_) | E::Vocabulary { .. } | E::NotFinite { .. } | E::Closed => {
            ModelError::new_err(message)
        }
        E::Engine(error) => match error.kind() {
            leyden_engine::ErrorKind::Model(_) => ModelError::new_err(message),
            leyden_engine::ErrorKind::Resources(_) => ResourceError::new_err(message),
            _ => refused(py, message),
        },
        // Errors of texts, options, grammars and tasks.
        _ => refused(py, message),
    }
}

/// Returns the exception of an error of loading: of the model, unless it is of an option or of memory.
pub(crate) fn of_loading(py: Python<'_>, error: &leyden::Error) -> PyErr {
    match error {
        leyden::Error::Option { .. } | leyden::Error::Resources(_) => of_library(py, error),
        _ => ModelError::new_err(error.to_string()),
    }
}

/// Returns the exception of a name that is no model, with its hint.
pub(crate) fn of_hub(py: Python<'_>, error: &leyden_hub::Error) -> PyErr {
    let raised = ModelError::new_err(error.to_string());
    match raised.value(py).setattr("hint", error.hint()) {
        Ok(()) => raised,
        Err(error) => error,
    }
}
