//! Pooling: one vector for a text, from the hidden states of its tokens.

use leyden_models::Pooling;
use leyden_models::heads::Head;

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
/// assert_eq!(pool.into_vector(), [2.0, 2.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    /// Pooling; `None` keeps all hidden states.
    pooling: Option<Pooling>,
    /// Hidden states `[n_tokens, hidden]` without a pooling.
    rows: Vec<f32>,
    sum: Vec<f64>,
    /// Sum of the weights of all hidden states so far.
    weight: f64,
}

impl Pool {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(pooling: Pooling) -> Pool {
        Pool { pooling: Some(pooling), rows: Vec::new(), sum: Vec::new(), weight: 0.0 }
    }

    /// Creates an empty pool that keeps every hidden state, one after the other.
    #[must_use]
    pub fn every() -> Pool {
        Pool { pooling: None, rows: Vec::new(), sum: Vec::new(), weight: 0.0 }
    }

    /// Creates an empty pool for the input of a head.
    pub(crate) fn of(head: &Head) -> Pool {
        head.pooling().map_or_else(Pool::every, Pool::new)
    }

    /// Adds the hidden state of the token at a position; positions ascend. Position 0 starts again, as after a
    /// preemption.
    pub fn push(&mut self, position: usize, state: &[f32]) {
        let Some(pooling) = self.pooling else {
            if position == 0 {
                self.rows.clear();
            }
            self.rows.extend_from_slice(state);
            return;
        };
        let begins = position == 0 || self.sum.is_empty() || pooling == Pooling::Last;
        let weight = if pooling == Pooling::WeightedMean { (position + 1) as f64 } else { 1.0 };
        if begins {
            self.sum = state.iter().map(|x| f64::from(*x) * weight).collect();
            self.weight = weight;
            return;
        }
        match pooling {
            Pooling::Mean | Pooling::WeightedMean | Pooling::MeanSqrtLen => {
                self.sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += f64::from(*x) * weight);
                self.weight += weight;
            }
            Pooling::Max => {
                // NaN stays NaN.
                let greater = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
                self.sum.iter_mut().zip(state).for_each(|(most, x)| *most = greater(*most, f64::from(*x)));
            }
            Pooling::Cls | Pooling::Last => {}
        }
    }

    /// Returns the pooled vector, or all hidden states; empty if there are none.
    #[must_use]
    pub fn into_vector(self) -> Vec<f32> {
        let by = match self.pooling {
            None => return self.rows,
            Some(Pooling::MeanSqrtLen) => self.weight.sqrt(),
            Some(Pooling::Mean | Pooling::WeightedMean) => self.weight,
            Some(Pooling::Cls | Pooling::Last | Pooling::Max) => 1.0,
        };
        self.sum.into_iter().map(|sum| (sum / by) as f32).collect()
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
            assert_eq!(pool.clone().into_vector().len(), 0);
            // The first attempt was preempted.
            for states in [&[[9.0, 9.0]][..], &[[1.0, 0.0], [2.0, 0.0], [3.0, -3.0]]] {
                states.iter().enumerate().for_each(|(i, state)| pool.push(i, state));
            }
            assert_eq!(pool.into_vector(), wanted, "{name}");
        }
        let mut every = Pool::every();
        [&[1.0, 0.0], &[2.0, 0.5]].iter().enumerate().for_each(|(i, state)| every.push(i, *state));
        assert_eq!(every.into_vector(), [1.0, 0.0, 2.0, 0.5]);
        assert!("median".parse::<Pooling>().is_err());
    }
}
