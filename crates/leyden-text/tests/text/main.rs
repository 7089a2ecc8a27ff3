//! Tokenizers, chat templates and parts of answers against their references.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_metadata;
mod bounds;
mod chat_templates;
mod decoding;
mod hf_folders;
mod hf_reference;
mod marks_in_content;
mod output_formats;
mod random_strings;
mod reference_pairs;
