//! [`VectorShape`]: dimensions and length of the vectors in a result.

use crate::error::{Error, ErrorKind};
use leyden_models::{ModelConfig, Similarity};

/// Dimensions and length of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorShape {
    /// Number of dimensions to keep, the first.
    pub dimensions: usize,
    /// True to scale whole vectors to length 1 before they are shortened, as sentence-transformers does in a module of
    /// the model.
    pub unit: bool,
    /// True to scale the shortened vectors to length 1.
    pub normalize: bool,
}

impl VectorShape {
    /// Returns the shape of vectors with `dimensions` dimensions, by default the model's usual number.
    ///
    /// # Errors
    /// The model's vectors do not have so many dimensions, or the number is 0.
    pub fn new(
        config: &ModelConfig,
        dimensions: Option<usize>,
        normalize: bool,
    ) -> Result<VectorShape, Error> {
        let width = config.vector_width();
        let dimensions = dimensions.unwrap_or(config.usual_dimensions());
        match (1..=width).contains(&dimensions) {
            true => Ok(VectorShape { dimensions, unit: false, normalize }),
            false => Err(ErrorKind::Dimensions { dimensions, width }.into()),
        }
    }

    /// Returns the shape of whole vectors as the model computes them.
    #[must_use]
    pub fn whole(config: &ModelConfig) -> VectorShape {
        VectorShape { dimensions: config.vector_width(), unit: false, normalize: false }
    }

    /// Returns the shape that the model's similarity function expects.
    #[must_use]
    pub fn compared(config: &ModelConfig) -> VectorShape {
        VectorShape {
            dimensions: config.usual_dimensions(),
            unit: config.vectors.unit,
            normalize: config.vectors.similarity == Similarity::Cosine,
        }
    }

    /// Returns a vector in this shape.
    ///
    /// ```
    /// use leyden_tasks::VectorShape;
    ///
    /// let shape = VectorShape { dimensions: 2, unit: true, normalize: false };
    /// assert_eq!(shape.apply(vec![3.0, 0.0, 4.0]), [0.6, 0.0]);
    /// assert_eq!(VectorShape { unit: false, ..shape }.apply(vec![3.0, 0.0, 4.0]), [3.0, 0.0]);
    /// ```
    #[must_use]
    pub fn apply(self, mut vector: Vec<f32>) -> Vec<f32> {
        if self.unit {
            normalize(&mut vector);
        }
        vector.truncate(self.dimensions);
        if self.normalize {
            normalize(&mut vector);
        }
        vector
    }
}

/// Scales a vector to length 1; a vector of zeros stays as it is.
fn normalize(vector: &mut [f32]) {
    let sum: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = if sum > 0.0 { sum.sqrt() } else { 1.0 };
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_vectors_have_length_one() {
        let shape = VectorShape { dimensions: 2, unit: false, normalize: true };
        assert_eq!(shape.apply(vec![3.0, -4.0]), [0.6, -0.8]);
        assert_eq!(shape.apply(vec![0.0, 0.0, 7.0]), [0.0, 0.0]);
    }
}
