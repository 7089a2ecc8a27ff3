//! [`ActivationSums`]: the squares of what matrices are multiplied with, summed up by column: what an importance matrix is
//! made of.

use std::collections::BTreeMap;

/// Sums for each matrix, by its name in GGUF.
#[derive(Clone, Debug, Default)]
pub struct ActivationSums {
    matrices: BTreeMap<String, MatrixSums>,
}

/// Sums of one matrix, or of a stack of them.
#[derive(Clone, Debug)]
pub struct MatrixSums {
    /// Columns of a matrix.
    pub columns: usize,
    /// Sums of squares, `[experts][columns]`.
    pub squares: Vec<f64>,
    /// How many rows of activations were summed up, for each expert.
    pub rows: Vec<u64>,
}

impl ActivationSums {
    /// Every matrix that was multiplied, by name.
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

    /// Adds rows of `columns` activations that these matrices are multiplied with. A name that comes again is another part of
    /// the same matrix.
    pub(crate) fn add<const N: usize>(&mut self, names: [&str; N], activations: &[f32], columns: usize) {
        let mut squares = vec![0.0_f64; columns];
        let mut rows = 0;
        for row in activations.chunks_exact(columns) {
            squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            rows += 1;
        }
        for (_, name) in names.into_iter().enumerate().filter(|(i, name)| !names[..*i].contains(name)) {
            let matrix = self.matrix(name, columns, 1);
            matrix.squares.iter_mut().zip(&squares).for_each(|(sum, more)| *sum += more);
            matrix.rows[0] += rows;
        }
    }

    /// Adds one row that matrices of one expert among `experts` are multiplied with.
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
}
