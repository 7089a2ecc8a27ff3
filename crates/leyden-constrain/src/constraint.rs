//! A compiled grammar, and the state of one answer that follows it.

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

/// A grammar made ready for a vocabulary. It never changes, and is cheap to start answers from.
pub struct Compiled {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    /// Whether marks of the model's format may stand where the grammar names them.
    marks: bool,
    /// The keys of no text, where none may be written twice.
    keys: Option<Keys>,
    /// About what it occupies.
    bytes: usize,
}

/// What the tables of a grammar occupy beside its source and its automaton, for each byte of the source: measured on the
/// schemas of `tests/constrain/costs.rs` and rounded up: 60 MiB for what occupies 52.
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
            // A clone shares the automaton, which the first mask makes larger.
            let automaton = parser.as_ref().ok().map(|parser| parser.parser.clone());
            let mut matcher = Matcher::new(parser);
            let matcher = match matcher.get_error() {
                Some(message) => Err(grammar.refused(&message)),
                // What a parser allows at its beginning shows whether anything follows the grammar at all.
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

    /// About how many bytes it occupies, the vocabulary apart: an estimate for those who keep several.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The beginning of an answer.
    ///
    /// The first token is chosen as at the beginning of a text, which is where answers begin: a token that would lose
    /// the space before it there is not offered.
    #[must_use]
    pub fn start(&self) -> Constraint {
        Constraint {
            vocabulary: Arc::clone(&self.vocabulary),
            // Whatever answers share is behind a lock.
            matcher: self.matcher.deep_clone(),
            marks: self.marks,
            keys: self.keys.clone(),
            at_start: true,
            accepted: 0,
            ended: false,
            mask: None,
        }
    }

    /// The middle of an answer, behind `written` in the grammar's own spelling and `rest` as it came. `None` if that does
    /// not follow the grammar.
    ///
    /// # Errors
    /// It takes more than the limits allow.
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

    /// The vocabulary it was compiled for.
    #[must_use]
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }
}

/// The state of one answer.
///
/// It is a value: a clone goes its own way, for guessing ahead or for several answers to one prompt.
pub struct Constraint {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    marks: bool,
    /// The keys that are written, where none may be written twice.
    keys: Option<Keys>,
    /// Whether its first token begins the answer.
    at_start: bool,
    accepted: usize,
    /// Whether the last token accepted ended the answer.
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
    /// The tokens that may come next, never none. Those that end an answer are among them exactly when the grammar may
    /// stop here, and alone when it must.
    ///
    /// Costs some ten microseconds as a rule and up to some milliseconds; asking again costs nothing.
    ///
    /// # Errors
    /// No token of the vocabulary continues the grammar, or finding them takes more than the limits allow. The answer
    /// cannot go on then.
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

    /// Takes note of a token's keys. Whether none of them stands in its object already.
    fn read(&mut self, token: u32) -> bool {
        let vocabulary = &self.vocabulary;
        self.keys.as_mut().is_none_or(|keys| keys.push(vocabulary.text(token, keys.reads_marks())).is_ok())
    }

    /// Goes on with a token that was chosen.
    ///
    /// # Errors
    /// The grammar does not allow it, or it takes more than the limits allow. The state is as before in the first case
    /// and of no use in the second.
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
            // It was asked before.
            let _ = self.read(token);
        }
        self.accepted += 1;
        self.mask = None;
        Ok(())
    }

    /// Whether a token may come next, without finding all that may.
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

    /// Whether the text so far is a whole one, so that the answer may end here.
    #[must_use]
    pub fn may_stop(&mut self) -> bool {
        self.ended || self.matcher.is_accepting().unwrap_or(false)
    }

    /// Whether nothing can follow: the text is whole and no token but an end is allowed, or an end was accepted. A
    /// caller may finish the answer here without choosing another token.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ended || self.matcher.stop_reason() == StopReason::NoExtension
    }

    /// The number of tokens accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// Takes back the last `tokens` tokens.
    ///
    /// # Errors
    /// There are not as many.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), Error> {
        let accepted = self.accepted;
        if tokens > accepted {
            return Err(ErrorKind::Rollback { tokens, accepted }.into());
        }
        if tokens == 0 {
            return Ok(());
        }
        // The end of an answer is not known to the matcher.
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
