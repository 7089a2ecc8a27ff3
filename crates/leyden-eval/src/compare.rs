//! A row of logits compared with the reference's at the same position.
//!
//! The reference's rows are log probabilities in 16 bits, in llama-perplexity's format: 65535 steps from the smallest
//! value, but at most 16 below the largest, to the largest. A row is a scale, the smallest log probability, and a
//! value for each token of the vocabulary. As there, sums of probabilities are in f64 and single values in f32.

/// Range below the largest logit; smaller logits are clipped to it.
const RANGE: f32 = 16.0;
/// Number of 16-bit values in a row's header: two floats.
const HEAD: usize = 4;

/// Returns the number of 16-bit values in a row.
#[must_use]
pub fn row_len(vocabulary: usize) -> usize {
    vocabulary.next_multiple_of(2) + HEAD
}

/// A row of the reference.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    scale: f32,
    least: f32,
    values: &'a [u16],
}

impl<'a> Row<'a> {
    /// Parses a row of length [`row_len`]; `None` if its numbers cannot be log probabilities.
    #[must_use]
    pub fn new(values: &'a [u16], vocabulary: usize) -> Option<Row<'a>> {
        let (head, values) = values.split_at_checked(HEAD)?;
        let float = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
        let (scale, least) = (float(head[0], head[1]), float(head[2], head[3]));
        // No probability exceeds 1, except by rounding.
        let highest = scale * f32::from(u16::MAX) + least;
        let sane = scale.is_finite() && scale >= 0.0 && least.is_finite() && least <= 0.0 && highest <= 1e-2;
        Some(Row { scale, least, values: values.get(..vocabulary).filter(|_| sane)? })
    }

    fn logprob(&self, token: usize) -> f32 {
        self.scale * f32::from(self.values[token]) + self.least
    }
}

/// Returns the largest logit, its token, and the logarithm of the sum of exponentials relative to it.
fn peak(logits: &[f32]) -> (f32, usize, f32) {
    let (mut best, mut at) = (f32::NEG_INFINITY, 0);
    for (i, &logit) in logits.iter().enumerate() {
        if logit > best {
            (best, at) = (logit, i);
        }
    }
    let sum: f64 = logits.iter().map(|l| f64::from((l - best).exp())).sum();
    (best, at, sum.ln() as f32)
}

/// Encodes logits in the reference's format into `out`, of length [`row_len`].
///
/// # Panics
/// If `out` has another length.
pub fn encode(logits: &[f32], out: &mut [u16]) {
    assert_eq!(out.len(), row_len(logits.len()), "a row of the vocabulary");
    let (best, _, log_sum) = peak(logits);
    let least = logits.iter().copied().fold(f32::INFINITY, f32::min).max(best - RANGE);
    let scale = (best - least) / 65535.0;
    for (place, value) in [(0, scale), (2, least - best - log_sum)] {
        let bits = value.to_bits();
        out[place] = bits as u16;
        out[place + 1] = (bits >> 16) as u16;
    }
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let (values, rest) = out[HEAD..].split_at_mut(logits.len());
    for (value, logit) in values.iter_mut().zip(logits) {
        // Between 0 and 65535 up to rounding; the conversion clamps.
        *value = (inverse * (logit - least)).round_ties_even() as u16;
    }
    rest.fill(0);
}

/// Result of comparing one row with the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Negative log likelihood of the next token.
    pub nll: f32,
    /// Negative log likelihood of the next token under the reference.
    pub nll_reference: f32,
    /// KL divergence from the reference.
    pub kld: f64,
    /// Difference of the next token's probabilities.
    pub p_diff: f32,
    /// True if both have the same most probable token.
    pub same_top: bool,
}

/// Compares logits with the reference's at a position whose next token is `token`.
///
/// # Panics
/// `token` is outside the vocabulary, or the row has another vocabulary.
#[must_use]
pub fn compare(logits: &[f32], reference: &Row<'_>, token: usize) -> Compared {
    assert_eq!(logits.len(), reference.values.len(), "one vocabulary");
    let (best, top, log_sum) = peak(logits);
    let nll = best + log_sum - logits[token];
    let nll_reference = -reference.logprob(token);
    let total = best + log_sum;
    let (mut kld, mut top_reference, mut best_reference) = (0.0_f64, 0, f32::NEG_INFINITY);
    for (i, logit) in logits.iter().enumerate() {
        let logprob = reference.logprob(i);
        if logprob > best_reference {
            (best_reference, top_reference) = (logprob, i);
        }
        if logprob > -RANGE {
            kld += f64::from(logprob.exp() * (logprob - logit + total));
        }
    }
    let p_diff = (-nll).exp() - (-nll_reference).exp();
    Compared { nll, nll_reference, kld, p_diff, same_top: top == top_reference }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(logits: &[f32]) -> Vec<u16> {
        let mut out = vec![0; row_len(logits.len())];
        encode(logits, &mut out);
        out
    }

    /// Compares with a plain computation in f64.
    #[test]
    fn compare_is_the_definition() {
        let p: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin() * 6.0).collect();
        let q: Vec<f32> = p.iter().enumerate().map(|(i, x)| x + 0.3 * (i as f32 * 1.3).cos()).collect();
        let log = |x: &[f32]| -> Vec<f64> {
            let sum: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            x.iter().map(|x| f64::from(*x) - sum.ln()).collect()
        };
        let (lp, lq) = (log(&p), log(&q));
        let want: f64 = lp.iter().zip(&lq).map(|(p, q)| p.exp() * (p - q)).sum();
        let rows = row(&p);
        let got = compare(&q, &Row::new(&rows, 50).unwrap(), 7);
        // The error of a log probability is at most half a step of 16 / 65535.
        assert!((got.kld - want).abs() < 1.3e-4, "{} {want}", got.kld);
        assert!((f64::from(got.nll) + lq[7]).abs() < 1e-5);
        assert!((f64::from(got.nll_reference) + lp[7]).abs() < 2e-4);
        assert!((f64::from(got.p_diff) - (lq[7].exp() - lp[7].exp())).abs() < 1e-4);
        let same = compare(&p, &Row::new(&rows, 50).unwrap(), 7);
        assert!(same.kld.abs() < 1.3e-4 && same.same_top);
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let mut rows = row(&[1.0, 2.0, 3.0]);
        assert_eq!(rows.len(), 8);
        assert!(
            Row::new(&rows, 4).is_some() && Row::new(&rows, 5).is_none() && Row::new(&rows[..3], 0).is_none()
        );
        (rows[0], rows[1]) = (0, 0x7fc0);
        assert!(Row::new(&rows, 3).is_none(), "a scale that is no number");
        // Equal logits have a scale of zero.
        let flat = row(&[2.0; 4]);
        assert_eq!(Row::new(&flat, 4).unwrap().logprob(1), -(4.0_f32.ln()));
    }
}
