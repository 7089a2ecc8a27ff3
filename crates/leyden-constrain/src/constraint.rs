//! Compiled grammar, and the state of one answer that follows it.

use std::fmt;
use std::sync::Arc;

use llguidance::api::{GrammarInit, StopReason};
use llguidance::{Logger, Matcher};
use toktrie::InferenceCapabilities;

use crate::error::{Error, ErrorKind};
use crate::grammar::{Grammar, Limits, is_limit, plain};
use crate::keys::Keys;
use crate::mask::TokenMask;
use crate::own_stack::on_own_stack;
use crate::vocabulary::Vocabulary;

/// Grammar compiled for a vocabulary. Immutable; starting an answer from it is cheap.
pub struct Compiled {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// True if special tokens of the model's format are allowed where the grammar names them.
    marks: bool,
    /// Initial state of the check for duplicate keys; `None` if the text is not JSON.
    keys: Option<Keys>,
    /// Approximate size in bytes.
    bytes: usize,
}

/// Approximate size of a grammar's tables in bytes per byte of its source, besides source and automaton: measured
/// on the schemas of `tests/constrain/costs.rs` and rounded up (60 MiB for an actual 52 MiB).
const BYTES_PER_SOURCE_BYTE: usize = 24;

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("vocabulary", &self.vocabulary).finish_non_exhaustive()
    }
}

impl Compiled {
    pub(crate) fn new(
        vocabulary: Arc<Vocabulary>,
        grammar: &Grammar,
        limits: &Limits,
    ) -> Result<Compiled, Error> {
        let source = grammar.top_level(&vocabulary, limits)?;
        let source_bytes = serde_json::to_string(&source).map_or(0, |text| text.len());
        let parser_limits = limits.parser();
        let (matcher, automaton) = on_own_stack(|| {
            let parser = vocabulary.factory.create_parser_from_init_ext(
                GrammarInit::Serialized(source),
                Logger::new(0, 0),
                InferenceCapabilities::default(),
                parser_limits,
            );
            // A clone shares the automaton, which grows with the first mask.
            let automaton = parser.as_ref().ok().map(|parser| parser.parser.clone());
            let mut matcher = Matcher::new(parser);
            let matcher = match matcher.get_error() {
                Some(message) => Err(grammar.refused(&message)),
                // The first mask shows whether any text satisfies the grammar.
                None => matcher
                    .compute_mask_or_eos()
                    .map(|_| matcher)
                    .map_err(|e| grammar.refused(&e.to_string())),
            }?;
            Ok((matcher, automaton.map_or(0, |parser| parser.lexer_stats().num_bytes)))
        })?;
        let bytes = automaton + source_bytes * BYTES_PER_SOURCE_BYTE;
        Ok(Compiled { vocabulary, matcher, marks: grammar.names_marks(), keys: grammar.keys(), bytes })
    }

    /// Returns the approximate size in bytes, without the vocabulary, for caches of compiled grammars.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the initial state of an answer.
    ///
    /// Decoding of the first token must be the same as at the beginning of a text: a token that would lose a
    /// leading space there is not allowed.
    #[must_use]
    pub fn start(&self) -> Constraint {
        Constraint {
            vocabulary: Arc::clone(&self.vocabulary),
            // The shared state of answers is behind a lock.
            matcher: self.matcher.deep_clone(),
            marks: self.marks,
            keys: self.keys.clone(),
            at_start: true,
            accepted: 0,
            ended: false,
            mask: None,
        }
    }

    /// Returns the state within an answer after `written`, a text in the grammar's own spelling, and `rest`, raw
    /// bytes. `None` if these do not follow the grammar.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn start_behind(&self, written: &str, rest: &[u8]) -> Result<Option<Constraint>, Error> {
        let mut tokens = Vec::new();
        let pieces = self.vocabulary.split_marks(written).into_iter();
        for piece in pieces.map(|piece| piece.map(str::as_bytes)).chain([Ok(rest)]) {
            match piece.map(|plain| self.vocabulary.spell(plain)) {
                Ok(Some(spelled)) => tokens.extend(spelled),
                Ok(None) => return Ok(None),
                Err(mark) => tokens.push(mark),
            }
        }
        let mut constraint = self.start();
        constraint.at_start = false;
        let taken = constraint.matcher.try_consume_tokens(&tokens);
        let taken = taken.map_err(|e| constraint.failed(&e.to_string()))?;
        if taken < tokens.len() || !tokens.iter().all(|token| constraint.read(*token)) {
            return Ok(None);
        }
        Ok(Some(constraint))
    }

    /// Returns the vocabulary for which the grammar was compiled.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }
}

impl Vocabulary {
    /// Compiles a grammar for this vocabulary, within the default [`Limits`].
    ///
    /// Runs on a thread with a stack of its own, and takes about a millisecond for an ordinary schema. The time of
    /// a malicious grammar is limited to some hundred milliseconds; a server still calls this outside of the thread
    /// that computes tokens.
    ///
    /// # Errors
    /// The grammar is malformed, unsatisfiable, or exceeds a limit.
    pub fn compile(self: &Arc<Self>, grammar: &Grammar) -> Result<Compiled, Error> {
        self.compile_within(grammar, &Limits::default())
    }

    /// Compiles a grammar within the given limits.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_within(self: &Arc<Self>, grammar: &Grammar, limits: &Limits) -> Result<Compiled, Error> {
        Compiled::new(Arc::clone(self), grammar, limits)
    }
}

/// State of one answer.
///
/// It is a value: a clone is independent, for speculative decoding or for several answers to one prompt.
pub struct Constraint {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    marks: bool,
    /// Keys written so far, if duplicates must be avoided.
    keys: Option<Keys>,
    /// True if the first token begins the answer.
    at_start: bool,
    accepted: usize,
    /// True if the last accepted token ended the answer.
    ended: bool,
    mask: Option<TokenMask>,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constraint").field("accepted", &self.accepted).finish_non_exhaustive()
    }
}

impl Clone for Constraint {
    fn clone(&self) -> Constraint {
        Constraint {
            vocabulary: Arc::clone(&self.vocabulary),
            matcher: self.matcher.deep_clone(),
            marks: self.marks,
            keys: self.keys.clone(),
            at_start: self.at_start,
            accepted: self.accepted,
            ended: self.ended,
            mask: self.mask.clone(),
        }
    }
}

impl Constraint {
    /// Returns the tokens that may come next, at least one. End tokens are among them exactly if the grammar may
    /// end here, and are the only ones if it must.
    ///
    /// Takes some ten microseconds typically and up to some milliseconds; the result is cached until the next
    /// token.
    ///
    /// # Errors
    /// No token of the vocabulary continues the grammar, or computing the mask exceeds a limit. The answer cannot
    /// continue then.
    pub fn mask(&mut self) -> Result<&TokenMask, Error> {
        let mask = match self.mask.take() {
            Some(mask) => mask,
            None => self.compute()?,
        };
        Ok(self.mask.insert(mask))
    }

    fn compute(&mut self) -> Result<TokenMask, Error> {
        let (v, size) = (&self.vocabulary, self.vocabulary.size());
        if self.ended || self.matcher.stop_reason() == StopReason::NoExtension {
            let ends = TokenMask::from_ids(v.ends().iter().copied(), size);
            return if ends.is_empty() { Err(ErrorKind::DeadEnd.into()) } else { Ok(ends) };
        }
        let set = self.matcher.compute_mask().map_err(|e| self.failed(&e.to_string()))?;
        let mut mask = TokenMask::new(set.into(), size);
        if !self.marks {
            let may_stop = self.matcher.is_accepting().map_err(|e| self.failed(&e.to_string()))?;
            let mut marks = self.vocabulary.marks().clone();
            if may_stop {
                marks.remove(&TokenMask::from_ids(self.vocabulary.ends().iter().copied(), size));
            }
            mask.remove(&marks);
        }
        if self.at_start && self.accepted == 0 {
            mask.remove(self.vocabulary.shorter_at_start());
        }
        if let Some(keys) = &mut self.keys {
            let least = keys.quotes();
            let could: Vec<u32> = match least {
                0 => mask.iter().collect(),
                least => self.vocabulary.with_quotes(least).filter(|id| mask.contains(*id)).collect(),
            };
            for id in could {
                if keys.would_repeat(self.vocabulary.text(id, false)) {
                    mask.remove_one(id);
                }
            }
        }
        if mask.is_empty() { Err(ErrorKind::DeadEnd.into()) } else { Ok(mask) }
    }

    /// Records a token's keys. Returns false if its object has one of them already.
    fn read(&mut self, token: u32) -> bool {
        let vocabulary = &self.vocabulary;
        self.keys.as_mut().is_none_or(|keys| keys.push(vocabulary.text(token, keys.reads_marks())).is_ok())
    }

    /// Accepts the chosen token.
    ///
    /// # Errors
    /// The grammar does not allow the token, or a limit is exceeded. The state is unchanged in the first case and
    /// unusable in the second.
    pub fn accept(&mut self, token: u32) -> Result<(), Error> {
        let allowed = match &self.mask {
            Some(mask) => mask.contains(token),
            None => self.allows(token)?,
        };
        if !allowed {
            return Err(ErrorKind::Token(token).into());
        }
        if self.vocabulary.ends().contains(&token) && self.may_stop() {
            self.ended = true;
        } else {
            self.matcher.consume_token(token).map_err(|e| self.failed(&e.to_string()))?;
            // Duplicate keys were excluded above.
            let _ = self.read(token);
        }
        self.accepted += 1;
        self.mask = None;
        Ok(())
    }

    /// Returns whether a token may come next, without computing the whole mask.
    fn allows(&mut self, token: u32) -> Result<bool, Error> {
        if token as usize >= self.vocabulary.size() || self.ended {
            return Ok(false);
        }
        if self.vocabulary.ends().contains(&token) && self.may_stop() {
            return Ok(true);
        }
        if !self.marks && self.vocabulary.marks().contains(token)
            || self.at_start && self.accepted == 0 && self.vocabulary.shorter_at_start().contains(token)
        {
            return Ok(false);
        }
        if let Some(keys) = &mut self.keys
            && keys.would_repeat(self.vocabulary.text(token, false))
        {
            return Ok(false);
        }
        let valid = self.matcher.validate_tokens(&[token]).map_err(|e| self.failed(&e.to_string()))?;
        Ok(valid == 1)
    }

    /// Returns whether the text so far is complete, so that the answer may end here.
    #[must_use]
    pub fn may_stop(&mut self) -> bool {
        self.ended || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Returns whether nothing can follow: the text is complete and only end tokens are allowed, or one was
    /// accepted. A caller may end the answer here without choosing another token.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended || self.matcher.stop_reason() == StopReason::NoExtension
    }

    /// Returns the number of accepted tokens.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// Rolls back the last `tokens` tokens.
    ///
    /// # Errors
    /// Fewer tokens were accepted.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), Error> {
        let accepted = self.accepted;
        if tokens > accepted {
            return Err(ErrorKind::Rollback { tokens, accepted }.into());
        }
        if tokens == 0 {
            return Ok(());
        }
        // The matcher does not get end tokens.
        let inner = tokens - usize::from(self.ended);
        self.matcher.rollback(inner).map_err(|e| self.failed(&e.to_string()))?;
        if let Some(keys) = &mut self.keys {
            keys.rollback(inner);
        }
        self.ended = false;
        self.accepted -= tokens;
        self.mask = None;
        Ok(())
    }

    fn failed(&self, message: &str) -> Error {
        match self.matcher.stop_reason() {
            StopReason::NoExtensionBias => ErrorKind::DeadEnd.into(),
            _ if is_limit(plain(message)) => ErrorKind::TooComplex(plain(message).into()).into(),
            _ => ErrorKind::Internal(plain(message).into()).into(),
        }
    }
}
