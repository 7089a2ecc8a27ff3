//! What configurations say, and which of it is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod convert_page;
mod gguf_keys;
mod hf_configs;
mod models_page;
mod names;
