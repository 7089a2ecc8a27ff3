//! Errors: which file, which tensor, and what is wrong with it.

/// Why a model could not be quantised.
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
        /// Its row, from 0.
        row: usize,
        /// The value.
        value: f32,
    },
    /// The weights are quantised already, and would lose twice.
    #[error("{file}: {tensor}: {dtype} is quantised already, and would lose precision twice")]
    Quantised {
        /// The file.
        file: String,
        /// The tensor.
        tensor: String,
        /// Its type.
        dtype: &'static str,
    },
    /// The file of importances is not one, or is that of another model.
    #[error("{file}: {what}")]
    Imatrix {
        /// The file of importances.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// An override that cannot be meant.
    #[error("{text}: {what}")]
    Override {
        /// The override.
        text: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file is no model that can be quantised.
    #[error("{file}: {what}")]
    Model {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The output cannot be written: a full disk.
    #[error("{file}: cannot write: {source}")]
    Write {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Whoever watched the progress said stop. Nothing is left under the final name.
    #[error("stopped")]
    Stopped,
}
