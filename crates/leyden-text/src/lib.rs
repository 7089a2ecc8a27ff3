//! Text to tokens and back: tokenizers, chat templates, incremental detokenization and stop strings.
//!
//! * [`from_gguf`] reads the [`Tokenizer`] of a model file, [`from_hf`] that of a Hugging Face folder;
//!   [`Detokenizer`] joins the bytes of tokens to whole characters.
//! * [`ChatTemplate`] renders [`Message`]s to the prompt format that a model was trained on; for a model without a
//!   template there is [`join_messages`].
//! * [`output`] splits an answer into reasoning, content and tool calls.
//! * [`StopMatcher`] finds stop strings in text that arrives in pieces.
//!
//! The files are not trusted. For any input the result is a value or an [`Error`] that names file and key, within
//! time and memory that the sizes of the file and of the messages justify.
//!
//! # Reasons against a library
//!
//! The tokenizer and the template engine are this crate's own, after measuring the available libraries (2 shared
//! cores, release builds; `tokenizer.json` is read by code that behaves as `tokenizers` 0.23 does, and takes 0.2 s
//! for 200,000 tokens with 446,000 merges):
//!
//! | | library | leyden |
//! |---|---|---|
//! | load the vocabulary of llama-bpe | `tokenizers` 1.0.0-rc.3: 0.39 s, 95 MB | 0.08 s |
//! | load the vocabulary of qwen2 | `tokenizers` 1.0.0-rc.3: 0.37 s, 68 MB | 0.05 s |
//! | encode English text | `tokenizers` 1.0.0-rc.3: 160 to 290 MB/s | 50 to 75 MB/s |
//! | a template that doubles a text thirty times | minijinja 3.0.5, fuel 2,000: 10 s, 2.6 GB | error after 2 ms |
//! | `{{ a.b.b.b… }}`, 200,000 times | minijinja 3.0.5: stack overflow, process aborted | error: source too long |
//!
//! The ids of `tokenizers` were correct on the reference texts. But loading may take 0.3 s at most, and the times
//! above do not include building the JSON from the metadata; the library brings 80 crates; and it neither splits
//! texts by the Unicode version of GGUF vocabularies nor matches special tokens in their order.
#![forbid(unsafe_code)]

mod answer;
mod detok;
mod encode;
mod error;
pub mod generic_tools;
pub mod output;
mod stop;
mod template;
mod tokenizer;
mod tool_descriptions;

pub use answer::AnswerText;
pub use detok::Detokenizer;
pub use encode::{
    encode_prompt, encode_prompt_within, encode_rendered, encode_rendered_within, encode_whole,
    encode_whole_within,
};
pub use error::{Error, ErrorKind};
pub use stop::{StopEvent, StopMatcher};
pub use template::{
    ChatTemplate, JsonTextError, Message, NamedTemplate, RenderOptions, Rendered, SoleMessage,
    check_json_text, join_messages,
};
pub use tokenizer::{
    Bounds, FillInMiddle, LabelMarks, LabelPrompt, LabelledText, LabelledWindow, Located, Pair, PairTemplate,
    Pairs, Special, Tokenizer, WindowLimits, encode_located, from_gguf, from_hf, from_tokenizer_json,
    unread_keys,
};
pub use tool_descriptions::described;
