//! [`PruneInputs`]: what is known of the inputs of matrices.

use super::gram::Gram;
use super::matrix::Inputs;
use crate::error::Error;
use leyden_kernels::Cpu;
use std::collections::HashMap;

/// Sums over the inputs of some matrices, by the matrices' names. Matrices with a common input share its sums.
#[derive(Debug, Default)]
pub struct PruneInputs {
    all: Vec<Inputs>,
    by_name: HashMap<String, usize>,
    /// Indices of the inputs whose factors are kept, the one used last at the end.
    factored: Vec<usize>,
}

/// Number of factors that are kept, since matrices that share an input need not be neighbours in a file.
const FACTORS: usize = 2;

impl PruneInputs {
    /// Returns empty sums.
    #[must_use]
    pub fn new() -> PruneInputs {
        PruneInputs::default()
    }

    /// Adds rows of the common input `[n, columns]` of these matrices.
    ///
    /// # Errors
    /// Memory is short, a value is not a number, or the matrices had another number of inputs before.
    pub fn add(&mut self, cpu: &Cpu, names: &[String], columns: usize, values: &[f32]) -> Result<(), Error> {
        let Some(first) = names.first() else { return Ok(()) };
        if !values.iter().all(|value| value.is_finite()) {
            return Err(Error::Calibration(format!("{first}: activations that are not numbers")));
        }
        let index = *self.by_name.get(first).unwrap_or(&self.all.len());
        if index == self.all.len() {
            self.all.push(Inputs { gram: Gram::new(columns), upper: None });
        }
        for name in names {
            self.by_name.insert(name.clone(), index);
        }
        let gram = &mut self.all[index].gram;
        if gram.k() != columns {
            return Err(Error::Calibration(format!("{first}: {columns} inputs, and {} before", gram.k())));
        }
        gram.add(cpu, values)
    }

    /// Ends the sums: inputs must not be added afterwards.
    pub fn finish(&mut self) {
        self.all.iter_mut().for_each(|inputs| inputs.gram.finish());
    }

    /// Returns true if the inputs of this matrix are known.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the inputs of a matrix. Factors of other inputs are given up, except the last ones.
    pub(super) fn of(&mut self, name: &str) -> Option<&mut Inputs> {
        let index = *self.by_name.get(name)?;
        self.factored.retain(|other| *other != index);
        self.factored.push(index);
        if self.factored.len() > FACTORS {
            let oldest = self.factored.remove(0);
            self.all[oldest].upper = None;
        }
        self.all.get_mut(index)
    }
}
