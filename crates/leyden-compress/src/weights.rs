//! Weights of the errors of values.

/// Number of values that share one mean square: a super-block, or the end of a row.
const RUN: usize = 256;

/// Number of runs that are summed at once: each sum is sequential, so several of them hide the latency.
const AT_ONCE: usize = 4;

/// Computes the mean squares of the next runs.
fn means_of(x: &[f32]) -> [f32; AT_ONCE] {
    let mut sums = [0.0_f32; AT_ONCE];
    match x.get(..AT_ONCE * RUN) {
        Some(x) => {
            let (a, rest) = x.split_at(RUN);
            let (b, rest) = rest.split_at(RUN);
            let (c, d) = rest.split_at(RUN);
            for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                sums[0] += a * a;
                sums[1] += b * b;
                sums[2] += c * c;
                sums[3] += d * d;
            }
            sums.map(|sum| sum / RUN as f32)
        }
        None => {
            for (sum, x) in sums.iter_mut().zip(x.chunks(RUN)) {
                *sum = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
            }
            sums
        }
    }
}

/// Softens the importances of columns: they are means of a sample, whose extremes are partly chance, so they are
/// raised to the power of 15/16. Computed with square roots alone, which every processor rounds alike.
pub(crate) fn soften(means: &[f32]) -> Vec<f32> {
    let soft = |mean: &f32| if *mean > 0.0 { mean / mean.sqrt().sqrt().sqrt().sqrt() } else { 0.0 };
    means.iter().map(soft).collect()
}

/// Writes the weights of a row's errors. With importances, the weight of a value is that of its column, and a
/// little more the larger the value is. Without, all columns count alike, and large values a little more, because
/// activations are more often large where weights are.
pub(crate) fn fill(x: &[f32], importance: Option<&[f32]>, out: &mut [f32]) {
    let mut means = [0.0; AT_ONCE];
    for (run, (now, out)) in x.chunks(RUN).zip(out.chunks_mut(RUN)).enumerate() {
        if run % AT_ONCE == 0 {
            means = means_of(&x[run * RUN..]);
        }
        let (x, mean) = (now, means[run % AT_ONCE]);
        if let Some(importance) = importance {
            for ((w, x), column) in out.iter_mut().zip(x).zip(&importance[run * RUN..]) {
                *w = column * (6.0 * mean + x * x).sqrt();
            }
        } else {
            let root = mean.sqrt();
            for (w, x) in out.iter_mut().zip(x) {
                *w = root + 0.5 * x.abs();
            }
        }
    }
}
