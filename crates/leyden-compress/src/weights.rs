//! How much the error of each value counts.

/// Values of a row whose mean square is one figure: a super-block, or a row's end.
const RUN: usize = 256;

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
    for (run, (x, out)) in x.chunks(RUN).zip(out.chunks_mut(RUN)).enumerate() {
        let mean = x.iter().map(|x| x * x).sum::<f32>() / x.len().max(1) as f32;
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
