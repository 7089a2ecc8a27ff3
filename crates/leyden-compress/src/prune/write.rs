//! Writes a model with pruned matrices.

use super::inputs::PruneInputs;
use super::matrix::prune as prune_matrix;
use super::plan::{Prunable, PruneOptions};
use crate::error::Error;
use crate::quantize::Progress;
use leyden_kernels::{Cpu, decode_row};
use leyden_tensor::{GgufWriter, WeightSource, quant};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// Number of bytes that are copied at a time.
const COPY: usize = 16 << 20;

/// Result for one matrix.
#[derive(Clone, Debug)]
pub struct PrunedMatrix {
    /// Name of the tensor.
    pub name: String,
    /// Number of weights.
    pub weights: usize,
    /// Number of weights that are zero.
    pub zeros: usize,
    /// Root mean square error of the outputs on the calibration text, relative to the outputs. None without inputs.
    pub output_error: Option<f64>,
    /// Root mean square error of the weights, relative to the weights.
    pub weight_error: f64,
    /// Reason why it was not pruned, if it was not.
    pub kept: Option<String>,
}

/// Writes `source` to `path` with these matrices pruned. The other tensors keep their bytes. `path` is the complete new
/// file or the file that was there before.
///
/// # Errors
/// A file cannot be read or written, a weight is NaN or infinite, the inputs do not suffice, or `progress` asked to stop.
pub fn prune(
    cpu: &Cpu,
    source: &dyn WeightSource,
    (matrices, options): (&[&Prunable], &PruneOptions),
    inputs: &mut PruneInputs,
    path: &Path,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Vec<PrunedMatrix>, Error> {
    let mut writer = GgufWriter::new();
    for (key, value) in source.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
        writer.set(key, value.clone());
    }
    for info in source.tensor_info() {
        let view = source.require(&info.name)?;
        writer.announce_tensor(&info.name, view.dtype(), &info.shape)?;
    }
    let all = matrices.iter().map(|matrix| matrix.rows * matrix.k).sum();
    let (mut done, mut pruned) = (0, Vec::new());
    writer.write_made_to(path, &mut |name, out: &mut dyn Write| -> Result<(), Error> {
        let write = |out: &mut dyn Write, bytes: &[u8]| {
            let failed = |source| Error::Write { file: path.display().to_string(), source };
            out.write_all(bytes).map_err(failed)
        };
        let mut advance = |done: usize| match progress(Progress { tensor: name, done, all }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        };
        advance(done)?;
        let view = source.require(name)?;
        match matrices.iter().find(|matrix| matrix.name == name) {
            Some(matrix) => {
                let (bytes, result) = one(cpu, source, matrix, options, inputs)?;
                write(out, &bytes)?;
                source.advise_dontneed(name, 0..view.bytes().len());
                pruned.push(result);
                done += matrix.rows * matrix.k;
            }
            None => {
                for (i, piece) in view.bytes().chunks(COPY).enumerate() {
                    write(out, piece)?;
                    source.advise_dontneed(name, i * COPY..i * COPY + piece.len());
                    advance(done)?;
                }
            }
        }
        source.check_intact()?;
        advance(done)
    })?;
    Ok(pruned)
}

/// Prunes a matrix, and returns its bytes in the type that it has.
fn one(
    cpu: &Cpu,
    source: &dyn WeightSource,
    matrix: &Prunable,
    options: &PruneOptions,
    inputs: &mut PruneInputs,
) -> Result<(Vec<u8>, PrunedMatrix), Error> {
    let view = source.require(&matrix.name)?;
    let mut weights = vec![0.0_f32; matrix.rows * matrix.k];
    let finite = |weights: &[f32]| {
        let found = weights.iter().enumerate().find(|(_, value)| !value.is_finite());
        found.map_or(Ok(()), |(i, value)| {
            Err(Error::NotFinite {
                file: source.path().display().to_string(),
                tensor: matrix.name.clone(),
                row: i / matrix.k,
                value: *value,
            })
        })
    };
    for (i, row) in weights.chunks_exact_mut(matrix.k.max(1)).enumerate() {
        decode_row(cpu.tier(), view.dtype(), view.row(i), row);
    }
    finite(&weights)?;
    let mut result = PrunedMatrix {
        name: matrix.name.clone(),
        weights: weights.len(),
        zeros: weights.iter().filter(|w| **w == 0.0).count(),
        output_error: None,
        weight_error: 0.0,
        kept: matrix.kept.clone(),
    };
    let of = inputs.of(&matrix.name).filter(|inputs| inputs.gram.k() == matrix.k);
    if result.kept.is_none() && of.is_none() && options.method.needs_inputs() {
        result.kept = Some("the calibration text gave it no inputs".to_owned());
    }
    if result.kept.is_some() {
        return Ok((view.bytes().to_vec(), result));
    }
    let task = (options.method, options.structure, matrix.sparsity);
    let outcome = prune_matrix(cpu, &mut weights, matrix.k, task, of).map_err(|error| match error {
        Error::Calibration(what) => Error::Calibration(format!("{}: {what}", matrix.name)),
        error => error,
    })?;
    let mut bytes = vec![0; view.bytes().len()];
    let rows = bytes.chunks_exact_mut(view.row_bytes().max(1)).zip(weights.chunks_exact_mut(matrix.k.max(1)));
    for (out, row) in rows {
        quant::encode_row(view.dtype(), row, out);
        // Rounded: compensated weights may leave the range of half precision.
        decode_row(cpu.tier(), view.dtype(), out, row);
    }
    finite(&weights)?;
    result.zeros = weights.iter().filter(|w| **w == 0.0).count();
    result.output_error = outcome.output_error;
    result.weight_error = outcome.weight_error;
    Ok((bytes, result))
}
