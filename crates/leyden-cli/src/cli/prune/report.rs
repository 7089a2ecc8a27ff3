//! [`Report`]: what `leyden prune` tells of its output.

use std::io::Write;
use std::time::Duration;

use leyden_compress::{PrunePlan, PrunedMatrix};
use serde_json::json;

use super::Args;
use crate::cli::failure::Failure;
use crate::cli::text::plural;

/// Results of a run.
pub(super) struct Report<'a> {
    pub(super) args: &'a Args,
    pub(super) sparsity: f64,
    pub(super) plan: &'a PrunePlan,
    pub(super) matrices: &'a [PrunedMatrix],
    /// Tokens of the calibration text.
    pub(super) tokens: usize,
    pub(super) seconds: Duration,
}

impl Report<'_> {
    /// Returns the share of zeros in the matrices of all layers.
    fn reached(&self) -> f64 {
        let sum = |of: fn(&PrunedMatrix) -> usize| self.matrices.iter().map(of).sum::<usize>();
        sum(|m| m.zeros) as f64 / sum(|m| m.weights).max(1) as f64
    }

    /// Prints sentences, or one JSON object.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.args.json {
            serde_json::to_writer(&mut *out, &self.document())?;
            writeln!(out)?;
            return Ok(());
        }
        writeln!(
            out,
            "{}: {:.2} % of the weights of {} are zero, by {}, {:.1} s",
            self.args.out.display(),
            100.0 * self.reached(),
            plural(self.plan.layers(), "layer"),
            self.args.method.name(),
            self.seconds.as_secs_f64()
        )?;
        let mut errors: Vec<(f64, &str)> =
            self.matrices.iter().filter_map(|m| Some((m.output_error?, &m.name[..]))).collect();
        errors.sort_by(|a, b| b.0.total_cmp(&a.0));
        if let Some((most, name)) = errors.first() {
            let mean = errors.iter().map(|error| error.0).sum::<f64>() / errors.len() as f64;
            writeln!(
                out,
                "error of outputs on {} tokens: {:.1} % on average, {:.1} % at most ({name})",
                self.tokens,
                100.0 * mean,
                100.0 * most
            )?;
        }
        for matrix in self.matrices {
            if let Some(reason) = &matrix.kept {
                writeln!(out, "{} stays dense: {reason}", matrix.name)?;
            }
        }
        Ok(())
    }

    fn document(&self) -> serde_json::Value {
        let matrices: Vec<_> = self
            .matrices
            .iter()
            .map(|m| {
                json!({
                    "name": m.name,
                    "weights": m.weights,
                    "sparsity": m.zeros as f64 / m.weights.max(1) as f64,
                    "relative_output_error": m.output_error,
                    "relative_weight_error": m.weight_error,
                    "kept_dense": m.kept,
                })
            })
            .collect();
        json!({
            "path": self.args.out.display().to_string(),
            "method": self.args.method.name(),
            "pattern": self.args.pattern.to_string(),
            "allocation": self.args.allocation,
            "sparsity_wanted": self.sparsity,
            "sparsity": self.reached(),
            "calibration_tokens": self.tokens,
            "int8": self.args.int8,
            "seconds": self.seconds.as_secs_f64(),
            "matrices": matrices,
        })
    }
}
