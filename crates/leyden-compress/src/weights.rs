//! How much the error of each value counts.

/// Values of a row whose mean square is one figure: a super-block, or a row's end.
const RUN: usize = 256;

/// Runs that are summed beside each other: each sum has its order, and a processor waits for one at a time.
const AT_ONCE: usize = 4;

/// The mean squares of the next runs.
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

/// Importances of columns as errors count them: means of a sample, of which the extremes are partly chance, are drawn
/// together a little, to the power of 15/16. Square roots alone, which every processor rounds alike.
pub(crate) fn soften(means: &[f32]) -> Vec<f32> {
    let soft = |mean: &f32| if *mean > 0.0 { mean / mean.sqrt().sqrt().sqrt().sqrt() } else { 0.0 };
    means.iter().map(soft).collect()
}

/// Writes what the errors of a row count. With importances of its columns a value counts as its column does, and a
/// little more the larger it is. Without, the columns are taken to be alike, and large values count a little more: they are
/// more often where activations are large too.
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
