//! Constrained decoding: the tokens that may come next in a text that follows a JSON schema or a grammar.
//!
//! * [`Vocabulary`] is built once per model. This is slow (0.1 to 1 s and some ten megabytes for 128,000 tokens),
//!   so build it in the background or with the first request that needs it.
//! * [`Grammar`] describes the text: any JSON, JSON of a schema, a regular expression, a grammar in Lark's or
//!   llama.cpp's notation, or a tool call.
//! * [`Vocabulary::compile`] compiles it to [`Compiled`], which is immutable and can be cached for other requests.
//! * [`Compiled::start`] returns a [`Constraint`], the state of one answer: [`mask`](Constraint::mask) before each
//!   choice of a token, [`accept`](Constraint::accept) after it.
//! * [`Guide`] is the state of an answer that is unconstrained until the model opens a tool call.
//!
//! The masks are computed by llguidance. This crate adds: schemas are reduced to the enforced part of the language,
//! and refused, with keyword and place, if they go beyond it; GBNF is translated; every input is limited before it
//! is compiled; and special tokens of the model's format, such as the end of a turn, never occur in constrained
//! text.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let texts: Vec<String> = (32..127u8).map(|b| (b as char).to_string()).chain(["</s>".into()]).collect();
//! # let eos = texts.len() as u32 - 1;
//! # let kinds: Vec<i32> = texts.iter().map(|t| if t == "</s>" { 3 } else { 1 }).collect();
//! # let meta = leyden_tensor::Metadata::new("m.gguf", [
//! #     ("tokenizer.ggml.model".to_string(), leyden_tensor::Value::from("gpt2")),
//! #     ("tokenizer.ggml.pre".to_string(), leyden_tensor::Value::from("gpt-2")),
//! #     ("tokenizer.ggml.tokens".to_string(), leyden_tensor::Value::Array(
//! #         leyden_tensor::Array::from_strs(texts.iter().map(String::as_str)))),
//! #     ("tokenizer.ggml.token_type".to_string(), leyden_tensor::Value::Array(leyden_tensor::Array::from_i32(&kinds))),
//! #     ("tokenizer.ggml.merges".to_string(), leyden_tensor::Value::Array(
//! #         leyden_tensor::Array::from_strs(std::iter::empty::<&str>()))),
//! #     ("tokenizer.ggml.eos_token_id".to_string(), leyden_tensor::Value::from(eos)),
//! # ])?;
//! # let tokenizer = leyden_text::from_gguf(&meta, "m.gguf")?;
//! use leyden_constrain::{Grammar, Vocabulary};
//!
//! let vocabulary = Vocabulary::new(tokenizer.as_ref())?;
//! let compiled = vocabulary.compile(&Grammar::regex("[ab]+c")?)?;
//! let mut constraint = compiled.start();
//! let id = |text: &str| tokenizer.encode(text, leyden_text::Special::AsText).unwrap()[0];
//! assert!(constraint.mask()?.contains(id("a")));
//! assert!(!constraint.mask()?.contains(id("c")));
//! constraint.accept(id("a"))?;
//! constraint.accept(id("c"))?;
//! assert!(constraint.may_stop());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod call_check;
mod constraint;
mod error;
mod gbnf;
mod grammar;
mod guide;
mod keys;
mod marks;
mod mask;
mod own_stack;
mod schema;
mod tools;
mod vocabulary;

pub use call_check::CallCheck;
pub use constraint::{Compiled, Constraint};
pub use error::{Error, ErrorKind};
pub use grammar::{Grammar, Limits};
pub use guide::Guide;
pub use mask::TokenMask;
pub use schema::JsonForm;
pub use tools::ToolRules;
pub use vocabulary::Vocabulary;
