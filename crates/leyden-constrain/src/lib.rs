//! Which tokens may come next, so that a text becomes what a JSON schema or a grammar says.
//!
//! * [`Vocabulary`] is made once for a model. It is the slow part (0.1 to 1 s and some ten megabytes for 128,000
//!   tokens), so make it in the background or with the first request that needs it.
//! * [`Grammar`] is what the text shall be: any JSON, JSON after a schema, a regular expression, a grammar in Lark's or
//!   llama.cpp's notation, or a call of a tool.
//! * [`Vocabulary::compile`] turns it into [`Compiled`], which is immutable and may be kept for other requests.
//! * [`Compiled::start`] gives a [`Constraint`], the state of one answer: [`mask`](Constraint::mask) before each choice,
//!   [`accept`](Constraint::accept) after it.
//! * [`Guide`] is the state of an answer that is free until the model begins a call of a tool.
//!
//! The sets come from llguidance. What stands around it here: a schema is rewritten into the part of the language that
//! is enforced, and refused, with keyword and place, where it says something else; GBNF is translated; every input is
//! bounded before it is compiled; and a mark that the model's format gives a meaning, such as the end of a turn, never
//! gets into constrained text.
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
