//! Errors: the file, the tensor, and what is wrong with it.

/// Error of quantising or pruning a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] leyden_tensor::Error),
    /// A value of a tensor is NaN or infinite.
    #[error("{file}: {tensor}: row {row} has a value that is {value}; the weights are damaged")]
    NotFinite {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Row of the value, from 0.
        row: usize,
        /// The value.
        value: f32,
    },
    /// The weights are quantised already, and would lose precision twice.
    #[error("{file}: {tensor}: {dtype} is quantised already, and would lose precision twice")]
    Quantised {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Type of the tensor.
        dtype: &'static str,
    },
    /// The importance matrix is not valid, or belongs to another model.
    #[error("{file}: {what}")]
    Imatrix {
        /// File of the importance matrix.
        file: String,
        /// Description of the error.
        what: String,
    },
    /// An override (`PATTERN=TYPE`) is not valid.
    #[error("{text}: {what}")]
    Override {
        /// The override.
        text: String,
        /// Description of the error.
        what: String,
    },
    /// The file is not a model that can be quantised.
    #[error("{file}: {what}")]
    Model {
        /// The file.
        file: String,
        /// Description of the error.
        what: String,
    },
    /// The calibration text does not suffice.
    #[error("calibration text: {0}")]
    Calibration(String),
    /// Memory is short.
    #[error("{0}")]
    Resources(String),
    /// The output cannot be written, for example because the disk is full.
    #[error("{file}: cannot write: {source}")]
    Write {
        /// The file.
        file: String,
        /// Reason.
        source: std::io::Error,
    },
    /// The caller's `progress` asked to stop. No file is left under the final name.
    #[error("stopped")]
    Stopped,
}
