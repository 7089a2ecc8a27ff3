//! Grammars, schemas and the texts that follow them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod costs;
mod forms;
mod grammars;
mod guides;
mod hostile;
mod numbers;
mod samples;
mod vocabularies;
