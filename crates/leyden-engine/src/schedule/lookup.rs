//! Guessing tokens ahead: prompt lookup (Saxena, "Prompt Lookup Decoding", 2023).
//!
//! Where the last tokens of a text stood before, what followed then is likely to follow now. The guesses are computed
//! in the same step as the token before them and kept as far as they equal what is chosen anyway, so the text does not
//! depend on them; they cost time where they are wrong and save a step each where they are right.
//!
//! Guessing lives off credit, counted in the time of one computed token. A task earns 3 % of its share of each step's
//! time and what its right guesses save, and pays for every guess beforehand. It starts with nothing and never owes,
//! so at any point of an answer guessing has cost at most 3 % of the time that the answer would have taken without,
//! as far as [`super::SchedulerOptions::weights_read_tokens`] is true of the machine.

/// The share of a step's time that may be lost on wrong guesses.
const LOSS: f64 = 0.03;
/// The most credit kept.
const MOST_CREDIT: f64 = 32.0;
/// The most guesses in a step.
const MOST_GUESSES: usize = 10;
/// The fewest tokens that must repeat.
const LEAST_MATCH: usize = 2;
/// The most that are compared; more do not make a guess better.
const MOST_MATCH: usize = 8;
/// How far back repetitions are looked for, in tokens.
const WINDOW: usize = 1 << 14;

/// How guessing goes for one task.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    credit: f64,
    /// How many to guess next.
    ambition: usize,
}

impl Default for Lookup {
    fn default() -> Lookup {
        Lookup { credit: 0.0, ambition: 2 }
    }
}

impl Lookup {
    /// How many guesses may be made now.
    #[must_use]
    pub fn allowance(&self) -> usize {
        // A float that is not negative; the conversion drops the fraction.
        self.ambition.min(self.credit as usize)
    }

    /// The task got one token in a step in which `decoding` tasks did, and which took the time of `weights_read`
    /// tokens and one for each of them; of `guessed` more tokens `right` were kept.
    pub fn settle(&mut self, weights_read: f64, decoding: usize, guessed: usize, right: usize) {
        let share = (weights_read.max(0.0) + decoding.max(1) as f64) / decoding.max(1) as f64;
        let earned = share * (LOSS + right as f64) - guessed as f64;
        self.credit = (self.credit + earned).clamp(0.0, MOST_CREDIT);
        if guessed > 0 {
            let next = if right == guessed { self.ambition * 2 } else { self.ambition / 2 };
            self.ambition = next.clamp(1, MOST_GUESSES);
        }
    }
}

/// What followed when the end of `tokens` stood before, at most `most` tokens; empty if it never did. Of several places
/// it is the one where the most tokens before are the same, and of these the last.
#[must_use]
pub fn guess(tokens: &[u32], most: usize) -> &[u32] {
    let Some((&last, before)) = tokens.split_last() else { return &[] };
    let first = before.len().saturating_sub(WINDOW);
    let mut best = (LEAST_MATCH - 1, 0);
    for (i, _) in before.iter().enumerate().skip(first).rev().filter(|(_, t)| **t == last) {
        let same = before[..i].iter().rev().zip(before.iter().rev()).take(MOST_MATCH - 1);
        let length = 1 + same.take_while(|(a, b)| a == b).count();
        if length > best.0 {
            best = (length, i + 1);
            if length == MOST_MATCH {
                break;
            }
        }
    }
    if best.1 == 0 { &[] } else { &tokens[best.1..(best.1 + most).min(tokens.len())] }
}

/// Chooses the tokens after a step: the one after the last known token and, as long as the chosen ones are those that
/// were guessed, the one after each guess. `choose(i)` gives what the sampler takes at row `i` of the entry's logits
/// after having been told of those before; it is called at most once more than there are guesses. The tokens are
/// those that would have been chosen one by one.
///
/// # Errors
/// What `choose` fails with.
pub fn verify<E>(guesses: &[u32], mut choose: impl FnMut(usize) -> Result<u32, E>) -> Result<Vec<u32>, E> {
    let mut tokens = vec![choose(0)?];
    for (i, guess) in guesses.iter().enumerate() {
        if tokens[i] != *guess {
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
        assert_eq!(guess(&[1, 2, 3, 4, 1, 2], 8), [3, 4, 1, 2]);
        assert_eq!(guess(&[1, 2, 3, 4, 1, 2], 1), [3]);
        assert_eq!(guess(&[7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2], 2), [3, 9]);
        assert_eq!(guess(&[1, 2, 3, 1, 2, 4, 1, 2], 1), [4]);
        assert_eq!(guess(&[1, 2, 3, 2], 4), [] as [u32; 0]);
        assert_eq!(guess(&[5, 5, 5], 4), [5]);
        assert_eq!(guess(&[], 4), [] as [u32; 0]);
        assert_eq!(guess(&[5], 4), [] as [u32; 0]);
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
        /// Time with guessing against time without, for any machine, company and luck.
        #[test]
        fn guessing_never_costs_more_than_it_may(
            weights_read in 0.0_f64..40.0, decoding in 1_usize..64, luck in prop::collection::vec(0_usize..12, 1..400)
        ) {
            let share = (weights_read + decoding as f64) / decoding as f64;
            let mut l = Lookup::default();
            let (mut time, mut tokens) = (0.0, 0.0);
            for right in luck {
                let guessed = l.allowance();
                let right = right.min(guessed);
                l.settle(weights_read, decoding, guessed, right);
                time += share + guessed as f64;
                tokens += 1.0 + right as f64;
                prop_assert!(time <= 1.03 * share * tokens + 1e-6);
            }
        }
    }

    #[test]
    fn a_text_that_repeats_itself_is_soon_guessed_far_ahead() {
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
