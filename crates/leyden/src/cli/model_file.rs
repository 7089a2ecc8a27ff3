//! Opening the model file that a command names.

use std::path::Path;

use leyden_tensor::{Gguf, WeightSource};

use super::failure::{Failure, IN_USE};

/// Opens a model file.
pub(super) fn open(path: &Path) -> Result<Gguf, Failure> {
    Ok(Gguf::open(path)?)
}

/// Fails if the file shrank or its disk failed while it was in use: what was read since may be zeros.
pub(super) fn still_whole(file: &Gguf) -> Result<(), Failure> {
    if file.truncated() {
        let path = file.path().display();
        return Err(
            Failure::new(format!("{path}: the file was cut short while it was being read")).hint(IN_USE)
        );
    }
    Ok(())
}
