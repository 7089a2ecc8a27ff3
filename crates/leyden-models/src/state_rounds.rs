//! The spans of a batch as layers with a recurrent state advance them, cut where a copy of a state is wanted.
//!
//! A state exists for the last token computed alone. A span with checkpoints is therefore advanced in several rounds, and
//! the state is copied between two of them. Spans of one round belong to different sequences. Cutting changes no result:
//! a state advances token by token.

use leyden_kernels::ops::StateSpan;
use std::ops::Range;

/// A copy of a sequence's recurrent state, to be made in the middle or at the end of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCheckpoint {
    /// Number of the span's tokens in the copied state, from 1 to all.
    pub tokens: usize,
    /// Slot of the copy; not a sequence's own.
    pub slot: usize,
}

/// Spans that are advanced together, and the copies (from slot, to slot) behind them.
#[derive(Debug, Default)]
struct Round {
    spans: Vec<StateSpan>,
    copies: Vec<(usize, usize)>,
}

/// The rounds of a batch.
#[derive(Debug, Default)]
pub(crate) struct StateRounds(Vec<Round>);

impl StateRounds {
    /// Removes all spans.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a span with its checkpoints, ascending by tokens.
    pub(crate) fn add(&mut self, span: StateSpan, checkpoints: &[StateCheckpoint]) {
        let mut done = 0;
        for (i, checkpoint) in checkpoints.iter().enumerate() {
            let round = self.add_part(i, span, done..checkpoint.tokens.min(span.tokens));
            round.copies.push((span.slot, checkpoint.slot));
            done = checkpoint.tokens.min(span.tokens);
        }
        if done < span.tokens {
            self.add_part(checkpoints.len(), span, done..span.tokens);
        }
    }

    fn add_part(&mut self, round: usize, span: StateSpan, part: Range<usize>) -> &mut Round {
        if self.0.len() <= round {
            self.0.resize_with(round + 1, Round::default);
        }
        let round = &mut self.0[round];
        if !part.is_empty() {
            let fresh = span.fresh && part.start == 0;
            let (first, tokens) = (span.first + part.start, part.len());
            round.spans.push(StateSpan { first, tokens, fresh, ..span });
        }
        round
    }

    /// Calls `run` with the spans of each round in turn. Between rounds it copies the numbers `part` of the states, which
    /// are those that `run` advances. `states` are a layer's, of `stride` numbers for each slot.
    pub(crate) fn advance(
        &self,
        (states, stride): (&mut [f32], usize),
        part: Range<usize>,
        mut run: impl FnMut(&[StateSpan], &mut [f32]),
    ) {
        for round in &self.0 {
            run(&round.spans, states);
            for &(from, to) in &round.copies {
                let source = from * stride + part.start..from * stride + part.end;
                states.copy_within(source, to * stride + part.start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_at_their_checkpoints() {
        let mut rounds = StateRounds::default();
        let span = |first, tokens, slot| StateSpan { first, tokens, slot, fresh: true };
        let checkpoint = |tokens, slot| StateCheckpoint { tokens, slot };
        rounds.add(span(0, 5, 0), &[checkpoint(2, 2), checkpoint(5, 3)]);
        rounds.add(span(5, 3, 1), &[]);
        // The state counts the tokens; what is not in the part stays.
        let mut states = [9.0; 8];
        let mut seen = Vec::new();
        rounds.advance((&mut states, 2), 1..2, |spans, states| {
            for s in spans {
                let before = if s.fresh { 0.0 } else { states[s.slot * 2 + 1] };
                states[s.slot * 2 + 1] = before + s.tokens as f32;
                seen.extend(s.first..s.first + s.tokens);
            }
        });
        assert_eq!(states, [9.0, 5.0, 9.0, 3.0, 9.0, 2.0, 9.0, 5.0]);
        seen.sort_unstable();
        assert_eq!(seen, (0..8).collect::<Vec<_>>());
        rounds.clear();
        rounds.advance((&mut states, 2), 0..2, |_, _| unreachable!("no spans"));
    }
}
