//! Speculative decoding by prompt lookup (Saxena, "Prompt Lookup Decoding", 2023).
//!
//! If the last tokens of a text occurred before, the tokens that followed them then are the draft; so are those that
//! followed the whole text where the prefix cache holds a longer one
//! ([`BlockTables::continuation`](crate::BlockTables::continuation)). Draft tokens are
//! computed in the same step as the token before them and accepted as far as they equal the sampled tokens, so they do
//! not change the text; rejected ones cost time, and accepted ones save a step each.
//!
//! A credit limits the cost, in units of the time of one computed token. A task earns 3 % of its share of each step's
//! time and the time that its accepted draft tokens save, and pays for every draft token in advance. The credit starts
//! at 0 and is never negative, so at any point of an answer drafts have cost at most 3 % of the time that the answer
//! would have taken without, if [`super::SchedulerOptions::weights_read_tokens`] is accurate.

use super::acceptance::Acceptance;

/// Share of a step's time that may be lost on rejected draft tokens.
const LOSS: f64 = 0.03;
/// Maximum credit.
const MAX_CREDIT: f64 = 32.0;
/// Maximum number of draft tokens in a step.
const MAX_DRAFT: usize = 10;
/// Minimum number of tokens that must repeat.
const MIN_MATCH: usize = 2;
/// Maximum number of tokens compared; longer matches do not improve the draft.
const MAX_MATCH: usize = 8;
/// Expected probability of a right draft token before the first draft.
const EXPECTED: f64 = 0.5;
/// Number of last tokens that are searched for repetitions.
const WINDOW: usize = 1 << 14;

/// Draft length and credit of one task.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    credit: f64,
    /// Length of the next draft.
    next_length: usize,
    acceptance: Acceptance,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { credit: 0.0, next_length: 2, acceptance: Acceptance::default() }
    }
}

impl Lookup {
    /// Returns the number of draft tokens allowed now.
    #[must_use]
    pub fn allowance(&self) -> usize {
        // The credit is not negative; the conversion drops the fraction.
        self.next_length.min(self.credit as usize)
    }

    /// Returns the probability that a draft token is right.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.acceptance.rate(EXPECTED)
    }

    /// Updates credit and draft length after a step that computed one token of each of `decoding` tasks and took the
    /// time of `weights_read` tokens and one for each of them; `accepted` of the task's `drafted` draft tokens were
    /// accepted.
    pub fn settle(&mut self, weights_read: f64, decoding: usize, drafted: usize, accepted: usize) {
        let share = (weights_read.max(0.0) + decoding.max(1) as f64) / decoding.max(1) as f64;
        let earned = share * (LOSS + accepted as f64) - drafted as f64;
        self.credit = (self.credit + earned).clamp(0.0, MAX_CREDIT);
        if drafted > 0 {
            self.acceptance.record(drafted, accepted, None);
            let next = if accepted == drafted { self.next_length * 2 } else { self.next_length / 2 };
            self.next_length = next.clamp(1, MAX_DRAFT);
        }
    }
}

/// Returns the draft: the tokens that followed an earlier occurrence of the end of `tokens`, at most `most`; empty if
/// there is none. Of several occurrences the longest match counts, and of equal ones the last.
#[must_use]
pub fn draft(tokens: &[u32], most: usize) -> &[u32] {
    repetition(tokens, most).0
}

/// Returns the draft, and the number of last tokens that the earlier occurrence has in common with the end, at most
/// [`MAX_MATCH`].
pub(super) fn repetition(tokens: &[u32], most: usize) -> (&[u32], usize) {
    let Some((&last, before)) = tokens.split_last() else { return (&[], 0) };
    let first = before.len().saturating_sub(WINDOW);
    let mut best = (MIN_MATCH - 1, 0);
    for (i, _) in before.iter().enumerate().skip(first).rev().filter(|(_, t)| **t == last) {
        let same = before[..i].iter().rev().zip(before.iter().rev()).take(MAX_MATCH - 1);
        let length = 1 + same.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, i + 1);
            if length == MAX_MATCH {
                break;
            }
        }
    }
    if best.1 == 0 { (&[], 0) } else { (&tokens[best.1..(best.1 + most).min(tokens.len())], best.0) }
}

/// Chooses the tokens after a step: the one after the last known token and, as long as the chosen tokens equal the
/// draft, the one after each draft token. `choose(i)` samples from row `i` of the entry's logits, and the sampler has
/// accepted the tokens of all rows before; it is called at most once more than there are draft tokens. The result is
/// what sampling one by one would give.
///
/// # Errors
/// The first error of `choose`.
pub fn verify<E>(draft: &[u32], mut choose: impl FnMut(usize) -> Result<u32, E>) -> Result<Vec<u32>, E> {
    let mut tokens = vec![choose(0)?];
    for (i, token) in draft.iter().enumerate() {
        if tokens[i] != *token {
            break;
        }
        tokens.push(choose(i + 1)?);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_and_then_the_last_repetition_is_followed() {
        assert_eq!(draft(&[1, 2, 3, 4, 1, 2], 8), [3, 4, 1, 2]);
        assert_eq!(draft(&[1, 2, 3, 4, 1, 2], 1), [3]);
        assert_eq!(draft(&[7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2], 2), [3, 9]);
        assert_eq!(draft(&[1, 2, 3, 1, 2, 4, 1, 2], 1), [4]);
        assert_eq!(draft(&[1, 2, 3, 2], 4), [] as [u32; 0]);
        assert_eq!(draft(&[5, 5, 5], 4), [5]);
        assert_eq!(draft(&[], 4), [] as [u32; 0]);
        assert_eq!(draft(&[5], 4), [] as [u32; 0]);
    }

    #[test]
    fn what_is_kept_is_what_would_have_been_chosen() {
        let chosen = [4, 5, 6, 7];
        let at = |i: usize| Ok::<u32, ()>(chosen[i]);
        assert_eq!(verify(&[], at), Ok(vec![4]));
        assert_eq!(verify(&[4, 5, 9], at), Ok(vec![4, 5, 6]));
        assert_eq!(verify(&[9, 5], at), Ok(vec![4]));
        assert_eq!(verify(&[4, 5, 6], at), Ok(vec![4, 5, 6, 7]));
        assert_eq!(verify(&[4], |i| if i == 0 { Ok(4) } else { Err("broken") }), Err("broken"));
    }

    proptest! {
        /// Compares the time with drafts to the time without, for any machine, number of tasks and acceptance.
        #[test]
        fn drafts_never_cost_more_than_it_may(
            weights_read in 0.0_f64..40.0, decoding in 1_usize..64, luck in prop::collection::vec(0_usize..12, 1..400)
        ) {
            let share = (weights_read + decoding as f64) / decoding as f64;
            let mut l = Lookup::default();
            let (mut time, mut tokens) = (0.0, 0.0);
            for accepted in luck {
                let drafted = l.allowance();
                let accepted = accepted.min(drafted);
                l.settle(weights_read, decoding, drafted, accepted);
                time += share + drafted as f64;
                tokens += 1.0 + accepted as f64;
                prop_assert!(time <= 1.03 * share * tokens + 1e-6);
            }
        }
    }

    #[test]
    fn a_text_that_repeats_itself_soon_gets_long_drafts() {
        let mut l = Lookup::default();
        let (mut steps, mut tokens) = (0, 0);
        while tokens < 200 {
            let n = l.allowance();
            l.settle(4.0, 1, n, n);
            steps += 1;
            tokens += 1 + n;
        }
        assert!(steps < 40, "{steps} steps");
    }
}
