//! Pooling: one vector for a text, from the hidden states of its tokens.

use leyden_models::Pooling;

/// Hidden states of a text so far, pooled.
///
/// Sums are added by position in `f64`, so the bits do not depend on how a text is divided into steps.
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
    /// Pooling; `None` keeps all hidden states.
    pooling: Option<Pooling>,
    sum: Vec<f64>,
    /// Sum of the weights of all hidden states so far.
    weight: f64,
}

impl Pool {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(pooling: Pooling) -> Pool {
        Pool { pooling: Some(pooling), sum: Vec::new(), weight: 0.0 }
    }

    /// Creates an empty pool that keeps every hidden state, one after the other.
    #[must_use]
    pub fn every() -> Pool {
        Pool { pooling: None, sum: Vec::new(), weight: 0.0 }
    }

    /// Returns whether hidden states before the last token matter.
    #[must_use]
    pub fn needs_all(&self) -> bool {
        self.pooling.is_none_or(Pooling::needs_all)
    }

    /// Returns true if the hidden states of all tokens are kept, instead of one vector.
    #[must_use]
    pub fn keeps_all(&self) -> bool {
        self.pooling.is_none()
    }

    /// Returns whether only the first token's hidden state matters.
    #[must_use]
    pub fn needs_first_only(&self) -> bool {
        self.pooling == Some(Pooling::Cls)
    }

    /// Adds the hidden state of the token at a position; positions ascend. Position 0 starts again, as after a
    /// preemption.
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
                // NaN stays NaN.
                let greater = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
                self.sum.iter_mut().zip(state).for_each(|(most, x)| *most = greater(*most, f64::from(*x)));
            }
            Some(Pooling::Cls | Pooling::Last) => {}
        }
    }

    /// Returns the pooled vector, or all hidden states; empty if there are none.
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
