//! Choice of the weights that become zero, by scores: those with the lowest go, of equal ones the first.

use super::structure::Structure;

/// Returns the number of zeros among `n` weights or blocks.
pub(crate) fn count(sparsity: f64, n: usize) -> usize {
    ((sparsity * n as f64).round() as usize).min(n)
}

/// Sets `out[i]` for the `count` lowest scores. NaN counts as the highest.
pub(crate) fn lowest(scores: &[f32], count: usize, out: &mut [bool]) {
    out.fill(false);
    let count = count.min(scores.len());
    if count == 0 {
        return;
    }
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    let key = |i: &u32| scores[*i as usize];
    if count < scores.len() {
        order.select_nth_unstable_by(count - 1, |a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
    }
    order[..count].iter().for_each(|i| out[*i as usize] = true);
}

/// Chooses the weights of rows `[n, k]` that become zero, separately in each row, or in each group of rows that share
/// blocks. Scores of a block add up.
pub(crate) fn by_rows(scores: &[f32], k: usize, structure: Structure, sparsity: f64, out: &mut [bool]) {
    let [high, wide] = structure.block();
    if let Structure::Groups { keep, group } = structure {
        for (scores, out) in scores.chunks_exact(group).zip(out.chunks_exact_mut(group)) {
            lowest(scores, group - keep, out);
        }
        return;
    }
    for (scores, out) in scores.chunks_exact(high * k).zip(out.chunks_exact_mut(high * k)) {
        blocks(scores, k, [high, wide], |n| count(sparsity, n), out);
    }
}

/// Chooses the weights of a matrix `[rows, k]` that become zero among all of it.
pub(crate) fn by_matrix(scores: &[f32], k: usize, structure: Structure, sparsity: f64, out: &mut [bool]) {
    match structure {
        Structure::Groups { .. } => by_rows(scores, k, structure, sparsity, out),
        _ => blocks(scores, k, structure.block(), |n| count(sparsity, n), out),
    }
}

/// Chooses `count(n)` of the `n` blocks of `high` rows and `wide` columns.
pub(crate) fn blocks(
    scores: &[f32],
    k: usize,
    [high, wide]: [usize; 2],
    count: impl Fn(usize) -> usize,
    out: &mut [bool],
) {
    if high * wide == 1 {
        return lowest(scores, count(scores.len()), out);
    }
    let across = k / wide;
    let mut sums = vec![0.0_f32; scores.len() / (high * wide)];
    for (i, row) in scores.chunks_exact(k).enumerate() {
        let sums = &mut sums[i / high * across..][..across];
        for (sum, scores) in sums.iter_mut().zip(row.chunks_exact(wide)) {
            *sum += scores.iter().sum::<f32>();
        }
    }
    let mut chosen = vec![false; sums.len()];
    lowest(&sums, count(sums.len()), &mut chosen);
    for (i, row) in out.chunks_exact_mut(k).enumerate() {
        let chosen = &chosen[i / high * across..][..across];
        row.chunks_exact_mut(wide).zip(chosen).for_each(|(out, chosen)| out.fill(*chosen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_scores_go_first_of_equal_ones_the_first() {
        let mut out = [false; 5];
        lowest(&[3.0, 1.0, 1.0, f32::NAN, 1.0], 2, &mut out);
        assert_eq!(out, [false, true, true, false, false]);
        lowest(&[3.0, 1.0, 1.0, f32::NAN, 1.0], 9, &mut out);
        assert_eq!(out, [true; 5]);
        lowest(&[], 1, &mut []);
    }

    #[test]
    fn blocks_go_together() {
        let scores = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 9.0];
        let mut out = [false; 8];
        by_rows(&scores, 8, Structure::Inputs, 0.5, &mut out);
        assert_eq!(out, [true, true, true, true, false, false, false, false]);
        // Four rows of two inputs: columns have the sums 2 and 11.
        by_rows(&scores, 2, Structure::Outputs, 0.5, &mut out);
        assert_eq!(out, [true, false, true, false, true, false, true, false]);
        by_rows(&scores, 8, Structure::Groups { keep: 1, group: 4 }, 0.0, &mut out);
        assert_eq!(out, [true, true, true, false, true, true, true, false]);
    }
}
