//! Answers that are free up to a call of a tool, and follow a grammar within it.
//!
//! A mask is only made where a call is open. Before that a token is chosen among all; [`Guide::refuses`] then says
//! whether it would open a call and go on with what no call has, which tokens that are longer than the mark's end can.
//! Whoever chooses tries again without those that are refused.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use leyden_text::output::{CallWatch, Opening};

use crate::constraint::{Compiled, Constraint};
use crate::error::{Error, ErrorKind};
use crate::mask::TokenMask;

/// What ends a message of harmony's.
const MESSAGE_END: &str = "<|end|>";
/// What ends its header.
const HEADER_END: &[u8] = b"<|message|>";

/// The state of one answer with calls in it.
#[derive(Clone, Debug)]
pub struct Guide {
    compiled: Arc<Compiled>,
    watch: CallWatch,
    /// The call that is open.
    bound: Option<Box<Constraint>>,
    /// Whether the answer ends behind the first call.
    once: bool,
    /// What a required answer of harmony's has said of its first header.
    header: Option<Vec<u8>>,
    /// Whether the answer must not end before a call.
    required: bool,
}

impl Guide {
    /// An answer that may call tools, after [`Grammar::opened_tools`](crate::Grammar::opened_tools); with `once` it ends
    /// behind the first.
    ///
    /// # Errors
    /// The grammar does not know what the watch looks for.
    pub fn new(compiled: Arc<Compiled>, watch: CallWatch, once: bool) -> Result<Guide, Error> {
        for opening in watch.openings() {
            if compiled.start_behind(&opening, b"")?.is_none() {
                return Err(ErrorKind::Internal(format!("`{opening}` does not open a call")).into());
            }
        }
        Ok(Guide { compiled, watch, bound: None, once, header: None, required: false })
    }

    /// An answer in harmony's messages that must call a tool, after
    /// [`Grammar::harmony_tools`](crate::Grammar::harmony_tools), and may think before.
    ///
    /// # Errors
    /// The vocabulary has no way to go on behind a message.
    pub fn harmony(compiled: Arc<Compiled>) -> Result<Guide, Error> {
        if compiled.start_behind(MESSAGE_END, b"")?.is_none() {
            return Err(ErrorKind::Internal(format!("`{MESSAGE_END}` does not end a message")).into());
        }
        let bound = Some(Box::new(compiled.start()));
        let watch = CallWatch::for_text(MESSAGE_END);
        Ok(Guide { compiled, watch, bound, once: true, header: Some(Vec::new()), required: true })
    }

    /// The grammar of the call that is open. Where there is none, any token may come that is not
    /// [refused](Self::refuses).
    pub fn constraint(&mut self) -> Option<&mut Constraint> {
        self.bound.as_deref_mut()
    }

    /// Where no call is open: whether a token of these bytes must not come. `ends` says whether it ends an answer.
    #[must_use]
    pub fn refuses(&self, bytes: &[u8], ends: bool) -> bool {
        if self.required && ends {
            return true;
        }
        self.watch.peek(bytes).is_some_and(|opening| !self.opens(&opening))
    }

    /// Where no call is open: the tokens that may come, of which `describe` gives the bytes and whether they end an
    /// answer. Costs as much as looking at all of them.
    pub fn allowed<'a>(&self, mut describe: impl FnMut(u32) -> (Cow<'a, [u8]>, bool)) -> TokenMask {
        let size = self.compiled.vocabulary().size();
        let mut known: HashMap<Opening, bool> = HashMap::new();
        let allowed = |&id: &u32| {
            let (bytes, ends) = describe(id);
            if self.required && ends {
                return false;
            }
            let Some(opening) = self.watch.peek(&bytes) else { return true };
            // Many tokens go on alike.
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

    /// Goes on with a token that was chosen, of these bytes. Returns whether the answer ends with it.
    ///
    /// # Errors
    /// As [`Constraint::accept`]; or the token is one that is refused.
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
