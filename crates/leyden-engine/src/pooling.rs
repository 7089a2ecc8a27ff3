//! One vector for a text, from the states of its tokens.

use leyden_models::Pooling;

/// The states of a text so far.
///
/// Sums go up by position in `f64`, so however a text is cut into steps, the bits are the same.
///
/// ```
/// use leyden_engine::{Pool, Pooling};
///
/// let mut pool = Pool::new(Pooling::Mean);
/// pool.push(0, &[1.0, 2.0]);
/// pool.push(1, &[3.0, 2.0]);
/// assert_eq!(pool.vector(), [2.0, 2.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    /// All states are kept where there is none.
    pooling: Option<Pooling>,
    sum: Vec<f64>,
    /// Of all states so far.
    weight: f64,
}

impl Pool {
    /// No states yet.
    #[must_use]
    pub fn new(pooling: Pooling) -> Pool {
        Pool { pooling: Some(pooling), sum: Vec::new(), weight: 0.0 }
    }

    /// The same, to keep every state, one after the other.
    #[must_use]
    pub fn every() -> Pool {
        Pool { pooling: None, sum: Vec::new(), weight: 0.0 }
    }

    /// Whether states before the last token matter.
    #[must_use]
    pub fn needs_all(&self) -> bool {
        self.pooling.is_none_or(Pooling::needs_all)
    }

    /// Returns true if the states of all tokens are kept until the text ends, and not one vector of them.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.pooling.is_none()
    }

    /// Whether the first token's state is all that matters.
    #[must_use]
    pub fn needs_first_only(&self) -> bool {
        self.pooling == Some(Pooling::Cls)
    }

    /// Takes the state of the token at a position; positions ascend. The first begins anew, as when a text is computed a
    /// second time.
    pub fn push(&mut self, position: usize, state: &[f32]) {
        let begins = position == 0 || self.sum.is_empty() || self.pooling == Some(Pooling::Last);
        let weight = if self.pooling == Some(Pooling::WeightedMean) { (position + 1) as f64 } else { 1.0 };
        if begins {
            self.sum = state.iter().map(|x| f64::from(*x) * weight).collect();
            self.weight = weight;
            return;
        }
        match self.pooling {
            None => self.sum.extend(state.iter().map(|x| f64::from(*x))),
            Some(Pooling::Mean | Pooling::WeightedMean | Pooling::MeanSqrtLen) => {
                self.sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += f64::from(*x) * weight);
                self.weight += weight;
            }
            Some(Pooling::Max) => {
                // A value that is no number stays one.
                let greater = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
                self.sum.iter_mut().zip(state).for_each(|(most, x)| *most = greater(*most, f64::from(*x)));
            }
            Some(Pooling::Cls | Pooling::Last) => {}
        }
    }

    /// The vector, or all states; empty without states.
    #[must_use]
    pub fn vector(&self) -> Vec<f32> {
        let by = match self.pooling {
            Some(Pooling::MeanSqrtLen) => self.weight.sqrt(),
            Some(Pooling::Mean | Pooling::WeightedMean) => self.weight,
            _ => 1.0,
        };
        self.sum.iter().map(|sum| (sum / by) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_pooled_as_named() {
        for (name, wanted) in [
            ("mean", [2.0, -1.0]),
            ("cls", [1.0, 0.0]),
            ("last", [3.0, -3.0]),
            ("max", [3.0, 0.0]),
            ("weightedmean", [14.0 / 6.0, -1.5]),
            ("mean_sqrt_len", [6.0, -3.0].map(|x: f64| (x / 3.0_f64.sqrt()) as f32)),
        ] {
            let mut pool = Pool::new(name.parse().unwrap());
            assert_eq!(pool.vector().len(), 0);
            // The first attempt was preempted.
            for states in [&[[9.0, 9.0]][..], &[[1.0, 0.0], [2.0, 0.0], [3.0, -3.0]]] {
                states.iter().enumerate().for_each(|(i, state)| pool.push(i, state));
            }
            assert_eq!(pool.vector(), wanted, "{name}");
        }
        let mut every = Pool::every();
        [&[1.0, 0.0], &[2.0, 0.5]].iter().enumerate().for_each(|(i, state)| every.push(i, *state));
        assert_eq!(every.vector(), [1.0, 0.0, 2.0, 0.5]);
        assert!("median".parse::<Pooling>().is_err());
    }
}
