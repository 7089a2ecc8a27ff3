//! Temperature scaling (Guo et al., 2017): one divisor of all logits, by maximum likelihood.

use leyden_tasks::calibration::{LabelKind, TEMPERATURES, probabilities};

/// Iterations after which the search ends; about ten are needed.
const MAX_ITERATIONS: usize = 100;

/// Returns the temperature with the largest likelihood of the rows' labels; `None` if there is no such inside the range
/// of temperatures, as where every row is right.
pub(super) fn temperature<'d>(
    rows: &(impl Iterator<Item = (&'d [f32], &'d [usize])> + Clone),
    kind: LabelKind,
) -> Option<f64> {
    // The log likelihood is concave in the inverse temperature.
    let (mut low, mut high) = (1.0 / TEMPERATURES.1, 1.0 / TEMPERATURES.0);
    let at = |inverse: f64| slope(rows.clone(), inverse, kind);
    if at(low).0 >= 0.0 || at(high).0 <= 0.0 {
        return None;
    }
    let mut inverse = 1.0;
    for _ in 0..MAX_ITERATIONS {
        let (slope, curvature) = at(inverse);
        if slope > 0.0 {
            high = inverse
        } else {
            low = inverse
        }
        let newton = inverse - slope / curvature;
        let next = if newton > low && newton < high { newton } else { (low * high).sqrt() };
        if (next - inverse).abs() < 1e-10 * inverse {
            break;
        }
        inverse = next;
    }
    Some((1.0 / inverse).clamp(TEMPERATURES.0, TEMPERATURES.1))
}

/// Returns the first and the second derivative of the negative log likelihood by the inverse temperature.
fn slope<'d>(
    rows: impl Iterator<Item = (&'d [f32], &'d [usize])>,
    inverse: f64,
    kind: LabelKind,
) -> (f64, f64) {
    let (mut first, mut second) = (0.0, 0.0);
    for (logits, labels) in rows {
        let p = probabilities(logits, 1.0 / inverse, kind);
        let z = || logits.iter().map(|z| f64::from(*z));
        let right: f64 = labels.iter().filter_map(|label| logits.get(*label)).map(|z| f64::from(*z)).sum();
        let mean: f64 = p.iter().zip(z()).map(|(p, z)| p * z).sum();
        first += mean - right;
        second += match kind {
            LabelKind::One => p.iter().zip(z()).map(|(p, z)| p * (z - mean) * (z - mean)).sum::<f64>(),
            LabelKind::Any => p.iter().zip(z()).map(|(p, z)| p * (1.0 - p) * z * z).sum::<f64>(),
        };
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;

    /// Labels drawn from known probabilities have their temperature back.
    #[test]
    fn a_known_temperature_is_found() {
        let mut random = Random::new(3);
        let mut unit = || (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
        for kind in [LabelKind::One, LabelKind::Any] {
            for wanted in [0.5, 1.0, 2.5] {
                let rows: Vec<(Vec<f32>, Vec<usize>)> = (0..6000)
                    .map(|_| {
                        let logits: Vec<f32> = (0..4).map(|_| (8.0 * unit() - 4.0) as f32).collect();
                        let p = probabilities(&logits, wanted, kind);
                        let labels = match kind {
                            LabelKind::Any => (0..4).filter(|i| unit() < p[*i]).collect(),
                            LabelKind::One => {
                                let (mut left, mut label) = (unit(), 0);
                                while label < 3 && left > p[label] {
                                    left -= p[label];
                                    label += 1;
                                }
                                vec![label]
                            }
                        };
                        (logits, labels)
                    })
                    .collect();
                let found = temperature(&rows.iter().map(|(z, y)| (&z[..], &y[..])), kind).unwrap();
                assert!((found / wanted - 1.0).abs() < 0.08, "{kind:?} {wanted}: {found}");
            }
        }
    }

    #[test]
    fn rows_without_an_optimum_have_no_temperature() {
        let logits = [3.0, 0.0, -1.0];
        for label in [0, 2] {
            let rows = [(&logits[..], [label])];
            let rows = rows.iter().map(|(z, y)| (*z, &y[..]));
            assert_eq!(temperature(&rows, LabelKind::One), None, "{label}");
        }
        assert_eq!(temperature(&std::iter::empty(), LabelKind::One), None);
    }
}
