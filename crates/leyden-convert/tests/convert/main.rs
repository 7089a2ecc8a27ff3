//! Conversion of folders to GGUF files, with all kinds of tokenizers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod encoders;
mod folder;
mod refused;
mod tokenizers;
