//! [`Loader`]: finds, checks and packs tensors for the blocks of a network.

use crate::config::ModelConfig;
use crate::error::Error;
use crate::int8::{Int8Report, in_int8};
use crate::lora::Target;
use crate::packs::{PackCache, Packs};
use crate::stored::{QkvRows, Stored};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::PackedWeights;
use leyden_tensor::{DType, OwnedTensor, TensorView, WeightSource, quant};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// Bytes done, bytes in all, and the callback that gets them.
type Progress<'a> = (u64, u64, &'a mut dyn FnMut(u64, u64));

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
    /// The projections that adapters can change.
    targets: RefCell<Vec<Target>>,
    /// The matrices of other formats that were rounded on the way to ours, and by how much.
    rounded: RefCell<Vec<(DType, f32)>>,
    /// If matrices are to become integers: what became of them.
    int8: Option<RefCell<Int8Report>>,
    /// Whether the model reads texts whole.
    whole_texts: bool,
    progress: RefCell<Progress<'a>>,
}

/// Results of loading beside the weights.
pub(crate) struct Loaded<'a> {
    /// Projections that adapters can change.
    pub(crate) targets: Vec<Target>,
    pub(crate) packs: Packs<'a>,
    pub(crate) int8: Int8Report,
    /// Sentence about matrices that were rounded, if any were.
    pub(crate) rounding: Option<String>,
}

impl<'a> Loader<'a> {
    /// Returns a loader of the tensors of `source`. `int8` turns matrices stored in floats into 8-bit integers.
    pub(crate) fn new(
        source: &'a dyn WeightSource,
        stored: Stored,
        cpu: &'a Cpu,
        (packs, int8): (&'a PackCache, bool),
        whole_texts: bool,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Loader<'a> {
        let total = source.tensor_info().iter().map(|t| t.bytes as u64).sum();
        Loader {
            stored,
            source,
            cpu,
            used: RefCell::default(),
            packs: RefCell::new(Packs::new(packs, source)),
            targets: RefCell::default(),
            rounded: RefCell::default(),
            int8: int8.then(RefCell::default),
            whole_texts,
            progress: RefCell::new((0, total, progress)),
        }
    }

    /// Ends loading.
    pub(crate) fn finish(self) -> Loaded<'a> {
        Loaded {
            targets: self.targets.into_inner(),
            packs: self.packs.into_inner(),
            int8: self.int8.map(RefCell::into_inner).unwrap_or_default(),
            rounding: rounding_note(&self.rounded.into_inner()),
        }
    }
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

    /// Takes note of a projection that adapters can change; its number.
    pub(crate) fn target(&self, target: Target) -> usize {
        let mut targets = self.targets.borrow_mut();
        targets.push(target);
        targets.len() - 1
    }

    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(self.source.is_composed(name) || self.source.optional(name)?.is_some())
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

    /// The first two rows of a table of so many columns; of a table with one row that one twice.
    pub(crate) fn first_rows(&self, name: &str, columns: usize) -> Result<[Vec<f32>; 2], Error> {
        let rows = self.rows_of(name, columns)?;
        if rows == 0 {
            return Err(self.invalid(name, "has no rows".to_owned()));
        }
        let table = self.source.require(name)?;
        Ok([0, 1].map(|i: usize| {
            let mut row = vec![0.0; columns];
            quant::decode_row(table.dtype(), table.row(i.min(rows - 1)), &mut row);
            row
        }))
    }

    /// Whether it is an encoder in 8-bit integers, where what is not a product of matrices may round too.
    pub(crate) fn int8_encoder(&self) -> bool {
        self.int8.is_some() && self.whole_texts
    }

    /// The processor that tensors are packed for.
    pub(crate) fn cpu(&self) -> &Cpu {
        self.cpu
    }

    /// All values of a table.
    pub(crate) fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>, Error> {
        let table = self.checked(self.source.require(name)?, &[rows, columns])?;
        let mut out = vec![0.0; rows * columns];
        for (i, row) in out.chunks_exact_mut(columns).enumerate() {
            quant::decode_row(table.dtype(), table.row(i), row);
        }
        Ok(out)
    }

    /// Leaves a tensor unused, if it is there.
    pub(crate) fn pass_over(&self, name: &str) -> Result<(), Error> {
        if let Some(tensor) = self.source.optional(name)? {
            self.used.borrow_mut().insert(tensor.name().to_owned());
        }
        Ok(())
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

    /// Whether gates stand last where they share a matrix.
    pub(crate) fn gate_last(&self) -> bool {
        self.stored.gate_last
    }

    /// Some rows of a matrix of a layer.
    pub(crate) fn matrix_part(
        &self,
        name: &str,
        rows: usize,
        k: usize,
        part: &Part,
    ) -> Result<PackedWeights, Error> {
        let composed = self.composed(name, &[rows, k])?;
        let transposes = self.stored.transposed && composed.is_none();
        let found = match &composed {
            Some(tensor) => self.checked_parts(tensor, &[rows, k])?,
            None => self.checked(
                self.source.require(name)?,
                &if self.stored.transposed { [k, rows] } else { [rows, k] },
            )?,
        };
        let own;
        let whole = if transposes {
            own = transposed(&found);
            &own[..]
        } else {
            found.bytes()
        };
        let row_bytes = whole.len() / rows.max(1);
        let bytes = |range: &Range<usize>| &whole[range.start * row_bytes..range.end * row_bytes];
        let gathered;
        let (bytes, place) = match &part.rows[..] {
            [one] if !transposes => (bytes(one), composed.is_none().then_some((name, one.start * row_bytes))),
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
        if let Some(tensor) = self.composed(name, shape)? {
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

    /// Some rows of each matrix of a stack.
    pub(crate) fn stack_part(
        &self,
        name: &str,
        [count, rows, k]: [usize; 3],
        part: &Part,
    ) -> Result<PackedWeights, Error> {
        let found = self.checked(self.source.require(name)?, &[count, rows, k])?;
        let row_bytes = found.bytes().len() / (count * rows).max(1);
        let of = |matrix: usize, range: &Range<usize>| {
            &found.bytes()[(matrix * rows + range.start) * row_bytes..(matrix * rows + range.end) * row_bytes]
        };
        let bytes = (0..count).flat_map(|m| part.rows.iter().map(move |range| of(m, range)));
        let bytes = bytes.collect::<Vec<_>>().concat();
        let kept = part.rows.iter().map(|range| range.len()).sum();
        let label = format!("{}[{}]", found.name(), part.label);
        self.pack(&TensorView::new(&label, found.dtype(), &[count, kept, k], &bytes)?, None)
    }

    /// The matrices of a stack one by one; some checkpoints have each in a tensor of its own, with its number in the name.
    pub(crate) fn each_of_stack(
        &self,
        name: &str,
        [count, rows, k]: [usize; 3],
    ) -> Result<Vec<PackedWeights>, Error> {
        let whole = format!("{name}.weight");
        if !self.has(&whole)? {
            return (0..count).map(|i| self.matrix(&format!("{name}.{i}.weight"), rows, k)).collect();
        }
        let found = self.checked(self.source.require(&whole)?, &[count, rows, k])?;
        let size = found.bytes().len() / count.max(1);
        let one = |i: usize| {
            let (label, bytes) = (format!("{whole}[{i}]"), &found.bytes()[i * size..(i + 1) * size]);
            self.pack(&TensorView::new(&label, found.dtype(), &[rows, k], bytes)?, Some((&whole, i * size)))
        };
        (0..count).map(one).collect()
    }

    /// Packs a matrix, or takes it from the cache. `place` is the tensor whose bytes it is, and where in them it begins.
    fn pack(&self, view: &TensorView<'_>, place: Option<(&str, usize)>) -> Result<PackedWeights, Error> {
        let short = |e| Error::resources(&self.source.path().display().to_string(), e);
        if let Some(packed) = self.int8_rows(view).map_err(short)? {
            return Ok(packed);
        }
        if let Some(int8) = self.int8.as_ref().filter(|_| view.dtype().block_len() == 1) {
            let mut report = int8.borrow_mut();
            if let Some(bytes) = in_int8(view, &mut report) {
                drop(report);
                let label = format!("{}[int8]", view.name());
                let quantised = TensorView::new(&label, DType::Q8_0, view.shape(), &bytes)?;
                return self.pack(&quantised, None);
            }
        }
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
        self.tell(view);
        Ok(packed)
    }

    /// A matrix of an encoder as INT8 rows, where that is asked for and loses little, or where the file has it so.
    fn int8_rows(&self, view: &TensorView<'_>) -> Result<Option<PackedWeights>, leyden_kernels::Error> {
        let asked = self.int8.as_ref().filter(|_| view.dtype().block_len() == 1);
        let stored = || PackedWeights::has_row_scales(view);
        if !self.whole_texts || asked.is_none() && !stored() {
            return Ok(None);
        }
        let Some((packed, losses)) = PackedWeights::int8_rows(self.cpu, view)? else { return Ok(None) };
        if asked.is_some() && !losses.are_small() {
            return Ok(None);
        }
        if let Some(report) = asked {
            report.borrow_mut().matrices += 1;
        }
        self.tell(view);
        Ok(Some(packed))
    }

    /// Tells that a matrix is packed.
    fn tell(&self, view: &TensorView<'_>) {
        let mut progress = self.progress.borrow_mut();
        progress.0 += view.bytes().len() as u64;
        let (done, total, tell) = &mut *progress;
        tell((*done).min(*total), *total);
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

    /// A vector, which some files have in this shape.
    pub(crate) fn flat_vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let found = self.source.require(name)?;
        let n = [shape.iter().product()];
        let view = self.checked(found, if found.shape().len() == 1 { &n } else { shape })?;
        let mut out = vec![0.0; n[0]];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
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
        let composed = self.composed(name, shape)?;
        let view = match &composed {
            None => self.checked(self.source.require(name)?, shape)?,
            Some(tensor) => self.checked_parts(tensor, shape)?,
        };
        let mut out = vec![0.0; shape.iter().product()];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    /// [`WeightSource::composed`], with what was lost noted.
    fn composed(&self, name: &str, shape: &[usize]) -> Result<Option<OwnedTensor>, Error> {
        let found = self.source.composed(name, shape)?;
        if let Some(tensor) = found.as_ref().filter(|tensor| tensor.loss > 0.0) {
            self.rounded.borrow_mut().push((tensor.dtype, tensor.loss));
        }
        Ok(found)
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
    pub(crate) fn check_all_used(&self, c: &ModelConfig) -> Result<(), Error> {
        let used = self.used.borrow();
        let unused = |n: &&str| !used.contains(*n) && !needless(n, c);
        match self.source.tensor_names().into_iter().find(unused) {
            Some(name) => {
                let what = format!("architecture `{}` has no use for this tensor", c.architecture);
                Err(self.invalid(name, what))
            }
            None => Ok(()),
        }
    }
}

/// Whether no result depends on a tensor of this name: rotary frequencies, which old files have and which follow from the
/// configuration, and layers that predict further tokens.
pub(crate) fn needless(name: &str, c: &ModelConfig) -> bool {
    let beyond = c.layers.len()..c.layers.len() + c.predictors;
    // The layers' number is the first in a name.
    let number = name.split('.').find_map(|part| part.parse::<usize>().ok());
    name.ends_with("attn_rot_embd")
        || name.ends_with("rotary_emb.inv_freq")
        || number.is_some_and(|i| beyond.contains(&i))
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

/// Returns a sentence about rounded matrices: how many there are, their types and the largest error.
fn rounding_note(rounded: &[(DType, f32)]) -> Option<String> {
    let worst = rounded.iter().map(|(_, loss)| *loss).fold(0.0, f32::max);
    let types: BTreeSet<&str> = rounded.iter().map(|(dtype, _)| dtype.name()).collect();
    let types: Vec<&str> = types.into_iter().collect();
    (worst > 0.0).then(|| {
        let (count, types) = (rounded.len(), types.join(" and "));
        format!("{count} quantised matrices became {types}, rounded by at most {worst:.1e} of a value")
    })
}
