//! Incremental parsing of a model's answer into reasoning, content and tool calls.
//!
//! * [`OutputFormat::detect`] derives the syntax from the chat template. It renders conversations with known calls
//!   and compares them, so formats need no names here; the exception is harmony, whose answers are messages
//!   themselves.
//! * [`CallWatch`] detects the opening of a call, for constrained sampling of the call's text.
//! * [`AnswerParts`] combines this for an answer whose tokens arrive one by one, with stop strings in its content.
//! * [`OutputParser`] turns text that arrives in pieces into [`OutputEvent`]s. The joined events are the same
//!   however the text is split.
//!
//! Text that only resembles a call is content and never lost. A call is reported as soon as it is certain: its
//! name, then its arguments as they arrive, in JSON whatever the model's syntax. A call that is truncated by the
//! end of the answer or breaks the syntax is reported as [unfinished](OutputEvent::ToolCallUnfinished). If the
//! answer ends after the marker that opens calls, but before the name of a tool is known, the truncated text is
//! dropped: it is neither a call nor content.
//!
//! # Special tokens
//!
//! Many formats mark calls with special tokens, which [`Tokenizer::is_special`](crate::Tokenizer::is_special) keeps out of an answer's text. The
//! caller makes those of the format visible: it reads [`OutputFormat::visible_tokens`] once, and pushes the bytes
//! of these tokens like those of any other. All other special tokens are left out. A token that
//! [ends](crate::Tokenizer::is_end) the generation is never pushed.

mod bare;
mod calls;
mod detect;
mod event;
mod format;
mod harmony;
mod json_scan;
mod literal;
mod object;
mod parsed;
mod parser;
mod parts;
mod reading;
mod tools;
mod watch;

pub use bare::BareCalls;
pub use calls::{CallBody, CallSyntax};
pub use event::OutputEvent;
pub use format::OutputFormat;
pub use parser::OutputParser;
pub use parts::{AnswerParts, PartsEvent};
pub use watch::{CallWatch, Opening};
