//! [`PackCache`]: files of packed weights (packs), with which a later start is faster, and which processes can share in
//! memory.
//!
//! A pack is a GGUF file with one vector of bytes for each matrix. Its metadata records its origin as texts: device,
//! inode, size and times of change of the model's files, type and shape of every matrix, and checksums of its bytes. A
//! reader computes the same texts from the model; a pack with other texts is stale, one with other checksums is
//! damaged, and both are written again. Packs are optional: any fault of a pack or its folder is reported once, and the
//! weights are packed from the model's file.

use crate::int8::Int8Report;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{CHECKED_BYTES, LAYOUT, PackedFile, PackedWeights};
use leyden_tensor::{Array, Escaped, Gguf, GgufWriter, TensorView, Value, WeightSource};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cache of packed weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PackCache {
    /// No cache: weights are packed at each start.
    #[default]
    Off,
    /// Packs in a folder.
    Folder {
        /// Path of the folder; it is created with the first pack.
        path: PathBuf,
        /// Choice of the packs that are written.
        make: Make,
        /// True to compute with the weights in the mapped file, whose memory all processes share, instead of a copy on
        /// huge pages, which is read faster.
        map: bool,
    },
}

/// Choice of the packs that are written. A damaged or stale pack is always replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// No pack for a model without one.
    Existing,
    /// A pack for every model that is loaded without one.
    Missing,
}

/// Report of loading about packed weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackReport {
    /// Path of the pack that weights were read from.
    pub read: Option<PathBuf>,
    /// Path of the pack that was written.
    pub made: Option<PathBuf>,
    /// True if the weights are used in the mapped file.
    pub mapped: bool,
    /// Report about the quantisation of matrices to 8-bit integers.
    pub int8: Int8Report,
    /// Messages about faults that loading worked around.
    pub notes: Vec<String>,
}

const ARCHITECTURE: &str = "leyden.pack";
const LAYOUT_KEY: &str = "leyden.pack.layout";
const FILES_KEY: &str = "leyden.pack.files";
const NAMES_KEY: &str = "leyden.pack.names";
const SHAPES_KEY: &str = "leyden.pack.shapes";
const CHECKSUMS_KEY: &str = "leyden.pack.checksums";
/// Alignment of matrices in bytes: a page.
const ALIGNMENT: u32 = 4096;

impl PackCache {
    /// Returns the paths of the packs for the model at `model`, a file or folder: as it is stored, and with floats in 8-bit
    /// integers. `None` if the cache is off or there is no such model.
    #[must_use]
    pub fn files_of(&self, model: &Path) -> Option<[PathBuf; 2]> {
        let PackCache::Folder { path, .. } = self else { return None };
        let whole = fs::canonicalize(model).ok()?;
        let stem = whole.file_name()?.to_string_lossy();
        let stem = stem.strip_suffix(".gguf").unwrap_or(&stem);
        let hash = fnv1a(whole.as_os_str().as_encoded_bytes());
        Some(["", "-int8"].map(|form| path.join(format!("{stem}-{hash:016x}{form}.pack"))))
    }
}

/// Computes the 64-bit FNV-1a hash of a path. Two models whose packs collide only replace each other's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// Describes the current state of the model's files. Writing to a file changes its `ctime`, which programs cannot set.
fn identity(source: &dyn WeightSource) -> std::io::Result<Vec<String>> {
    let line = |m: &fs::Metadata| {
        format!(
            "device {} inode {} size {} modified {}.{:09} changed {}.{:09}",
            m.dev(),
            m.ino(),
            m.size(),
            m.mtime(),
            m.mtime_nsec(),
            m.ctime(),
            m.ctime_nsec()
        )
    };
    Ok(source.file_metadata()?.iter().map(line).collect())
}

fn shape_of(tensor: &TensorView<'_>) -> String {
    format!("{} {} {}", tensor.dtype(), tensor.rows(), tensor.cols())
}

/// Open pack of the model.
struct Pack {
    file: Arc<Gguf>,
    path: PathBuf,
    /// Type with shape, or the form of INT8 rows, and checksums of each matrix by name.
    matrices: HashMap<String, (String, String)>,
}

impl Pack {
    /// Opens the pack; the error is a message for the user.
    fn open(path: &Path, identity: &[String]) -> Result<Pack, String> {
        let file = Gguf::open(path).map_err(|e| e.to_string())?;
        let damaged = |what: &str| format!("{}: {what}", path.display());
        let layout = file.metadata().opt_u32(LAYOUT_KEY).map_err(|e| e.to_string())?;
        if layout != Some(LAYOUT) {
            return Err(damaged("made by another version of leyden"));
        }
        let texts = |key: &str| -> Result<Vec<String>, String> {
            let found = file.metadata().opt_array_str(key).map_err(|e| e.to_string())?;
            let found = found.ok_or_else(|| damaged(&format!("{key} is missing")))?;
            Ok(found.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect())
        };
        if texts(FILES_KEY)? != identity {
            return Err(damaged("made from another state of the model's files"));
        }
        let (names, shapes, checksums) = (texts(NAMES_KEY)?, texts(SHAPES_KEY)?, texts(CHECKSUMS_KEY)?);
        if names.len() != shapes.len() || names.len() != checksums.len() {
            return Err(damaged("its lists differ in length"));
        }
        let matrices = names.into_iter().zip(shapes.into_iter().zip(checksums)).collect();
        Ok(Pack { file: Arc::new(file), path: path.to_owned(), matrices })
    }

    /// Returns true if it has INT8 rows of this name.
    fn has_rows(&self, name: &str) -> bool {
        self.matrices.get(name).is_some_and(|(form, _)| PackedWeights::is_rows_form(form))
    }

    /// Returns the packed weights of a tensor; INT8 rows if the pack has these.
    fn matrix(&self, cpu: &Cpu, tensor: &TensorView<'_>, map: bool) -> Result<PackedWeights, Fault> {
        let damaged = |what: &str| {
            Fault::Damaged(format!("{}: {}: {what}", self.path.display(), Escaped(tensor.name())))
        };
        let (form, checksums) = self.matrices.get(tensor.name()).ok_or_else(|| damaged("missing"))?;
        let rows = self.has_rows(tensor.name());
        if !rows && *form != shape_of(tensor) {
            return Err(damaged("of another type or shape"));
        }
        let bytes = self.file.file_bytes(tensor.name()).ok_or_else(|| damaged("missing"))?;
        let checksums: Option<Vec<u64>> =
            checksums.split_ascii_whitespace().map(|n| u64::from_str_radix(n, 16).ok()).collect();
        let kept =
            PackedFile { bytes, checksums: checksums.ok_or_else(|| damaged("checksums are not numbers"))? };
        if rows {
            let shape = (tensor.name(), [tensor.rows(), tensor.cols()]);
            return PackedWeights::rows_from_kept(cpu, shape, form, &kept, map)
                .map_err(Fault::Resources)?
                .ok_or_else(|| damaged("not made for this model and processor, or damaged"));
        }
        PackedWeights::from_kept(cpu, tensor, &kept, map)
            .map_err(Fault::Resources)?
            .ok_or_else(|| damaged("the checksums do not fit"))
    }
}

/// Reason why a matrix cannot be read from a pack.
enum Fault {
    /// Damage of the pack; a message for the user.
    Damaged(String),
    /// Shortage of memory.
    Resources(leyden_kernels::Error),
}

/// State of the cache while a model is loaded.
pub(crate) struct Packs<'a> {
    cache: &'a PackCache,
    path: Option<PathBuf>,
    identity: Vec<String>,
    pack: Option<Pack>,
    /// File whose mapped matrices are used.
    mapped: Option<Arc<Gguf>>,
    /// True if a pack is to be written after loading.
    make: bool,
    report: PackReport,
}

impl<'a> Packs<'a> {
    /// Opens the pack of a model, if there is one: with `as_int8` that with floats in 8-bit integers.
    pub(crate) fn new(cache: &'a PackCache, as_int8: bool, source: &dyn WeightSource) -> Packs<'a> {
        let (path, identity) = match (cache.files_of(source.path()), identity(source)) {
            (Some([stored, int8]), Ok(identity)) => (Some(if as_int8 { int8 } else { stored }), identity),
            _ => (None, Vec::new()),
        };
        let report = PackReport::default();
        let mut packs = Packs { cache, path, identity, pack: None, mapped: None, make: false, report };
        let (PackCache::Folder { make, .. }, Some(path)) = (cache, &packs.path) else { return packs };
        if !path.exists() {
            packs.make = *make == Make::Missing;
            return packs;
        }
        match Pack::open(path, &packs.identity) {
            Ok(pack) => packs.pack = Some(pack),
            Err(why) => packs.discard(&why),
        }
        packs
    }

    /// Makes the pack again without reading it; the report begins with these notes.
    pub(crate) fn make_again(&mut self, notes: Vec<String>) {
        (self.pack, self.make, self.report.notes) = (None, true, notes);
    }

    /// Returns the notes about faults.
    pub(crate) fn into_notes(self) -> Vec<String> {
        self.report.notes
    }

    /// Discards a faulty pack with a note, and has it written again.
    fn discard(&mut self, why: &str) {
        self.report.notes.push(format!("{why}; the weights are packed again"));
        (self.pack, self.make) = (None, true);
    }

    /// Returns the packed weights of a tensor, if a pack has them.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn take(
        &mut self,
        cpu: &Cpu,
        tensor: &TensorView<'_>,
    ) -> Result<Option<PackedWeights>, leyden_kernels::Error> {
        let Some(pack) = &self.pack else { return Ok(None) };
        let map = matches!(self.cache, PackCache::Folder { map: true, .. });
        match pack.matrix(cpu, tensor, map) {
            Ok(matrix) => {
                self.mapped = map.then(|| Arc::clone(&pack.file));
                Ok(Some(matrix))
            }
            Err(Fault::Resources(e)) => Err(e),
            Err(Fault::Damaged(why)) => {
                self.discard(&why);
                Ok(None)
            }
        }
    }

    /// Returns a matrix of INT8 rows, if a pack has it.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn take_rows(
        &mut self,
        cpu: &Cpu,
        tensor: &TensorView<'_>,
    ) -> Result<Option<PackedWeights>, leyden_kernels::Error> {
        match self.pack.as_ref().is_some_and(|pack| pack.has_rows(tensor.name())) {
            true => self.take(cpu, tensor),
            false => Ok(None),
        }
    }

    /// Discards the pack, if there is one, because it lacks a matrix.
    pub(crate) fn lacks(&mut self, name: &str) {
        if let Some(pack) = &self.pack {
            let why = format!("{}: {}: missing", pack.path.display(), Escaped(name));
            self.discard(&why);
        }
    }

    /// Writes the pack if it is missing. Returns the report, and the file whose mapped matrices are used.
    pub(crate) fn finish(
        mut self,
        cpu: &Cpu,
        source: &dyn WeightSource,
        matrices: &[&PackedWeights],
    ) -> (PackReport, Option<Arc<Gguf>>) {
        if let (true, Some(path)) = (self.make, &self.path) {
            match self.write(path, cpu, matrices) {
                // Weights that were read while the model's file changed belong to neither state.
                Ok(()) if identity(source).is_ok_and(|now| now == self.identity) => {
                    self.report.made = Some(path.clone());
                }
                Ok(()) => drop(fs::remove_file(path)),
                Err(why) => self.report.notes.push(format!("{why}; the packed weights are not kept")),
            }
        }
        self.report.read = self.pack.map(|pack| pack.path);
        self.report.mapped = self.report.read.is_some() && self.mapped.is_some();
        (self.report, self.mapped)
    }

    /// Writes the pack; the error is a message for the user.
    fn write(&self, path: &Path, cpu: &Cpu, matrices: &[&PackedWeights]) -> Result<(), String> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|e| format!("{}: cannot be created: {e}", folder.display()))?;
        let shape = |m: &&PackedWeights| {
            m.rows_form().unwrap_or_else(|| format!("{} {} {}", m.dtype(), m.count() * m.rows(), m.k()))
        };
        let checksums = |m: &&PackedWeights| {
            let sums: Vec<String> = m.checksums(cpu).iter().map(|sum| format!("{sum:x}")).collect();
            sums.join(" ")
        };
        let mut writer = GgufWriter::new();
        writer
            .set("general.architecture", ARCHITECTURE.into())
            .set("general.alignment", Value::U32(ALIGNMENT))
            .set(LAYOUT_KEY, Value::U32(LAYOUT))
            .set("leyden.pack.checked_bytes", Value::U64(CHECKED_BYTES as u64))
            .set(FILES_KEY, Value::Array(Array::from_strs(&self.identity)))
            .set(NAMES_KEY, Value::Array(Array::from_strs(matrices.iter().map(|m| m.name()))))
            .set(SHAPES_KEY, Value::Array(Array::from_strs(matrices.iter().map(shape))))
            .set(CHECKSUMS_KEY, Value::Array(Array::from_strs(matrices.iter().map(checksums))));
        for matrix in matrices {
            writer.add_bytes(matrix.name(), matrix.as_bytes()).map_err(|e| e.to_string())?;
        }
        writer.write_to_file(path).map_err(|e| e.to_string())
    }
}
