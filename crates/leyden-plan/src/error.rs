//! [`Error`]: error of a plan, with the key or row that it is about.

/// Error of a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the model's configuration.
    #[error(transparent)]
    Model(#[from] leyden_models::Error),
    /// Error of the model's file.
    #[error(transparent)]
    File(#[from] leyden_tensor::Error),
    /// Fact about the model that its configuration lacks.
    #[error("{file}: {key}: {what}")]
    Missing {
        /// File of the configuration.
        file: String,
        /// Key of the fact.
        key: &'static str,
        /// Description of the error.
        what: String,
    },
    /// Fact about a machine that no source states.
    #[error("{machine}: {fact} is not known")]
    Unknown {
        /// Name of the machine.
        machine: String,
        /// Name of the fact.
        fact: &'static str,
        /// Option that states it.
        option: &'static str,
    },
    /// Error of a table of this crate.
    #[error("{table}: {what}")]
    Table {
        /// Name of the table.
        table: &'static str,
        /// Description of the error.
        what: String,
    },
}
