//! Order of scores: of the labels of a text, or of documents.

/// Returns scores with their indices, the best first; equal ones keep their order.
///
/// ```
/// assert_eq!(leyden_tasks::ranked([0.25, 0.5, 0.25]), [(1, 0.5), (0, 0.25), (2, 0.25)]);
/// ```
pub fn ranked(scores: impl IntoIterator<Item = f32>) -> Vec<(usize, f32)> {
    let mut all: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Returns the index of the best score, the first of equal ones; `None` without scores.
///
/// ```
/// assert_eq!(leyden_tasks::best(&[0.25, 0.5, 0.5]), Some(1));
/// ```
#[must_use]
pub fn best(scores: &[f32]) -> Option<usize> {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)))
}
