//! Folders to GGUF files, with the tokenizers of all kinds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod encoders;
mod folder;
mod refused;
mod tokenizers;
