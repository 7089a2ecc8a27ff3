//! [`HfQuantised`]: converts the matrices of folders that `quantization_config` says are quantised, by GPTQ, AWQ,
//! compressed-tensors or FP8, to tensors of GGUF's block formats.
//!
//! A matrix of integers with one scale per group of inputs becomes Q4_0, Q5_0 or Q8_0: the smallest that holds its
//! integers minus their zero points. Group sizes are multiples of 32, so every block has one scale, which is rounded
//! to half precision. Other matrices become floats ([`matrix::Matrix`]). The tensors in the files tell which matrices
//! are quantised; the configuration's lists of excluded modules are not needed. Sparse matrices are decoded to dense
//! ones (`sparse`).

mod config;
mod keys;
mod matrix;
mod parts;
mod sparse;

use crate::error::{Error, ErrorKind};
use crate::file::{Json, Safetensors, TensorInfo, WeightSource};
use crate::run::Run;
use crate::view::OwnedTensor;
use config::Method;
use matrix::Target;
use std::sync::Arc;

/// The quantisation of a folder's matrices, from `config.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HfQuantised(Method);

impl HfQuantised {
    /// Reads `quantization_config`; `None` if there is none, or it names another method.
    ///
    /// # Errors
    /// The method is supported but its variant is not; the error names the key.
    pub fn of(config: &Json) -> Result<Option<HfQuantised>, Error> {
        Ok(config::method(config)?.map(HfQuantised))
    }

    /// Names of the methods.
    pub const METHODS: [&'static str; 5] = ["gptq", "awq", "compressed-tensors", "fp8", "leyden-sparse"];

    /// Returns true if `name`, which ends in `.weight`, is a matrix that is stored quantised.
    pub fn holds(&self, weights: &Safetensors, name: &str) -> bool {
        let Some(stem) = name.strip_suffix(".weight") else { return false };
        let has = |part: &str| weights.raw(&format!("{stem}.{part}"));
        let is = |part, types: &[&str]| has(part).is_some_and(|(info, _)| types.contains(&info.type_name));
        match self.0 {
            Method::Gptq { .. } | Method::Awq => has("qweight").is_some(),
            Method::CompressedTensors { bitmask, .. } => {
                has("weight_packed").is_some()
                    || is("weight", &["I8", "F8_E4M3"])
                    || bitmask && has("bitmask").is_some()
            }
            Method::Sparse => has("sparse_positions").is_some(),
            Method::Fp8 { .. } => is("weight", &["F8_E4M3"]),
        }
    }

    /// Returns true if a tensor has no influence on weights: scales of activations and of caches, and the all-zero
    /// biases that some programs add to every quantised matrix.
    pub fn is_needless(&self, weights: &Safetensors, name: &str) -> bool {
        const SCALES: [&str; 6] =
            ["input_scale", "input_zero_point", "output_scale", "k_scale", "v_scale", "weight_shape"];
        let Some((stem, part)) = name.rsplit_once('.') else { return false };
        SCALES.contains(&part)
            || part == "bias"
                && self.holds(weights, &format!("{stem}.weight"))
                && weights.raw(name).is_some_and(|(_, bytes)| bytes.iter().all(|b| *b == 0))
    }

    /// Returns an upper bound of the bytes in memory of the matrix whose codes are the tensor `name`; `None` if it
    /// cannot be read. Does not check whether values need more than 16 bits.
    pub fn memory_bytes(&self, weights: &Safetensors, name: &str) -> Option<usize> {
        const CODES: [&str; 5] = [".qweight", ".weight_packed", ".weight", ".sparse_values", ".compressed"];
        let stem = CODES.iter().find_map(|end| name.strip_suffix(end))?;
        let matrix = format!("{stem}.weight");
        if !self.holds(weights, &matrix) {
            return None;
        }
        let parts = Parts { weights, method: self.0 };
        if parts.is_sparse(&matrix) {
            return parts.sparse_bytes(&matrix);
        }
        let matrix = Parts { weights, method: self.0 }.matrix(&matrix).ok()?;
        let dtype = matrix.integers().unwrap_or(Target::F16).dtype();
        dtype.row_bytes(matrix.k)?.checked_mul(matrix.rows)
    }

    /// Converts the matrix `names[0]`, or a stack of all named matrices, to one tensor of this shape, called
    /// `name` in messages. `run` executes the tasks of the conversion.
    ///
    /// # Errors
    /// A part is missing or does not fit the others, the shape differs, or a value is NaN. The error names the
    /// tensor.
    pub fn compose(
        &self,
        weights: &Safetensors,
        name: &str,
        names: &[String],
        shape: &[usize],
        run: &Run<'_>,
    ) -> Result<OwnedTensor, Error> {
        let parts = Parts { weights, method: self.0 };
        if names.first().is_some_and(|name| parts.is_sparse(name)) {
            return parts.compose_sparse(name, names, shape);
        }
        let all = names.iter().map(|name| parts.matrix(name)).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = all.first() else { return Err(parts.unfit(name, "at least one matrix")) };
        let (rows, k) = (first.rows, first.k);
        let found = if names.len() == 1 { vec![rows, k] } else { vec![all.len(), rows, k] };
        if found != shape {
            return Err(parts.unlike(&names[0], &found, shape));
        }
        if let Some((_, name)) = all.iter().zip(names).find(|(m, _)| (m.rows, m.k) != (rows, k)) {
            return Err(parts.unfit(name, "the shape of the stack's first matrix"));
        }
        if let Some((_, name)) = all.iter().zip(names).find(|(m, _)| m.has_nan()) {
            return Err(parts.unfit(name, "numbers, not NaN"));
        }
        let target = all.iter().map(|m| m.target(run)).max().unwrap_or(Target::F32);
        let dtype = target.dtype();
        let too_large = || parts.unfit(name, "a size that fits memory");
        let row_bytes = dtype.row_bytes(k).ok_or_else(too_large)?;
        let bytes =
            row_bytes.checked_mul(rows).and_then(|n| n.checked_mul(all.len())).ok_or_else(too_large)?;
        // At most eight times the size of the file: 4-bit codes as F32.
        let mut out = vec![0; bytes];
        let mut loss = 0.0_f32;
        let mut used = Vec::new();
        for (i, (matrix, name)) in all.iter().zip(names).enumerate() {
            let out = &mut out[i * rows * row_bytes..][..rows * row_bytes];
            loss = loss.max(matrix.write(target, out, run));
            used.extend(parts.used(name));
        }
        Ok(OwnedTensor { name: name.to_owned(), dtype, shape: found, bytes: out, parts: used, loss })
    }
}

/// The tensors of a folder, and the layout of its quantised matrices.
struct Parts<'a> {
    weights: &'a Safetensors,
    method: Method,
}

impl<'a> Parts<'a> {
    fn raw(&self, part: &str) -> Result<(&'a TensorInfo, &'a [u8]), Error> {
        let missing = || Error::new(ErrorKind::MissingTensor).item(part).file(&self.label());
        self.weights.raw(part).ok_or_else(missing)
    }

    fn unfit(&self, part: &str, wanted: &'static str) -> Error {
        Error::new(ErrorKind::Unfit { wanted }).item(part).file(&self.label())
    }

    fn unlike(&self, part: &str, found: &[usize], wanted: &[usize]) -> Error {
        let kind = ErrorKind::Unlike { found: found.into(), wanted: wanted.into() };
        Error::new(kind).item(part).file(&self.label())
    }

    fn label(&self) -> Arc<str> {
        self.weights.path().display().to_string().into()
    }
}

#[cfg(test)]
mod tests;
