//! Text to tokens and back: tokenizers, chat templates, incremental detokenising and stop strings.
//!
//! * [`from_gguf`] reads the [`Tokenizer`] of a model file, [`from_hf`] that of a Hugging Face folder;
//!   [`Detokenizer`] joins the bytes of its tokens to whole characters.
//! * [`ChatTemplate`] turns [`Message`]s into the prompt that a model was trained on; a model without one gets
//!   [`join_messages`].
//! * [`output`] tells the reasoning, the content and the calls of tools of an answer apart.
//! * [`StopMatcher`] looks for stop strings in text that arrives in pieces.
//!
//! All of it comes from a file that nobody vouches for. So whatever the file says, the answer is a value or an
//! [`Error`] that names file and key, in time and memory that the file and the messages justify.
//!
//! # Why no library
//!
//! The tokenizer and the template engine are this crate's own, after measuring the libraries that were to be
//! used (2 shared cores, release builds; `tokenizer.json` is read by code that does as `tokenizers` 0.23 does, and
//! takes 0.2 s for 200,000 tokens with 446,000 merges):
//!
//! | | library | here |
//! |---|---|---|
//! | vocabulary of llama-bpe ready | `tokenizers` 1.0.0-rc.3: 0.39 s, 95 MB | 0.08 s |
//! | vocabulary of qwen2 ready | `tokenizers` 1.0.0-rc.3: 0.37 s, 68 MB | 0.05 s |
//! | English text encoded | `tokenizers` 1.0.0-rc.3: 160 to 290 MB/s | 50 to 75 MB/s |
//! | a template that doubles a text thirty times | minijinja 3.0.5, fuel 2,000: 10 s, 2.6 GB | error after 2 ms |
//! | `{{ a.b.b.b… }}`, 200,000 times | minijinja 3.0.5: stack overflow, process aborted | error: source too long |
//!
//! The ids of `tokenizers` were right on the reference texts. But a start may cost 0.3 s, and its time does not
//! include the JSON that has to be built from the metadata first; it brings 80 crates; and it does not cut texts
//! by the version of Unicode, nor find special tokens in the order, that vocabularies in GGUF files go with.
#![forbid(unsafe_code)]

mod answer;
mod detok;
mod error;
pub mod output;
mod stop;
mod template;
mod tokenizer;

pub use answer::AnswerText;
pub use detok::Detokenizer;
pub use error::{Error, ErrorKind};
pub use stop::{StopEvent, StopMatcher};
pub use template::{
    ChatTemplate, JsonTextError, Message, NamedTemplate, RenderOptions, Rendered, SoleMessage,
    check_json_text, join_messages,
};
pub use tokenizer::{
    Bounds, FillInMiddle, LabelMarks, LabelPrompt, LabelledText, LabelledWindow, Located, Pair, PairTemplate,
    Pairs, Special, Tokenizer, WindowLimits, encode_located, encode_prompt, encode_prompt_within,
    encode_rendered, encode_rendered_within, encode_whole, encode_whole_within, from_gguf, from_hf,
    from_tokenizer_json, unread_keys,
};
