//! From a weight source to a network: finds, checks and packs the tensors.

use crate::arch::config_of;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::network::Network;
use crate::packs::{PackCache, PackReport, Packs};
use crate::transformer::{Parts, Transformer};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::PackedWeights;
use leyden_tensor::{TensorView, WeightSource, quant};
use std::cell::RefCell;
use std::collections::HashSet;
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

/// Finds, checks and packs tensors for the blocks of a network.
pub(crate) struct Loader<'a> {
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

    pub(crate) fn matrix(&self, name: &str, rows: usize, k: usize) -> Result<PackedWeights, Error> {
        self.packed(name, &[rows, k])
    }

    /// A matrix, or a stack of them.
    pub(crate) fn packed(&self, name: &str, shape: &[usize]) -> Result<PackedWeights, Error> {
        let view = self.checked(self.source.require(name)?, shape)?;
        let short = |e| Error::resources(&self.source.path().display().to_string(), e);
        let packed = match self.packs.borrow_mut().take(self.cpu, &view).map_err(short)? {
            Some(packed) => packed,
            None => {
                self.source.advise_willneed(name);
                let mut release = |bytes| self.source.advise_dontneed(name, bytes);
                PackedWeights::pack_in_slices(self.cpu, &view, &mut release).map_err(short)?
            }
        };
        let mut progress = self.progress.borrow_mut();
        progress.0 += view.bytes().len() as u64;
        let (done, total, tell) = &mut *progress;
        tell((*done).min(*total), *total);
        Ok(packed)
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
        let unused = |n: &&str| !used.contains(*n) && !frequencies(n);
        match self.source.tensor_names().into_iter().find(unused) {
            Some(name) => {
                let what = format!("architecture `{}` has no use for this tensor", c.architecture);
                Err(self.invalid(name, what))
            }
            None => Ok(()),
        }
    }
}
