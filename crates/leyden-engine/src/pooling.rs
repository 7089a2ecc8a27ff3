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
    pooling: Pooling,
    sum: Vec<f64>,
    tokens: usize,
}

impl Pool {
    /// No states yet.
    #[must_use]
    pub fn new(pooling: Pooling) -> Pool {
        Pool { pooling, sum: Vec::new(), tokens: 0 }
    }

    /// The way it is made.
    #[must_use]
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Takes the state of the token at a position; positions ascend. The first begins anew, as when a text is computed a
    /// second time.
    pub fn push(&mut self, position: usize, state: &[f32]) {
        let begins = position == 0 || self.sum.is_empty() || self.pooling == Pooling::Last;
        if begins {
            self.sum = state.iter().map(|x| f64::from(*x)).collect();
            self.tokens = 1;
        } else if self.pooling == Pooling::Mean {
            self.sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += f64::from(*x));
            self.tokens += 1;
        }
    }

    /// The vector; empty without states.
    #[must_use]
    pub fn vector(&self) -> Vec<f32> {
        self.sum.iter().map(|sum| (sum / self.tokens as f64) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_pooled_as_named() {
        for (name, wanted) in [("mean", [2.0, -1.0]), ("cls", [1.0, 0.0]), ("last", [3.0, -3.0])] {
            let mut pool = Pool::new(name.parse().unwrap());
            assert_eq!((pool.pooling().to_string().as_str(), pool.vector().len()), (name, 0));
            // The first attempt was preempted.
            for states in [&[[9.0, 9.0]][..], &[[1.0, 0.0], [2.0, 0.0], [3.0, -3.0]]] {
                states.iter().enumerate().for_each(|(i, state)| pool.push(i, state));
            }
            assert_eq!(pool.vector(), wanted, "{name}");
        }
        assert!("max".parse::<Pooling>().is_err());
    }
}
