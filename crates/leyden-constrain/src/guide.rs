//! Answers that are unconstrained up to a tool call, and follow a grammar within it.
//!
//! A mask is computed only within an open call. Outside, a token is chosen among all; [`Guide::refuses`] then tells
//! whether the token would open a call and continue it invalidly, as tokens that extend beyond the opening marker
//! can. The caller then chooses again without the refused token.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use leyden_text::output::{CallWatch, Opening};

use crate::constraint::{Compiled, Constraint};
use crate::error::{Error, ErrorKind};
use crate::mask::TokenMask;

/// Marker that ends a harmony message.
const MESSAGE_END: &str = "<|end|>";
/// Marker that ends its header.
const HEADER_END: &[u8] = b"<|message|>";

/// State of one answer with tool calls.
#[derive(Clone, Debug)]
pub struct Guide {
    compiled: Arc<Compiled>,
    watch: CallWatch,
    /// Constraint of the open call.
    bound: Option<Box<Constraint>>,
    /// True if the answer ends after the first call.
    once: bool,
    /// First header so far of a required harmony answer.
    header: Option<Vec<u8>>,
    /// True if the answer must not end before a call.
    required: bool,
}

impl Guide {
    /// Creates the guide of an answer that may call tools, under a grammar of
    /// [`Grammar::opened_tools`](crate::Grammar::opened_tools); with `once` the answer ends after the first call.
    ///
    /// # Errors
    /// The grammar does not accept one of the openings that the watch detects.
    pub fn new(compiled: Arc<Compiled>, watch: CallWatch, once: bool) -> Result<Guide, Error> {
        for opening in watch.openings() {
            if compiled.start_behind(&opening, b"")?.is_none() {
                return Err(ErrorKind::Internal(format!("`{opening}` does not open a call")).into());
            }
        }
        Ok(Guide { compiled, watch, bound: None, once, header: None, required: false })
    }

    /// Creates the guide of a harmony answer that must call a tool, under a grammar of
    /// [`Grammar::harmony_tools`](crate::Grammar::harmony_tools), and may reason before.
    ///
    /// # Errors
    /// The grammar does not accept the continuation after a message.
    pub fn harmony(compiled: Arc<Compiled>) -> Result<Guide, Error> {
        if compiled.start_behind(MESSAGE_END, b"")?.is_none() {
            return Err(ErrorKind::Internal(format!("`{MESSAGE_END}` does not end a message")).into());
        }
        let bound = Some(Box::new(compiled.start()));
        let watch = CallWatch::for_text(MESSAGE_END);
        Ok(Guide { compiled, watch, bound, once: true, header: Some(Vec::new()), required: true })
    }

    /// Returns the constraint of the open call. If there is none, any token may come that is not
    /// [refused](Self::refuses).
    pub fn constraint(&mut self) -> Option<&mut Constraint> {
        self.bound.as_deref_mut()
    }

    /// Returns whether a token of these bytes must not come, outside of calls. `ends` tells whether it ends an
    /// answer.
    #[must_use]
    pub fn refuses(&self, bytes: &[u8], ends: bool) -> bool {
        if self.required && ends {
            return true;
        }
        self.watch.peek(bytes).is_some_and(|opening| !self.opens(&opening))
    }

    /// Returns the tokens that may come, outside of calls. `describe` returns the bytes of a token and whether it
    /// ends an answer. Examines the whole vocabulary.
    pub fn allowed<'a>(&self, mut describe: impl FnMut(u32) -> (Cow<'a, [u8]>, bool)) -> TokenMask {
        let size = self.compiled.vocabulary().size();
        let mut known: HashMap<Opening, bool> = HashMap::new();
        let allowed = |&id: &u32| {
            let (bytes, ends) = describe(id);
            if self.required && ends {
                return false;
            }
            let Some(opening) = self.watch.peek(&bytes) else { return true };
            // Many tokens continue identically.
            known.get(&opening).copied().unwrap_or_else(|| {
                let opens = self.opens(&opening);
                known.insert(opening, opens);
                opens
            })
        };
        TokenMask::from_ids((0..size as u32).filter(allowed), size)
    }

    fn opens(&self, opening: &Opening) -> bool {
        matches!(self.compiled.start_behind(&opening.written, &opening.rest), Ok(Some(_)))
    }

    /// Accepts the chosen token, which has these bytes. Returns whether the answer ends with it.
    ///
    /// # Errors
    /// As [`Constraint::accept`]; or the token is refused.
    pub fn accept(&mut self, token: u32, bytes: &[u8]) -> Result<bool, Error> {
        match &mut self.bound {
            Some(constraint) => {
                constraint.accept(token)?;
                if let Some(header) = &mut self.header {
                    header.extend_from_slice(bytes);
                }
            }
            None => {
                let Some(opening) = self.watch.push(bytes) else { return Ok(false) };
                let constraint = self.compiled.start_behind(&opening.written, &opening.rest)?;
                self.bound = Some(Box::new(constraint.ok_or(ErrorKind::Token(token))?));
            }
        }
        if !self.bound.as_ref().is_some_and(|c| c.is_complete()) {
            return Ok(false);
        }
        self.bound = None;
        let thinks = self.header.take().is_some_and(|header| header.ends_with(HEADER_END));
        if self.once && !thinks {
            return Ok(true);
        }
        if !thinks {
            self.watch.resume();
        }
        Ok(false)
    }
}
