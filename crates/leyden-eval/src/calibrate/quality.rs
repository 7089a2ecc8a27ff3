//! Quality of probabilities: accuracy, expected calibration error and log likelihood.

use leyden_tasks::best;
use leyden_tasks::calibration::{LabelKind, Quality, probabilities};

/// Number of bins of confidence, as in Guo et al. (2017).
const BINS: usize = 15;
/// Smallest probability in a logarithm.
const MIN_PROBABILITY: f64 = 1e-30;

/// Returns the quality of probabilities without and with a temperature.
pub(super) fn quality<'d>(
    rows: impl Iterator<Item = (&'d [f32], &'d [usize])> + Clone,
    temperature: f64,
    kind: LabelKind,
) -> Quality {
    let (accuracy, ece, nll) = at(rows.clone(), 1.0, kind);
    let (_, ece_after, nll_after) = at(rows, temperature, kind);
    Quality { accuracy, ece: (ece, ece_after), nll: (nll, nll_after) }
}

/// Returns accuracy, expected calibration error and mean negative log likelihood.
fn at<'d>(
    rows: impl Iterator<Item = (&'d [f32], &'d [usize])>,
    temperature: f64,
    kind: LabelKind,
) -> (f64, f64, f64) {
    // Count, sum of confidences, and number of right ones, by confidence.
    let mut bins = [(0_usize, 0.0_f64, 0_usize); BINS];
    let mut add = |confidence: f64, right: bool| {
        let bin = &mut bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
        *bin = (bin.0 + 1, bin.1 + confidence, bin.2 + usize::from(right));
    };
    let (mut loss, mut count, mut hits, mut decisions) = (0.0, 0, 0, 0);
    for (logits, labels) in rows {
        let p = probabilities(logits, temperature, kind);
        count += 1;
        match kind {
            LabelKind::One => {
                let top = best(logits).unwrap_or_default();
                let right = labels.first() == Some(&top);
                add(p[top], right);
                (hits, decisions) = (hits + usize::from(right), decisions + 1);
                let of_label = labels.first().and_then(|label| p.get(*label)).copied().unwrap_or_default();
                loss -= of_label.max(MIN_PROBABILITY).ln();
            }
            LabelKind::Any => {
                for (label, p) in p.iter().enumerate() {
                    let has = labels.contains(&label);
                    add(*p, has);
                    (hits, decisions) = (hits + usize::from(has == (*p >= 0.5)), decisions + 1);
                    let of_truth = if has { *p } else { 1.0 - p };
                    loss -= of_truth.max(MIN_PROBABILITY).ln();
                }
            }
        }
    }
    let all = decisions.max(1) as f64;
    let error = |(n, confidence, right): &(usize, f64, usize)| {
        if *n == 0 { 0.0 } else { (confidence - *right as f64).abs() }
    };
    let ece = bins.iter().map(error).sum::<f64>() / all;
    (hits as f64 / all, ece, loss / f64::from(count.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_without_accuracy_is_an_error() {
        // Logits of probabilities 0.9 and 0.1; half of the rows are right.
        let logits = [0.9_f32.ln(), 0.1_f32.ln()];
        let rows: Vec<(&[f32], [usize; 1])> = (0..10).map(|i| (&logits[..], [i % 2])).collect();
        let found = quality(rows.iter().map(|(z, y)| (*z, &y[..])), 1e6, LabelKind::One);
        assert!((found.accuracy - 0.5).abs() < 1e-9 && (found.ece.0 - 0.4).abs() < 1e-6, "{found:?}");
        assert!(found.ece.1 < 1e-5 && (found.nll.1 - 2_f64.ln()).abs() < 1e-5, "{found:?}");
        let found = quality(rows.iter().map(|(z, y)| (*z, &y[..])), 1.0, LabelKind::Any);
        assert!(found.accuracy > 0.0 && found.nll.0 > 0.0);
    }
}
