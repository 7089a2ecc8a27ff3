//! Rows of a matrix in 8-bit integers with one scale each, and what they lose by that.

/// The greatest magnitude that such an integer has where the row's largest value says the scale.
pub const INT8_GREATEST: f32 = 127.0;

/// Added and subtracted, it rounds small numbers to the nearest whole one, of two the even one.
const ROUND: f32 = 12_582_912.0;

/// The most that the rows of a matrix may lose in the mean: rows of normal distribution lose about 1 %, MiniLM's 1 to 2 %.
const MOST_IN_MEAN: f64 = 0.04;

/// The most that one row may lose. With one outlier it is some tenths, though its error is little beside the row's length; beyond this
/// nothing but the outlier is left.
const MOST_OF_ROW: f64 = 1.0;

/// Quantises a row with a scale that is not 0: `put` gets the place of each value and its integer. Gives what is lost: the root of the mean
/// square of the errors, relative to the mean magnitude of all values but the largest, which an outlier would raise.
pub fn int8_row(x: &[f32], scale: f32, mut put: impl FnMut(usize, i8)) -> f64 {
    let (mut errors, mut magnitudes, mut largest) = (0.0_f64, 0.0_f64, 0.0_f32);
    for (i, &x) in x.iter().enumerate() {
        let value = ((x / scale + ROUND) - ROUND).clamp(-128.0, 127.0);
        put(i, value as i8);
        errors += f64::from(x - value * scale).powi(2);
        magnitudes += f64::from(x.abs());
        largest = largest.max(x.abs());
    }
    let others = magnitudes - f64::from(largest);
    // Both means are of about as many values. Of one value that is not 0 all is there.
    if others > 0.0 { (errors * x.len() as f64).sqrt() / others } else { 0.0 }
}

/// The largest magnitude of a row.
#[must_use]
pub fn largest_magnitude(x: &[f32]) -> f32 {
    x.iter().fold(0.0_f32, |most, x| most.max(x.abs()))
}

/// What rows of a matrix lose by one scale each, as [`int8_row`] tells it, in the order of the rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowLosses {
    rows: usize,
    sum: f64,
    worst: f64,
}

impl RowLosses {
    /// In the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.rows.max(1) as f64
    }

    /// Whether one scale for each row is enough.
    #[must_use]
    pub fn are_small(&self) -> bool {
        self.mean() <= MOST_IN_MEAN && self.worst <= MOST_OF_ROW
    }
}

impl FromIterator<f64> for RowLosses {
    fn from_iter<T: IntoIterator<Item = f64>>(losses: T) -> RowLosses {
        let mut all = RowLosses::default();
        for loss in losses {
            all.rows += 1;
            all.sum += loss;
            all.worst = all.worst.max(loss);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(x: &[f32]) -> f64 {
        int8_row(x, largest_magnitude(x) / INT8_GREATEST, |_, _| ())
    }

    #[test]
    fn an_outlier_does_not_hide_what_the_others_lose() {
        let mut x: Vec<f32> = (0..96).map(|i| ((i * 7919 % 1013) as f32 - 506.0) * 1e-3).collect();
        let plain = loss(&x);
        assert!(plain > 0.001 && plain < 0.01, "{plain}");
        assert!(RowLosses::from_iter([plain; 8]).are_small());
        x[17] = 9000.0;
        let alone = loss(&x);
        assert!(alone > 1.0, "{alone}");
        let losses = RowLosses::from_iter([plain, plain, alone]);
        assert!(!losses.are_small() && losses.mean() > 0.3);
        // Also where its share of the mean is little.
        let rare: RowLosses = std::iter::repeat_n(plain, 2000).chain([alone]).collect();
        assert!(rare.mean() < MOST_IN_MEAN && !rare.are_small());
        assert_eq!(loss(&[0.5, 0.0, 0.0]), 0.0);
    }

    #[test]
    fn values_are_rounded_to_the_nearest_even_integer() {
        let mut made = [0; 5];
        let _ = int8_row(&[-127.0, 0.5, 1.5, -2.5, 3.4], 1.0, |i, q| made[i] = q);
        assert_eq!(made, [-127, 0, 2, -2, 3]);
    }
}
