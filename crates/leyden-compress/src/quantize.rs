//! Writes a model with other tensor types.

use crate::error::Error;
use crate::plan::{Choice, Options, Plan};
use crate::{rows, weights};
use leyden_kernels::{Cpu, Tier, decode_row, encode_row_weighted};
use leyden_tensor::quant::RowLosses;
use leyden_tensor::{DType, GgufWriter, TensorView, Value, WeightSource};
use std::io::Write;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::thread;

/// Number of values that a thread converts at a time.
const PIECE: usize = 1 << 16;

/// Number of partial sums, so that the loops around them are vectorised.
const LANES: usize = 8;

/// Number of bytes that are copied at a time.
const COPY: usize = 16 << 20;

/// Approximate number of values of a matrix that are sampled to estimate the error of a type.
const SAMPLE: usize = 1 << 19;

/// Number of parts in which sampled rows are summed: the same with any number of threads, so that sums are too.
const PARTS: usize = 64;

/// Maximum number of threads.
const MAX_THREADS: usize = 1024;

/// Progress of a quantisation.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the current tensor.
    pub tensor: &'a str,
    /// Number of values that are done, in all tensors.
    pub done: usize,
    /// Number of values of all tensors.
    pub all: usize,
}

/// Result for one tensor.
#[derive(Clone, Debug)]
pub struct TensorReport {
    /// The tensor and its type.
    pub choice: Choice,
    /// Root mean square error, relative to the root mean square of the values.
    pub relative_error: f64,
    /// Share of blocks whose values are unchanged: those of a checkpoint that was trained on this grid.
    pub exact: f64,
    /// True if the importance matrix has this tensor.
    pub importance: bool,
}

/// Result of a quantisation.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every tensor whose type changed.
    pub tensors: Vec<TensorReport>,
    /// Bytes of all tensors before and after.
    pub bytes: (usize, usize),
    /// Number of values of all tensors.
    pub values: usize,
}

impl Report {
    /// Returns the bits per value of all tensors together.
    #[must_use]
    pub fn bits_per_weight(&self) -> f64 {
        self.bytes.1 as f64 * 8.0 / self.values.max(1) as f64
    }
}

/// Writes `source` to `path` with the types of a plan. `path` is the complete new file or the file that was there
/// before.
///
/// # Errors
/// A file cannot be read or written; a weight is NaN or infinite; the importance matrix belongs to another model; or
/// `progress` asked to stop.
pub fn quantize(
    source: &dyn WeightSource,
    plan: &Plan,
    options: &Options<'_>,
    path: &Path,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Report, Error> {
    let mut writer = GgufWriter::new();
    for (key, value) in source.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
        writer.set(key, value.clone());
    }
    writer.set("general.file_type", Value::U32(options.target.file_type()));
    writer.set("general.quantization_version", Value::U32(2));
    if let Some(imatrix) = options.imatrix {
        writer.set("quantize.imatrix.file", Value::from(imatrix.file()));
        writer.set(
            "quantize.imatrix.entries_count",
            Value::U32(u32::try_from(imatrix.len()).unwrap_or(u32::MAX)),
        );
        if let Some(chunks) = imatrix.chunks() {
            writer.set("quantize.imatrix.chunks_count", Value::U32(chunks));
        }
        if let Some(dataset) = imatrix.dataset() {
            writer.set("quantize.imatrix.dataset", Value::from(dataset));
        }
    }
    for choice in &plan.tensors {
        writer.announce_tensor(&choice.name, choice.to, &choice.shape)?;
    }
    let all = plan.tensors.iter().map(Choice::values).sum();
    let mut report = Report { values: all, bytes: (0, plan.bytes()), ..Report::default() };
    let cpu = cpu(options.threads)?;
    let (mut done, mut choices) = (0, plan.tensors.iter());
    let written = writer.write_made_to(path, &mut |name, out| {
        let view = source.require(name)?;
        let Some(choice) = choices.next().filter(|choice| choice.name == name) else {
            let (file, what) = (source.path().display().to_string(), format!("{name}: not in the plan"));
            return Err(Error::Model { file, what });
        };
        report.bytes.0 += view.bytes().len();
        let mut advance = |values: usize| {
            done += values;
            match progress(Progress { tensor: name, done, all }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Error::Stopped),
            }
        };
        if choice.to == view.dtype() {
            // In pieces, so that a request to stop is noticed.
            for (i, piece) in view.bytes().chunks(COPY).enumerate() {
                write(out, piece)?;
                source.advise_dontneed(name, i * COPY..i * COPY + piece.len());
                advance(0)?;
            }
            advance(choice.values())?;
        } else {
            let importance = match options.imatrix {
                Some(imatrix) => imatrix.of(name, experts(&view), view.cols())?.map(weights::soften),
                None => None,
            };
            let importance = importance.as_deref();
            let mut job = Job::new(&cpu, source.path(), view, choice.to, importance);
            // Pages of a mapped file that were read would count as memory of this process until the system needs it.
            let bytes_of = |values| view.dtype().row_bytes(values).unwrap_or(0);
            if options.target.by_rows() && choice.to == DType::Q8_0 {
                let mut read = 0;
                job.by_rows = job.keeps_row_scales(&mut |values| {
                    let bytes = bytes_of(values);
                    source.advise_dontneed(name, read..read + bytes);
                    read += bytes;
                    advance(0)
                })?;
            }
            let mut read = 0;
            let sums = job.run(out, &mut |values| {
                let bytes = bytes_of(values);
                source.advise_dontneed(name, read..read + bytes);
                read += bytes;
                advance(values)
            })?;
            let blocks = choice.values() / choice.to.block_len().max(1);
            report.tensors.push(TensorReport {
                choice: choice.clone(),
                relative_error: if sums.squares > 0.0 { (sums.errors / sums.squares).sqrt() } else { 0.0 },
                exact: sums.exact as f64 / blocks.max(1) as f64,
                importance: importance.is_some(),
            });
        }
        source.check_intact()?;
        Ok(())
    });
    // The closure above does not know the path.
    written.map_err(|error| match error {
        Error::Write { source, .. } => Error::Write { file: path.display().to_string(), source },
        error => error,
    })?;
    Ok(report)
}

/// Returns the processor with the threads for a requested number.
pub(crate) fn cpu(threads: usize) -> Result<Cpu, Error> {
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    // More threads would cost memory for pieces without being faster.
    Cpu::new(Tier::best(), threads.min(MAX_THREADS)).map_err(|error| Error::Resources(error.to_string()))
}

/// Returns the number of matrices in a tensor: the experts of a mixture.
pub(crate) fn experts(view: &TensorView<'_>) -> usize {
    let shape = view.shape();
    shape[..shape.len().saturating_sub(2)].iter().product()
}

/// Returns the rows of a matrix that are sampled: about [`SAMPLE`] values.
fn sampled_rows(rows: usize, cols: usize) -> impl Iterator<Item = usize> {
    let step = (rows * cols / SAMPLE).max(1);
    (0..rows).step_by(step)
}

fn write(out: &mut dyn Write, bytes: &[u8]) -> Result<(), Error> {
    out.write_all(bytes).map_err(|source| Error::Write { file: String::new(), source })
}

/// Sums over the values of a tensor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    squares: f64,
    errors: f64,
    exact: usize,
}

/// Encoded rows and their sums.
type Piece = Result<(Vec<u8>, Sums), Error>;

/// The conversion of one tensor to another type.
pub(crate) struct Job<'a> {
    pub(crate) cpu: &'a Cpu,
    pub(crate) file: &'a Path,
    pub(crate) view: TensorView<'a>,
    pub(crate) to: DType,
    pub(crate) importance: Option<&'a [f32]>,
    /// True if the blocks of a row of Q8_0 share one scale.
    by_rows: bool,
}

impl<'a> Job<'a> {
    pub(crate) fn new(
        cpu: &'a Cpu,
        file: &'a Path,
        view: TensorView<'a>,
        to: DType,
        importance: Option<&'a [f32]>,
    ) -> Job<'a> {
        Job { cpu, file, view, to, importance, by_rows: false }
    }

    /// Returns the number of rows in a piece.
    fn piece(&self) -> usize {
        (PIECE / self.view.cols().max(1)).max(1)
    }

    /// Returns the number of pieces in memory at a time.
    fn pieces_at_a_time(&self) -> usize {
        16 * self.cpu.pool().members()
    }

    /// Estimates the squared errors of all rows from a sample, weighted by the importances of the columns.
    pub(crate) fn sampled(&self, means: Option<&[f32]>) -> Result<f64, Error> {
        let cols = self.view.cols();
        let of_expert = (self.view.rows() / experts(&self.view).max(1)).max(1);
        let rows: Vec<usize> = sampled_rows(self.view.rows(), cols).collect();
        let share = rows.len().div_ceil(PARTS).max(1);
        let part = |rows: &[usize]| -> Result<f64, Error> {
            let (mut x, mut back) = (vec![0.0; cols], vec![0.0; cols]);
            let mut errors = 0.0_f64;
            for &row in rows {
                let (bytes, _) = self.rows(row..row + 1)?;
                decode_row(self.cpu.tier(), self.view.dtype(), self.view.row(row), &mut x);
                decode_row(self.cpu.tier(), self.to, &bytes, &mut back);
                let weights = means.map(|all| &all[row / of_expert * cols..][..cols]);
                for (i, (x, back)) in x.iter().zip(&back).enumerate() {
                    let weight = f64::from(weights.map_or(1.0, |w| w[i]));
                    errors += weight * f64::from((x - back) * (x - back));
                }
            }
            Ok(errors)
        };
        let mut parts: Vec<Result<f64, Error>> = (0..rows.len().div_ceil(share)).map(|_| Ok(0.0)).collect();
        self.cpu.for_blocks(&mut parts, 1, 1, |i, result| {
            result[0] = part(&rows[i * share..rows.len().min((i + 1) * share)]);
        });
        let scale = self.view.rows() as f64 / rows.len().max(1) as f64;
        Ok(scale * parts.into_iter().sum::<Result<f64, Error>>()?)
    }

    /// Returns true if one scale per row loses little. Calls `report` with the number of values read since the last
    /// call.
    fn keeps_row_scales(&self, report: &mut dyn FnMut(usize) -> Result<(), Error>) -> Result<bool, Error> {
        let (rows, cols) = (self.view.rows(), self.view.cols());
        let mut losses = vec![0.0; rows];
        let part = |first: usize, losses: &mut [f64]| {
            let mut x = vec![0.0; cols];
            for (i, loss) in losses.iter_mut().enumerate() {
                decode_row(self.cpu.tier(), self.view.dtype(), self.view.row(first + i), &mut x);
                *loss = rows::loss(&x);
            }
        };
        let (piece, together) = (self.piece(), self.pieces_at_a_time() * self.piece());
        for (i, losses) in losses.chunks_mut(together).enumerate() {
            self.cpu.for_blocks(losses, 1, piece, |first, losses| part(i * together + first, losses));
            report(cols * losses.len())?;
        }
        Ok(losses.into_iter().collect::<RowLosses>().are_small())
    }

    /// Writes all rows in order; several threads convert pieces of some ten thousand values.
    pub(crate) fn run(
        &self,
        out: &mut dyn Write,
        report: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<Sums, Error> {
        let (rows, piece) = (self.view.rows(), self.piece());
        let pieces = rows.div_ceil(piece);
        let mut sums = Sums::default();
        let together = self.pieces_at_a_time();
        for first in (0..pieces).step_by(together) {
            let count = together.min(pieces - first);
            let mut results: Vec<Piece> = (0..count).map(|_| Ok(Default::default())).collect();
            self.cpu.for_blocks(&mut results, 1, 1, |i, result| {
                let from = (first + i) * piece;
                result[0] = self.rows(from..rows.min(from + piece));
            });
            for made in results {
                let (bytes, of_piece) = made?;
                write(out, &bytes)?;
                sums.squares += of_piece.squares;
                sums.errors += of_piece.errors;
                sums.exact += of_piece.exact;
            }
            report(self.view.cols() * (rows.min((first + count) * piece) - first * piece))?;
        }
        Ok(sums)
    }

    fn rows(&self, rows: Range<usize>) -> Piece {
        let cols = self.view.cols();
        let row_bytes = self.to.row_bytes(cols).unwrap_or(0);
        let of_expert = self.view.rows() / experts(&self.view).max(1);
        let mut bytes = vec![0; row_bytes * rows.len()];
        let (mut x, mut w, mut back) = (vec![0.0; cols], vec![0.0; cols], vec![0.0; cols]);
        let mut sums = Sums::default();
        for (row, out) in rows.zip(bytes.chunks_exact_mut(row_bytes.max(1))) {
            decode_row(self.cpu.tier(), self.view.dtype(), self.view.row(row), &mut x);
            if let Some(value) = x.iter().find(|x| !x.is_finite()) {
                return Err(Error::NotFinite {
                    file: self.file.display().to_string(),
                    tensor: self.view.name().to_owned(),
                    row,
                    value: *value,
                });
            }
            let importance = self.importance.map(|all| &all[row / of_expert.max(1) * cols..][..cols]);
            weights::fill(&x, importance, &mut w);
            match self.by_rows {
                true => rows::encode(&x, out),
                false => encode_row_weighted(self.cpu.tier(), self.to, &x, &w, out),
            }
            decode_row(self.cpu.tier(), self.to, out, &mut back);
            for (x, back) in x.chunks_exact(self.to.block_len()).zip(back.chunks_exact(self.to.block_len())) {
                sums.exact += usize::from(x == back);
                let (mut squares, mut errors) = ([0.0_f32; LANES], [0.0_f32; LANES]);
                for (x, back) in x.chunks(LANES).zip(back.chunks(LANES)) {
                    for (i, (x, back)) in x.iter().zip(back).enumerate() {
                        squares[i] += x * x;
                        errors[i] += (x - back) * (x - back);
                    }
                }
                sums.squares += f64::from(squares.iter().sum::<f32>());
                sums.errors += f64::from(errors.iter().sum::<f32>());
            }
        }
        Ok((bytes, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "out of range for slice")]
    fn a_panic_of_a_thread_is_no_stop() {
        let bytes = [0; 2 * 64];
        let view = TensorView::new("w", DType::F16, &[2, 32], &bytes).unwrap();
        let cpu = cpu(2).unwrap();
        let job = Job::new(&cpu, Path::new("model.gguf"), view, DType::Q8_0, None);
        let no_importances: &[f32] = &[];
        let _ = job.sampled(Some(no_importances));
    }
}
