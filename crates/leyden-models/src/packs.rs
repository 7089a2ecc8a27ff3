//! [`PackCache`]: packed weights kept in files, so that a later start need not pack again, and may share one copy
//! with other processes.
//!
//! A pack is a GGUF file with one vector of bytes for each matrix and, as texts, what it was made of: the model's
//! files with device, inode, size and times of change, every matrix's type and shape, and the checksums of its bytes.
//! A reader computes the same texts from the model at hand; a pack whose texts differ is stale, one whose checksums
//! differ is damaged, and both are made anew. A pack is never needed: whatever is wrong with it or its folder is
//! said once, and the weights are packed from the model's file.

use crate::int8::Int8Report;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::{CHECKED_BYTES, LAYOUT, PackedFile, PackedWeights};
use leyden_tensor::{Array, Escaped, Gguf, GgufWriter, TensorView, Value, WeightSource};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where packed weights are kept, and what for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PackCache {
    /// Nowhere: weights are packed at each start.
    #[default]
    Off,
    /// In a folder.
    Folder {
        /// The folder; it is made when the first pack is.
        path: PathBuf,
        /// Which packs are made.
        make: Make,
        /// Computes with the weights as they lie in the mapped file, in memory that all processes share, rather than
        /// with a copy on huge pages, which is read faster.
        map: bool,
    },
}

/// Which packs are made. One that is damaged or stale is always made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// None for a model that has none.
    Existing,
    /// One for every model that is loaded.
    Missing,
}

/// What the cache did for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackReport {
    /// The pack that the weights came from.
    pub read: Option<PathBuf>,
    /// The pack that was made.
    pub made: Option<PathBuf>,
    /// Whether the weights are used as they lie in the file.
    pub mapped: bool,
    /// What became of matrices that were to be integers.
    pub int8: Int8Report,
    /// What went wrong and was done without, for people.
    pub notes: Vec<String>,
}

const ARCHITECTURE: &str = "leyden.pack";
const LAYOUT_KEY: &str = "leyden.pack.layout";
const FILES_KEY: &str = "leyden.pack.files";
const NAMES_KEY: &str = "leyden.pack.names";
const SHAPES_KEY: &str = "leyden.pack.shapes";
const CHECKSUMS_KEY: &str = "leyden.pack.checksums";
/// Matrices begin on pages.
const ALIGNMENT: u32 = 4096;

impl PackCache {
    /// The file in which the packed weights of the model in a file or folder are kept; `None` if they are not, or
    /// there is no such file.
    #[must_use]
    pub fn file_of(&self, model: &Path) -> Option<PathBuf> {
        let PackCache::Folder { path, .. } = self else { return None };
        let whole = fs::canonicalize(model).ok()?;
        let stem = whole.file_name()?.to_string_lossy();
        let stem = stem.strip_suffix(".gguf").unwrap_or(&stem);
        Some(path.join(format!("{stem}-{:016x}.pack", fnv1a(whole.as_os_str().as_encoded_bytes()))))
    }
}

/// FNV-1a, 64 bits: tells paths apart. Two models that share a name only replace each other's packs.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The model's files as they are now. A file that was written to has another time of change, which no program sets.
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

/// A pack that is open and belongs to the model.
struct Pack {
    file: Arc<Gguf>,
    path: PathBuf,
    /// By the tensor's name: type and shape, and the checksums.
    matrices: HashMap<String, (String, String)>,
}

impl Pack {
    /// Opens the pack; the error is what to tell people.
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

    /// The packed weights of a tensor, or what to tell people.
    fn matrix(&self, cpu: &Cpu, tensor: &TensorView<'_>, map: bool) -> Result<PackedWeights, Fault> {
        let damaged = |what: &str| {
            Fault::Damaged(format!("{}: {}: {what}", self.path.display(), Escaped(tensor.name())))
        };
        let (shape, checksums) = self.matrices.get(tensor.name()).ok_or_else(|| damaged("missing"))?;
        if *shape != shape_of(tensor) {
            return Err(damaged("of another type or shape"));
        }
        let bytes = self.file.file_bytes(tensor.name()).ok_or_else(|| damaged("missing"))?;
        let checksums: Option<Vec<u64>> =
            checksums.split_ascii_whitespace().map(|n| u64::from_str_radix(n, 16).ok()).collect();
        let kept =
            PackedFile { bytes, checksums: checksums.ok_or_else(|| damaged("checksums are not numbers"))? };
        PackedWeights::from_kept(cpu, tensor, &kept, map)
            .map_err(Fault::Resources)?
            .ok_or_else(|| damaged("the checksums do not fit"))
    }
}

/// Why a matrix did not come out of a pack.
enum Fault {
    Damaged(String),
    Resources(leyden_kernels::Error),
}

/// The cache while a model is being loaded.
pub(crate) struct Packs<'a> {
    cache: &'a PackCache,
    path: Option<PathBuf>,
    identity: Vec<String>,
    pack: Option<Pack>,
    /// The file that matrices are used from where they lie.
    mapped: Option<Arc<Gguf>>,
    /// Whether a pack is to be made of what was loaded.
    make: bool,
    report: PackReport,
}

impl<'a> Packs<'a> {
    pub(crate) fn new(cache: &'a PackCache, source: &dyn WeightSource) -> Packs<'a> {
        let (path, identity) = match (cache.file_of(source.path()), identity(source)) {
            (Some(path), Ok(identity)) => (Some(path), identity),
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

    /// Says why the pack is of no use. It will be made anew.
    fn discard(&mut self, why: &str) {
        self.report.notes.push(format!("{why}; the weights are packed again"));
        (self.pack, self.make) = (None, true);
    }

    /// The packed weights of a tensor, if there is a pack and it has them.
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

    /// Makes the pack that is missing. Gives the file that weights are used from where they lie, if any.
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

    /// Writes the pack; the error is what to tell people.
    fn write(&self, path: &Path, cpu: &Cpu, matrices: &[&PackedWeights]) -> Result<(), String> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(|e| format!("{}: cannot be created: {e}", folder.display()))?;
        // INT8 rows are quantised and packed in one.
        let matrices: Vec<_> = matrices.iter().filter(|m| !m.is_int8_rows()).copied().collect();
        let shape = |m: &&PackedWeights| format!("{} {} {}", m.dtype(), m.count() * m.rows(), m.k());
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
        for matrix in &matrices {
            writer.add_bytes(matrix.name(), matrix.as_bytes()).map_err(|e| e.to_string())?;
        }
        writer.write_to_file(path).map_err(|e| e.to_string())
    }
}
