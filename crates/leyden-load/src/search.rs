//! [`Search`]: the largest number of users that passes, by doubling and then bisection.

/// Searches for the largest number of users that passes, assuming that fewer users pass whenever more do.
///
/// ```
/// let mut search = leyden_load::Search::new(100);
/// while let Some(users) = search.next() {
///     search.record(users, users <= 37);
/// }
/// assert_eq!((search.holds(), search.fails()), (37, Some(38)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    holds: u32,
    fails: Option<u32>,
    most: u32,
}

impl Search {
    /// Makes a search from 1 to `most` users.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self { holds: 0, fails: None, most }
    }

    /// Returns the number to try; `None` when the answer is known, exactly up to 20 users and within 5 % above.
    #[expect(clippy::should_implement_trait, reason = "what comes next depends on what is told in between")]
    pub fn next(&mut self) -> Option<u32> {
        match self.fails {
            None if self.holds >= self.most => None,
            None => Some(self.holds.saturating_mul(2).clamp(1, self.most)),
            Some(fails) if fails - self.holds <= (self.holds / 20).max(1) => None,
            Some(fails) => Some(self.holds + (fails - self.holds) / 2),
        }
    }

    /// Records the result for a number of users.
    pub fn record(&mut self, users: u32, holds: bool) {
        if holds {
            self.holds = self.holds.max(users);
        } else {
            self.fails = Some(self.fails.map_or(users, |fails| fails.min(users)));
        }
    }

    /// Returns the largest number that passed; 0 if none did.
    #[must_use]
    pub fn holds(&self) -> u32 {
        self.holds
    }

    /// Returns the smallest number that failed, if there is one.
    #[must_use]
    pub fn fails(&self) -> Option<u32> {
        self.fails
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_answer_is_found_in_few_steps(limit in 0u32..3000, most in 1u32..3000) {
            let (mut search, mut steps) = (Search::new(most), 0);
            while let Some(users) = search.next() {
                prop_assert!((1..=most).contains(&users));
                search.record(users, users <= limit);
                steps += 1;
            }
            prop_assert!(steps <= 24, "{}", steps);
            let wanted = limit.min(most);
            prop_assert!(search.holds() <= wanted && wanted - search.holds() <= search.holds() / 20);
            prop_assert_eq!(search.fails().is_some(), limit < most);
        }
    }
}
