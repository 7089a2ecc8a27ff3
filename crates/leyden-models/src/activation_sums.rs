//! [`ActivationSums`]: sums of squares of matrices' inputs by column, from which importance matrices are computed, and
//! the inputs themselves of chosen matrices.

use std::collections::{BTreeMap, BTreeSet};

/// Sums of squares of the inputs of each matrix, by its name in GGUF.
#[derive(Clone, Debug, Default)]
pub struct ActivationSums {
    matrices: BTreeMap<String, MatrixSums>,
    /// Names of the matrices whose inputs are kept.
    kept: BTreeSet<String>,
    inputs: Vec<MatrixInput>,
}

/// Common input of some matrices.
#[derive(Clone, Debug)]
pub struct MatrixInput {
    /// Names of the matrices in GGUF.
    pub names: Vec<String>,
    /// Number of values in a row.
    pub columns: usize,
    /// Rows of activations `[n, columns]`, one per token.
    pub values: Vec<f32>,
}

/// Sums of one matrix, or of a stack of them.
#[derive(Clone, Debug)]
pub struct MatrixSums {
    /// Number of columns of a matrix.
    pub columns: usize,
    /// Sums of squares `[experts, columns]`; a matrix that is no stack has one expert.
    pub squares: Vec<f64>,
    /// Number of rows of activations in the sums `[experts]`.
    pub rows: Vec<u64>,
}

impl ActivationSums {
    /// Returns empty sums that also keep the inputs of the matrices with these names. Memory grows by four bytes for
    /// each value of an input. Inputs of the experts of a mixture are not kept.
    pub fn keeping(names: impl IntoIterator<Item = String>) -> ActivationSums {
        ActivationSums { kept: names.into_iter().collect(), ..ActivationSums::default() }
    }

    /// Returns the inputs that were kept, in the order of the computation.
    pub fn into_inputs(self) -> Vec<MatrixInput> {
        self.inputs
    }

    /// Iterates over the matrices that were used, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &MatrixSums)> {
        self.matrices.iter().map(|(name, sums)| (&name[..], sums))
    }

    /// Adds the sums of other texts.
    pub fn merge(&mut self, other: &ActivationSums) {
        for (name, more) in other.iter() {
            let sums = self.matrix(name, more.columns, more.rows.len());
            sums.squares.iter_mut().zip(&more.squares).for_each(|(sum, more)| *sum += more);
            sums.rows.iter_mut().zip(&more.rows).for_each(|(sum, more)| *sum += more);
        }
    }

    /// Adds the common input `[n, columns]` of some matrices. A repeated name stands for another part of the same
    /// stored matrix, and counts once.
    pub(crate) fn add<const N: usize>(&mut self, names: [&str; N], activations: &[f32], columns: usize) {
        self.add_all(&names, activations, columns);
    }

    /// Adds the common input of any number of matrices, like [`add`](Self::add).
    pub(crate) fn add_all(&mut self, names: &[&str], activations: &[f32], columns: usize) {
        self.keep(names, activations, columns);
        let mut squares = vec![0.0_f64; columns];
        let mut rows = 0;
        for row in activations.chunks_exact(columns) {
            squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            rows += 1;
        }
        for (_, name) in names.iter().enumerate().filter(|(i, name)| !names[..*i].contains(name)) {
            let matrix = self.matrix(name, columns, 1);
            matrix.squares.iter_mut().zip(&squares).for_each(|(sum, more)| *sum += more);
            matrix.rows[0] += rows;
        }
    }

    /// Adds one row of the common input of matrices of one expert among `experts`.
    pub(crate) fn add_to_expert<const N: usize>(
        &mut self,
        names: [&str; N],
        expert: usize,
        experts: usize,
        row: &[f32],
    ) {
        for name in names {
            let matrix = self.matrix(name, row.len(), experts);
            let sums = &mut matrix.squares[expert * row.len()..][..row.len()];
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            matrix.rows[expert] += 1;
        }
    }

    /// Keeps the common input of those matrices whose inputs are wanted.
    fn keep(&mut self, names: &[&str], activations: &[f32], columns: usize) {
        let mut wanted: Vec<&str> = names.iter().copied().filter(|name| self.kept.contains(*name)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return;
        }
        match self.inputs.iter_mut().find(|input| input.names == wanted) {
            Some(input) => input.values.extend_from_slice(activations),
            None => self.inputs.push(MatrixInput {
                names: wanted.into_iter().map(str::to_owned).collect(),
                columns,
                values: activations.to_vec(),
            }),
        }
    }

    fn matrix(&mut self, name: &str, columns: usize, experts: usize) -> &mut MatrixSums {
        let none = || MatrixSums { columns, squares: vec![0.0; columns * experts], rows: vec![0; experts] };
        self.matrices.entry(name.to_owned()).or_insert_with(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_by_column_and_expert() {
        let mut sums = ActivationSums::default();
        sums.add(["q", "k", "q"], &[1.0, 2.0, 3.0, 4.0], 2);
        sums.add_to_expert(["up"], 1, 3, &[2.0, 0.5]);
        sums.add_to_expert(["up"], 1, 3, &[1.0, 0.0]);
        let mut twice = sums.clone();
        twice.merge(&sums);
        let told: Vec<_> = twice.iter().map(|(n, s)| (n, s.squares.clone(), s.rows.clone())).collect();
        let up = (vec![0.0, 0.0, 10.0, 0.5, 0.0, 0.0], vec![0, 4, 0]);
        assert_eq!(
            told,
            [("k", vec![20.0, 40.0], vec![4]), ("q", vec![20.0, 40.0], vec![4]), ("up", up.0, up.1)]
        );
    }

    #[test]
    fn inputs_are_kept_once_for_all_matrices_that_share_them() {
        let mut sums = ActivationSums::keeping(["q", "v", "down"].map(str::to_owned));
        sums.add_all(&["q", "k", "v"], &[1.0, 2.0], 2);
        sums.add(["down"], &[5.0], 1);
        sums.add(["up"], &[7.0], 1);
        sums.add_all(&["q", "k", "v"], &[3.0, 4.0], 2);
        let kept = sums.into_inputs();
        let all: Vec<_> = kept.iter().map(|i| (&i.names[..], i.columns, &i.values[..])).collect();
        let (shared, own) = (["q", "v"].map(str::to_owned), ["down"].map(str::to_owned));
        assert_eq!(all, [(&shared[..], 2, &[1.0, 2.0, 3.0, 4.0][..]), (&own[..], 1, &[5.0][..])]);
    }
}
