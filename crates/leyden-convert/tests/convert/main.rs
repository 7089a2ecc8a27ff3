//! Folders to GGUF files, with the tokenizers of all kinds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folder;
mod refused;
mod tokenizers;
