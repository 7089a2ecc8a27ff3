//! Tests of configurations: values that are read, and values that are refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convert_page;
mod gguf_keys;
mod hf_configs;
mod models_page;
mod names;
