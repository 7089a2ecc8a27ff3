//! [`Loader`]: finds, checks and packs tensors for the layers of a network.

use crate::config::ModelConfig;
use crate::error::Error;
use crate::int8::{Int8Report, in_int8};
use crate::load_as::LoadAs;
use crate::lora::Target;
use crate::packs::{PackCache, Packs};
use crate::stored::{QkvRows, Stored};
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{LayoutRule, PackedWeights};
use leyden_tensor::{DType, OwnedTensor, TensorView, WeightSource, quant};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

/// Bytes packed so far, total bytes, and the callback that reports them.
type Progress<'a> = (u64, u64, &'a mut dyn FnMut(u64, u64));

/// Part of a stored matrix that joins several matrices.
pub(crate) struct Part {
    /// Suffix of its name in the cache of packed weights.
    pub(crate) label: &'static str,
    pub(crate) rows: Vec<Range<usize>>,
}

impl Part {
    /// Returns a part of consecutive rows.
    pub(crate) fn new(label: &'static str, rows: Range<usize>) -> Part {
        Part { label, rows: std::iter::once(rows).collect() }
    }
}

/// Source of packed tensors for the layers of a network. It notes which tensors were used.
pub(crate) struct Loader<'a> {
    stored: Stored,
    source: &'a dyn WeightSource,
    cpu: &'a Cpu,
    used: RefCell<HashSet<String>>,
    packs: RefCell<Packs<'a>>,
    /// Projections that adapters can change.
    targets: RefCell<Vec<Target>>,
    /// Types of the matrices that were rounded when they were converted from another format, and their relative errors.
    rounded: RefCell<Vec<(DType, f32)>>,
    /// Report about matrices in 8-bit integers, if they are asked for.
    int8: Option<RefCell<Int8Report>>,
    /// True if the model needs whole texts, see [`ModelConfig::needs_whole_texts`].
    whole_texts: bool,
    progress: RefCell<Progress<'a>>,
}

/// Results of loading other than the weights.
pub(crate) struct Loaded<'a> {
    /// Projections that adapters can change.
    pub(crate) targets: Vec<Target>,
    pub(crate) packs: Packs<'a>,
    pub(crate) int8: Int8Report,
    /// Sentence about matrices that were rounded, if any were.
    pub(crate) rounding: Option<String>,
}

impl<'a> Loader<'a> {
    /// Returns a loader of the tensors of `source`.
    pub(crate) fn new(
        source: &'a dyn WeightSource,
        stored: Stored,
        cpu: &'a Cpu,
        options: &'a LoadAs,
        whole_texts: bool,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Loader<'a> {
        // Another rule than the fastest layout needs matrices that are packed by it.
        let packs = if options.layout == LayoutRule::Fastest { &options.packs } else { &PackCache::Off };
        let total = source.tensor_info().iter().map(|t| t.bytes as u64).sum();
        Loader {
            stored,
            source,
            cpu,
            used: RefCell::default(),
            packs: RefCell::new(Packs::new(packs, options.int8, source)),
            targets: RefCell::default(),
            rounded: RefCell::default(),
            int8: options.int8.then(RefCell::default),
            whole_texts,
            progress: RefCell::new((0, total, progress)),
        }
    }

    /// Makes the pack again, with these notes about its damage.
    pub(crate) fn pack_again(&mut self, notes: Vec<String>) {
        self.packs.get_mut().make_again(notes);
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
    /// Returns an error about a tensor, under its name in the file.
    pub(crate) fn invalid(&self, name: &str, what: String) -> Error {
        let found = self.source.optional(name).ok().flatten();
        let name = found.as_ref().map_or(name, |tensor| tensor.name());
        let info = self.source.tensor_info().iter().find(|t| t.name == name);
        let paths = self.source.paths();
        let path = info.and_then(|t| paths.get(t.file).copied()).unwrap_or(self.source.path());
        Error::invalid(&path.display().to_string(), name, what)
    }

    /// Registers a projection that adapters can change, and returns its index.
    pub(crate) fn target(&self, target: Target) -> usize {
        let mut targets = self.targets.borrow_mut();
        targets.push(target);
        targets.len() - 1
    }

    /// Returns true if the source has a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Error> {
        Ok(self.source.is_composed(name) || self.source.optional(name)?.is_some())
    }

    /// Returns the number of rows of a matrix with `columns` columns, which is read from the file unpacked.
    pub(crate) fn rows_of(&self, name: &str, columns: usize) -> Result<usize, Error> {
        let table = self.source.require(name)?;
        self.used.borrow_mut().insert(table.name().to_owned());
        if table.shape().len() != 2 || table.cols() != columns {
            let found = format!("shape {:?} does not match the model's width {columns}", table.shape());
            return Err(self.invalid(table.name(), found));
        }
        Ok(table.rows())
    }

    /// Returns the first two rows of a table; the first one twice if there is only one.
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

    /// Returns true for an encoder in 8-bit integers, whose other computations may be approximate too.
    pub(crate) fn int8_encoder(&self) -> bool {
        self.int8.is_some() && self.whole_texts
    }

    /// Returns the processor that tensors are packed for.
    pub(crate) fn cpu(&self) -> &Cpu {
        self.cpu
    }

    /// Returns all values of a table `[rows, columns]`.
    pub(crate) fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>, Error> {
        let table = self.checked(self.source.require(name)?, &[rows, columns])?;
        let mut out = vec![0.0; rows * columns];
        for (i, row) in out.chunks_exact_mut(columns).enumerate() {
            quant::decode_row(table.dtype(), table.row(i), row);
        }
        Ok(out)
    }

    /// Counts a tensor as used, if there is one of this name.
    pub(crate) fn ignore(&self, name: &str) -> Result<(), Error> {
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

    /// Returns the order of rows in a joint matrix of queries, keys and values.
    pub(crate) fn qkv_rows(&self) -> QkvRows {
        self.stored.qkv
    }

    /// Returns true if the gate's rows come last in a joint matrix of gate and up projection.
    pub(crate) fn gate_last(&self) -> bool {
        self.stored.gate_last
    }

    /// Packs a part of a layer's stored matrix `[rows, k]`.
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

    /// Packs a matrix `[rows, k]`.
    pub(crate) fn matrix(&self, name: &str, rows: usize, k: usize) -> Result<PackedWeights, Error> {
        self.packed(name, &[rows, k])
    }

    /// Packs a matrix, or a stack of them.
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

    /// Packs a part of each matrix of a stack `[count, rows, k]`.
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

    /// Packs each matrix of a stack `[count, rows, k]` by itself; some checkpoints store each as a tensor with its
    /// number in the name.
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

    /// Packs a matrix, or takes it from the cache. `place` is the tensor that it lies in and its first byte there;
    /// pages of the file are released after packing.
    fn pack(&self, view: &TensorView<'_>, place: Option<(&str, usize)>) -> Result<PackedWeights, Error> {
        let short = |e| Error::resources(&self.source.path().display().to_string(), e);
        if let Some(packed) = self.int8_rows(view).map_err(short)? {
            return Ok(packed);
        }
        if let Some(int8) = self.int8.as_ref().filter(|_| view.dtype().block_len() == 1) {
            let mut report = int8.borrow_mut();
            if let Some(bytes) = in_int8(self.cpu, view, &mut report) {
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
        self.report_progress(view);
        Ok(packed)
    }

    /// Packs a matrix of an encoder as INT8 rows, if 8-bit integers are asked for and lose little, or if the file
    /// stores it so.
    fn int8_rows(&self, view: &TensorView<'_>) -> Result<Option<PackedWeights>, leyden_kernels::Error> {
        let asked = self.int8.as_ref().filter(|_| view.dtype().block_len() == 1);
        let stored = || PackedWeights::has_row_scales(view);
        if !self.whole_texts || asked.is_none() && !stored() {
            return Ok(None);
        }
        let kept = self.packs.borrow_mut().take_rows(self.cpu, view)?;
        let packed = match kept {
            Some(packed) => packed,
            None => {
                let Some((packed, losses)) = PackedWeights::int8_rows(self.cpu, view)? else {
                    return Ok(None);
                };
                if asked.is_some() && !losses.are_small() {
                    return Ok(None);
                }
                self.packs.borrow_mut().lacks(view.name());
                packed
            }
        };
        if let Some(report) = asked {
            report.borrow_mut().matrices += 1;
        }
        self.report_progress(view);
        Ok(Some(packed))
    }

    /// Reports that a matrix is packed.
    fn report_progress(&self, view: &TensorView<'_>) {
        let mut progress = self.progress.borrow_mut();
        progress.0 += view.bytes().len() as u64;
        let (done, total, report) = &mut *progress;
        report((*done).min(*total), *total);
    }

    /// Returns the weights of a convolution `[taps, width]`, which files store as `[width, taps]`.
    pub(crate) fn taps(&self, name: &str, width: usize, taps: usize) -> Result<Vec<f32>, Error> {
        let found = self.source.require(name)?;
        let shape = [width, 1, taps];
        let flat = [width, taps];
        let view = self.checked(found, if found.shape().len() == 2 { &flat } else { &shape })?;
        let mut values = vec![0.0; width * taps];
        quant::decode_row(view.dtype(), view.bytes(), &mut values);
        Ok((0..taps).flat_map(|j| values.chunks_exact(taps).map(move |c| c[j])).collect())
    }

    /// Returns a vector, which some files store in this shape.
    pub(crate) fn flat_vector(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let found = self.source.require(name)?;
        let n = [shape.iter().product()];
        let view = self.checked(found, if found.shape().len() == 1 { &n } else { shape })?;
        let mut out = vec![0.0; n[0]];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    /// Packs a matrix that was computed from others.
    pub(crate) fn made(
        &self,
        name: &str,
        dtype: DType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<PackedWeights, Error> {
        self.pack(&TensorView::new(name, dtype, shape, bytes)?, None)
    }

    /// Packs a matrix `[1, k]`, which some files store as a vector.
    pub(crate) fn row(&self, name: &str, k: usize) -> Result<PackedWeights, Error> {
        let found = self.source.require(name)?;
        let shape = [1, k];
        let view = self.checked(found, if found.shape().len() == 1 { &shape[1..] } else { &shape })?;
        let view = TensorView::new(view.name(), view.dtype(), &shape, view.bytes())?;
        PackedWeights::pack(self.cpu, &view)
            .map_err(|e| Error::resources(&self.source.path().display().to_string(), e))
    }

    /// Returns all values of a tensor of this shape.
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

    /// Calls [`WeightSource::composed`], and notes the rounding error.
    fn composed(&self, name: &str, shape: &[usize]) -> Result<Option<OwnedTensor>, Error> {
        let run = |n: usize, task: &(dyn Fn(usize) + Sync)| self.cpu.pool().run(n, task);
        let found = self.source.composed(name, shape, &run)?;
        if let Some(tensor) = found.as_ref().filter(|tensor| tensor.loss > 0.0) {
            self.rounded.borrow_mut().push((tensor.dtype, tensor.loss));
        }
        Ok(found)
    }

    fn checked_parts<'t>(&self, tensor: &'t OwnedTensor, shape: &[usize]) -> Result<TensorView<'t>, Error> {
        self.used.borrow_mut().extend(tensor.parts.iter().cloned());
        self.checked(tensor.view()?, shape)
    }

    /// Returns a vector of `n` values, if there is one of this name.
    pub(crate) fn vector(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        self.source.optional(name)?.map(|view| self.decoded(view, n)).transpose()
    }

    /// Returns a vector of `n` values, or an error if there is none.
    pub(crate) fn required_vector(&self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        self.decoded(self.source.require(name)?, n)
    }

    fn decoded(&self, view: TensorView<'_>, n: usize) -> Result<Vec<f32>, Error> {
        let view = self.checked(view, &[n])?;
        let mut out = vec![0.0; n];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    /// Checks that every tensor was used: an unused one belongs to a computation that the architecture lacks.
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

/// Returns true if no result depends on a tensor of this name: rotary frequencies in old files, which follow from the
/// configuration, and MTP layers.
pub(crate) fn needless(name: &str, c: &ModelConfig) -> bool {
    let beyond = c.layers.len()..c.layers.len() + c.mtp_layers;
    // The first number in a name is the layer's.
    let number = name.split('.').find_map(|part| part.parse::<usize>().ok());
    name.ends_with("attn_rot_embd")
        || name.ends_with("rotary_emb.inv_freq")
        || number.is_some_and(|i| beyond.contains(&i))
}

/// Returns the bytes of a matrix transposed; its type must store each value by itself.
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
