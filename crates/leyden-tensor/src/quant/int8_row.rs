//! Rows of a matrix in 8-bit integers with one scale each, and their rounding errors.

/// The largest magnitude of an integer: a row's scale is its largest magnitude divided by this.
pub const INT8_GREATEST: f32 = 127.0;

/// Adding and subtracting it rounds a small number to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Maximum mean loss of a matrix's rows: normally distributed rows lose about 1 %, MiniLM's 1 to 2 %.
const MAX_MEAN_LOSS: f64 = 0.04;

/// Maximum loss of one row. A row with one outlier loses some tenths, though its error is small relative to the row's
/// norm; beyond this only the outlier is left.
const MAX_ROW_LOSS: f64 = 1.0;

/// Quantises a row with a scale that is not 0: calls `put` with each value's index and integer. Returns the loss: the
/// root mean square error of the values that are not zero, relative to their mean magnitude without the largest (an
/// outlier would raise the mean). Zeros lose nothing, however many there are.
pub fn int8_row(x: &[f32], scale: f32, mut put: impl FnMut(usize, i8)) -> f64 {
    let (mut errors, mut magnitudes, mut largest, mut nonzero) = (0.0_f64, 0.0_f64, 0.0_f32, 0_usize);
    for (i, &x) in x.iter().enumerate() {
        let value = ((x / scale + ROUND) - ROUND).clamp(-128.0, 127.0);
        put(i, value as i8);
        errors += f64::from(x - value * scale).powi(2);
        magnitudes += f64::from(x.abs());
        largest = largest.max(x.abs());
        nonzero += usize::from(x != 0.0);
    }
    let others = magnitudes - f64::from(largest);
    // Both means are of about as many values. A row with a single nonzero value loses nothing.
    if others > 0.0 { (errors * nonzero as f64).sqrt() / others } else { 0.0 }
}

/// Returns the largest magnitude of a row.
#[must_use]
pub fn largest_magnitude(x: &[f32]) -> f32 {
    x.iter().fold(0.0_f32, |most, x| most.max(x.abs()))
}

/// Losses ([`int8_row`]) of the rows of a matrix.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowLosses {
    rows: usize,
    sum: f64,
    worst: f64,
}

impl RowLosses {
    /// Returns the mean loss.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.rows.max(1) as f64
    }

    /// Returns true if one scale for each row is precise enough.
    #[must_use]
    pub fn are_small(&self) -> bool {
        self.mean() <= MAX_MEAN_LOSS && self.worst <= MAX_ROW_LOSS
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
        // One bad row counts even if its share of the mean is small.
        let rare: RowLosses = std::iter::repeat_n(plain, 2000).chain([alone]).collect();
        assert!(rare.mean() < MAX_MEAN_LOSS && !rare.are_small());
        assert_eq!(loss(&[0.5, 0.0, 0.0]), 0.0);
    }

    #[test]
    fn values_are_rounded_to_the_nearest_even_integer() {
        let mut made = [0; 5];
        let _ = int8_row(&[-127.0, 0.5, 1.5, -2.5, 3.4], 1.0, |i, q| made[i] = q);
        assert_eq!(made, [-127, 0, 2, -2, 3]);
    }
}
