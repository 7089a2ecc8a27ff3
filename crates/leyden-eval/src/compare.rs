//! One row of logits beside the reference's at the same place.
//!
//! The reference's are log probabilities in 16 bits, as llama-perplexity stores them: of the range from the least, but no less
//! than 16 below the best, to the best, in 65535 steps. A row is a scale, the least log probability, and a value for each token
//! of the vocabulary. Sums of probabilities are in f64 and single values in f32, as there.

/// Logits further below the best are as this one.
const RANGE: f32 = 16.0;
/// 16-bit values in front of a row's: two floats.
const HEAD: usize = 4;

/// 16-bit values of a row.
#[must_use]
pub fn row_len(vocabulary: usize) -> usize {
    vocabulary.next_multiple_of(2) + HEAD
}

/// A row of a reference.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    scale: f32,
    least: f32,
    values: &'a [u16],
}

impl<'a> Row<'a> {
    /// The row in `values`, of [`row_len`]; `None` if its numbers cannot be log probabilities.
    #[must_use]
    pub fn new(values: &'a [u16], vocabulary: usize) -> Option<Row<'a>> {
        let (head, values) = values.split_at_checked(HEAD)?;
        let float = |low: u16, high: u16| f32::from_bits(u32::from(low) | u32::from(high) << 16);
        let (scale, least) = (float(head[0], head[1]), float(head[2], head[3]));
        // No probability is above 1, but for what rounding adds.
        let highest = scale * f32::from(u16::MAX) + least;
        let sane = scale.is_finite() && scale >= 0.0 && least.is_finite() && least <= 0.0 && highest <= 1e-2;
        Some(Row { scale, least, values: values.get(..vocabulary).filter(|_| sane)? })
    }

    fn logprob(&self, token: usize) -> f32 {
        self.scale * f32::from(self.values[token]) + self.least
    }
}

/// The best logit, its token, and the logarithm of the sum of exponentials relative to it.
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

/// Logits as a reference keeps them, into `out` of [`row_len`].
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
        // Within 0 and 65535 up to rounding, which the conversion clamps.
        *value = (inverse * (logit - least)).round_ties_even() as u16;
    }
    rest.fill(0);
}

/// What one row says beside the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Negative log likelihood of the token that follows.
    pub nll: f32,
    /// The reference's.
    pub nll_reference: f32,
    /// KL divergence from the reference.
    pub kld: f64,
    /// Difference of the probabilities of the token that follows.
    pub p_diff: f32,
    /// Whether both find the same token the best.
    pub same_top: bool,
}

/// Compares logits with the reference's at a place that `token` follows.
///
/// # Panics
/// If `token` is outside the vocabulary, or the row has another.
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

    /// Beside a plain computation in f64.
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
        // A log probability is off by at most half a step of 16 / 65535.
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
        // All alike: a scale of zero.
        let flat = row(&[2.0; 4]);
        assert_eq!(Row::new(&flat, 4).unwrap().logprob(1), -(4.0_f32.ln()));
    }
}
