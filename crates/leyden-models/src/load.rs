//! From a weight source to a network: finds, checks and packs the tensors.

use crate::arch::{config_of, stored_as};
use crate::config::ModelConfig;
use crate::error::Error;
use crate::network::Network;
use crate::packs::{PackCache, PackReport, Packs};
use crate::transformer::{Parts, Transformer};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::PackedWeights;
use leyden_tensor::{DType, OwnedTensor, TensorView, WeightSource, quant};
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Loads the model in `source` and packs its weights for `cpu`. `progress` is called with the bytes of weights
/// packed so far and in all.
///
/// # Errors
/// The architecture is not supported; a size or tensor is missing, has the wrong shape or an unsupported type;
/// the file has tensors that the architecture does not use; or memory is short.
pub fn load(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Arc<dyn Network>, Error> {
    Ok(load_with(source, cpu, &PackCache::Off, progress)?.0)
}

/// As [`load`], with packed weights from a cache or kept in one.
///
/// # Errors
/// As [`load`]. What is wrong with the cache is no error, and is told in the report.
pub fn load_with(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    cache: &PackCache,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Arc<dyn Network>, PackReport), Error> {
    let config = config_of(source.as_ref())?;
    let total = source.tensor_info().iter().map(|t| t.bytes as u64).sum();
    let loader = Loader {
        stored: stored_as(source.as_ref())?,
        source: source.as_ref(),
        cpu,
        used: RefCell::default(),
        packs: RefCell::new(Packs::new(cache, source.as_ref())),
        progress: RefCell::new((0, total, progress)),
    };
    let parts = Parts::load(&loader, &config)?;
    loader.check_all_used(&config)?;
    if source.truncated() {
        return Err(Error::truncated(&source.path().display().to_string()));
    }
    let packs = loader.packs.into_inner();
    let (report, pack) = packs.finish(cpu, source.as_ref(), &parts.matrices());
    Ok((Arc::new(Transformer::new(config, source, pack, parts)), report))
}

/// Bytes done, bytes in all, and whom to tell.
type Progress<'a> = (u64, u64, &'a mut dyn FnMut(u64, u64));

/// How a checkpoint lays out matrices, where it may differ from GGUF's way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Where queries, keys and values are one matrix.
    pub(crate) qkv: QkvRows,
    /// Whether the matrices of layers are stored with a row for each input rather than for each output.
    pub(crate) transposed: bool,
}

impl Stored {
    pub(crate) const AS_GGUF: Stored = Stored { qkv: QkvRows::Stacked, transposed: false };
}

/// The order of rows in a matrix of queries, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QkvRows {
    /// All queries, all keys, all values.
    Stacked,
    /// The same for the heads of each group, which share keys and values.
    Grouped,
}

/// Some rows of a matrix that consists of several.
pub(crate) struct Part {
    /// What it is, for the name under which it is kept.
    pub(crate) label: &'static str,
    pub(crate) rows: Vec<Range<usize>>,
}

impl Part {
    /// Rows that follow one another.
    pub(crate) fn new(label: &'static str, rows: Range<usize>) -> Part {
        Part { label, rows: std::iter::once(rows).collect() }
    }
}

/// Finds, checks and packs tensors for the blocks of a network.
pub(crate) struct Loader<'a> {
    stored: Stored,
    source: &'a dyn WeightSource,
    cpu: &'a Cpu,
    used: RefCell<HashSet<String>>,
    packs: RefCell<Packs<'a>>,
    progress: RefCell<Progress<'a>>,
}

impl Loader<'_> {
    /// The error of a tensor, which is shown by its name in the file.
    pub(crate) fn invalid(&self, name: &str, what: String) -> Error {
        let found = self.source.optional(name).ok().flatten();
        let name = found.as_ref().map_or(name, |tensor| tensor.name());
        let info = self.source.tensor_info().iter().find(|t| t.name == name);
        let paths = self.source.paths();
        let path = info.and_then(|t| paths.get(t.file).copied()).unwrap_or(self.source.path());
        Error::invalid(&path.display().to_string(), name, what)
    }

    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(self.source.optional(name)?.is_some())
    }

    /// The rows of a matrix of so many columns, which is read from the file as it is.
    pub(crate) fn rows_of(&self, name: &str, columns: usize) -> Result<usize, Error> {
        let table = self.source.require(name)?;
        self.used.borrow_mut().insert(table.name().to_owned());
        if table.shape().len() != 2 || table.cols() != columns {
            let found = format!("shape {:?} does not match the model's width {columns}", table.shape());
            return Err(self.invalid(table.name(), found));
        }
        Ok(table.rows())
    }

    /// The first row of a table of so many columns.
    pub(crate) fn first_row(&self, name: &str, columns: usize) -> Result<Vec<f32>, Error> {
        if self.rows_of(name, columns)? == 0 {
            return Err(self.invalid(name, "has no rows".to_owned()));
        }
        let table = self.source.require(name)?;
        let mut row = vec![0.0; columns];
        quant::decode_row(table.dtype(), table.row(0), &mut row);
        Ok(row)
    }

    fn checked<'s>(&self, t: TensorView<'s>, shape: &[usize]) -> Result<TensorView<'s>, Error> {
        self.used.borrow_mut().insert(t.name().to_owned());
        if t.shape() == shape {
            return Ok(t);
        }
        let what = format!("shape {:?} does not match the model's {shape:?}", t.shape());
        Err(self.invalid(t.name(), what))
    }

    /// How queries, keys and values lie where they are one matrix.
    pub(crate) fn qkv_rows(&self) -> QkvRows {
        self.stored.qkv
    }

    /// Some rows of a matrix of a layer.
    pub(crate) fn matrix_part(
        &self,
        name: &str,
        rows: usize,
        k: usize,
        part: &Part,
    ) -> Result<PackedWeights, Error> {
        let found = self.source.require(name)?;
        let stored = if self.stored.transposed { [k, rows] } else { [rows, k] };
        let found = self.checked(found, &stored)?;
        let own;
        let whole = if self.stored.transposed {
            own = transposed(&found);
            &own[..]
        } else {
            found.bytes()
        };
        let row_bytes = whole.len() / rows.max(1);
        let bytes = |range: &Range<usize>| &whole[range.start * row_bytes..range.end * row_bytes];
        let gathered;
        let (bytes, place) = match &part.rows[..] {
            [one] if !self.stored.transposed => (bytes(one), Some((name, one.start * row_bytes))),
            several => {
                gathered = several.iter().map(bytes).collect::<Vec<_>>().concat();
                (&gathered[..], None)
            }
        };
        let count = part.rows.iter().map(|range| range.len()).sum();
        let (label, shape) = (format!("{}[{}]", found.name(), part.label), [count, k]);
        let view = TensorView::new(&label, found.dtype(), &shape, bytes)?;
        self.pack(&view, place)
    }

    pub(crate) fn matrix(&self, name: &str, rows: usize, k: usize) -> Result<PackedWeights, Error> {
        self.packed(name, &[rows, k])
    }

    /// A matrix, or a stack of them.
    pub(crate) fn packed(&self, name: &str, shape: &[usize]) -> Result<PackedWeights, Error> {
        if let Some(tensor) = self.source.composed(name)? {
            return self.pack(&self.checked_parts(&tensor, shape)?, None);
        }
        let found = self.source.require(name)?;
        if let (true, true, &[rows, k]) = (self.stored.transposed, name.starts_with("blk."), shape) {
            let found = self.checked(found, &[k, rows])?;
            let bytes = transposed(&found);
            return self.pack(&TensorView::new(found.name(), found.dtype(), shape, &bytes)?, None);
        }
        self.pack(&self.checked(found, shape)?, Some((name, 0)))
    }

    /// Packs a matrix, or takes it from the cache. `place` is the tensor whose bytes it is, and where in them it begins.
    fn pack(&self, view: &TensorView<'_>, place: Option<(&str, usize)>) -> Result<PackedWeights, Error> {
        let short = |e| Error::resources(&self.source.path().display().to_string(), e);
        let packed = match self.packs.borrow_mut().take(self.cpu, view).map_err(short)? {
            Some(packed) => packed,
            None => {
                if let Some((name, 0)) = place {
                    self.source.advise_willneed(name);
                }
                let mut release = |bytes: Range<usize>| {
                    if let Some((name, start)) = place {
                        self.source.advise_dontneed(name, start + bytes.start..start + bytes.end);
                    }
                };
                PackedWeights::pack_in_slices(self.cpu, view, &mut release).map_err(short)?
            }
        };
        let mut progress = self.progress.borrow_mut();
        progress.0 += view.bytes().len() as u64;
        let (done, total, tell) = &mut *progress;
        tell((*done).min(*total), *total);
        Ok(packed)
    }

    /// The weights of a convolution over so many tokens of each channel, which files have channel by channel: those of all
    /// channels for one token after the other.
    pub(crate) fn taps(&self, name: &str, width: usize, taps: usize) -> Result<Vec<f32>, Error> {
        let found = self.source.require(name)?;
        let shape = [width, 1, taps];
        let flat = [width, taps];
        let view = self.checked(found, if found.shape().len() == 2 { &flat } else { &shape })?;
        let mut values = vec![0.0; width * taps];
        quant::decode_row(view.dtype(), view.bytes(), &mut values);
        Ok((0..taps).flat_map(|j| values.chunks_exact(taps).map(move |c| c[j])).collect())
    }

    /// A matrix that was made of others.
    pub(crate) fn made(
        &self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<PackedWeights, Error> {
        self.pack(&TensorView::new(name, dtype, shape, bytes)?, None)
    }

    /// One row of so many columns, a vector in some files and a matrix in others.
    pub(crate) fn row(&self, name: &str, k: usize) -> Result<PackedWeights, Error> {
        let found = self.source.require(name)?;
        let shape = [1, k];
        let view = self.checked(found, if found.shape().len() == 1 { &shape[1..] } else { &shape })?;
        let view = TensorView::new(view.name(), view.dtype(), &shape, view.bytes())?;
        PackedWeights::pack(self.cpu, &view)
            .map_err(|e| Error::resources(&self.source.path().display().to_string(), e))
    }

    /// All values of a tensor of this shape.
    pub(crate) fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let composed = self.source.composed(name)?;
        let view = match &composed {
            None => self.checked(self.source.require(name)?, shape)?,
            Some(tensor) => self.checked_parts(tensor, shape)?,
        };
        let mut out = vec![0.0; shape.iter().product()];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    fn checked_parts<'t>(&self, tensor: &'t OwnedTensor, shape: &[usize]) -> Result<TensorView<'t>, Error> {
        self.used.borrow_mut().extend(tensor.parts.iter().cloned());
        self.checked(tensor.view()?, shape)
    }

    pub(crate) fn vector(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        self.source.optional(name)?.map(|view| self.decoded(view, n)).transpose()
    }

    pub(crate) fn required_vector(&self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        self.decoded(self.source.require(name)?, n)
    }

    fn decoded(&self, view: TensorView<'_>, n: usize) -> Result<Vec<f32>, Error> {
        let view = self.checked(view, &[n])?;
        let mut out = vec![0.0; n];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    /// A tensor nobody asked for means that the file computes something we do not.
    fn check_all_used(&self, c: &ModelConfig) -> Result<(), Error> {
        let used = self.used.borrow();
        // Old files have the rotary frequencies, which follow from the configuration.
        let frequencies = |n: &str| n.ends_with("attn_rot_embd") || n.ends_with("rotary_emb.inv_freq");
        let beyond = c.layers.len()..c.layers.len() + c.predictors;
        // The layers' number is the first in a name.
        let number = |n: &str| n.split('.').find_map(|part| part.parse::<usize>().ok());
        let predicts = |n: &str| number(n).is_some_and(|i| beyond.contains(&i));
        let unused = |n: &&str| !used.contains(*n) && !frequencies(n) && !predicts(n);
        match self.source.tensor_names().into_iter().find(unused) {
            Some(name) => {
                let what = format!("architecture `{}` has no use for this tensor", c.architecture);
                Err(self.invalid(name, what))
            }
            None => Ok(()),
        }
    }
}

/// The bytes of a matrix whose rows are the columns of another, each value of which is stored by itself.
fn transposed(view: &TensorView<'_>) -> Vec<u8> {
    let (rows, columns) = (view.rows(), view.cols());
    let size = view.row_bytes() / columns.max(1);
    let mut out = Vec::with_capacity(view.bytes().len());
    for column in 0..columns {
        for row in 0..rows {
            out.extend_from_slice(&view.row(row)[column * size..(column + 1) * size]);
        }
    }
    out
}
