//! [`Onnx`]: the reader of ONNX models.
//!
//! A model is one protocol buffers message: a graph of nodes whose inputs and outputs have names, and initialisers,
//! the tensors among these names. Large models keep the bytes of initialisers in separate files (`model.onnx_data`).
//! The file is mapped and initialisers stay in it; nodes are copied, within limits. The semantics of operators are
//! not part of the reader.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::guess::{UNKNOWN, guess};
use super::metadata::Metadata;
use super::source::{Bytes, FileBytes, Source};
use super::tensors::Tensors;
use super::value::Value;
use super::{MAX_KEYS, TensorInfo, WeightSource};
use crate::error::{Error, ErrorKind};
use crate::view::TensorView;

mod graph;
mod model;
mod tensor;
mod wire;

pub use model::{OnnxAttribute, OnnxDim, OnnxFunction, OnnxGraph, OnnxNode, OnnxTensor, OnnxValue};

use graph::{Parsed, Reader};
use tensor::{Files, Place};
use wire::{Slice, broken, opset, pair};

/// An ONNX model: its graph, and its initialisers as tensors.
///
/// ```
/// use leyden_tensor::Onnx;
/// let error = Onnx::from_vec(b"GGUF\x03\0\0\0".to_vec(), "model.onnx").unwrap_err();
/// assert_eq!(error.to_string(), "model.onnx: not an ONNX model: it looks like a GGUF file");
/// ```
#[derive(Debug)]
pub struct Onnx {
    place: Arc<Source>,
    metadata: Metadata,
    tensors: Tensors,
    graph: OnnxGraph,
    functions: Vec<OnnxFunction>,
    opsets: Vec<(String, i64)>,
}

impl Onnx {
    /// Maps a model and reads everything but the values of its tensors. External data files must be in the same
    /// folder.
    ///
    /// # Errors
    /// The file or one of external data cannot be read or is not valid, or the graph has a cycle or lacks a value.
    /// The error names the file, and the node or tensor.
    pub fn open(path: &Path) -> Result<Onnx, Error> {
        Onnx::from_source(&Source::open(path)?)
    }

    /// Reads a model that is in memory; `label` takes the place of its path.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open), or its tensors are in other files.
    pub fn from_vec(bytes: Vec<u8>, label: &str) -> Result<Onnx, Error> {
        Onnx::from_source(&Source::new(Bytes::Owned(bytes), label.into()))
    }

    fn from_source(source: &Arc<Source>) -> Result<Onnx, Error> {
        source.read_checked(parse)
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &OnnxGraph {
        &self.graph
    }

    /// Returns the version of the operator set of a domain that the model needs; ONNX's own has an empty name.
    #[must_use]
    pub fn opset(&self, domain: &str) -> Option<i64> {
        self.opsets.iter().find(|(found, _)| found == domain).map(|(_, version)| *version)
    }

    /// Returns the versions of all operator sets that the model needs, by domain.
    #[must_use]
    pub fn opsets(&self) -> &[(String, i64)] {
        &self.opsets
    }

    /// Returns the functions of the model.
    #[must_use]
    pub fn functions(&self) -> &[OnnxFunction] {
        &self.functions
    }

    /// Returns the description and the bytes of an initialiser as a value that keeps the file open.
    #[must_use]
    pub fn shared(&self, name: &str) -> Option<(&TensorInfo, FileBytes)> {
        self.tensors.shared(name)
    }

    /// Returns the description and the bytes of an initialiser of any type.
    pub fn raw(&self, name: &str) -> Option<(&TensorInfo, &[u8])> {
        self.tensors.raw(name)
    }
}

impl WeightSource for Onnx {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn path(&self) -> &Path {
        &self.place.path
    }

    fn paths(&self) -> Vec<&Path> {
        self.tensors.paths()
    }

    fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>> {
        self.tensors.file_metadata()
    }

    fn tensor_info(&self) -> &[TensorInfo] {
        self.tensors.infos()
    }

    fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, Error> {
        self.tensors.optional(name)
    }

    fn require(&self, name: &str) -> Result<TensorView<'_>, Error> {
        self.optional(name)?
            .ok_or_else(|| Error::new(ErrorKind::MissingTensor).item(name).file(&self.place.label))
    }

    fn check_intact(&self) -> Result<(), Error> {
        self.tensors.check_intact()
    }

    fn advise_willneed(&self, name: &str) {
        self.tensors.advise_willneed(name);
    }

    fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        self.tensors.advise_dontneed(name, bytes);
    }
}

fn parse(source: &Arc<Source>) -> Result<Onnx, Error> {
    let bytes = source.bytes();
    if let Some(looks_like) = guess(bytes).filter(|found| !bytes.is_empty() && *found != super::guess::ONNX) {
        return Err(broken(format!("not an ONNX model: it looks like {looks_like}")).into());
    }
    let mut files = Files::new(source);
    let (mut parsed, mut functions) = (None, Vec::new());
    let (mut entries, mut opsets, mut keys) = (Vec::new(), Vec::new(), 0_u64);
    let mut message = Slice::new(bytes);
    while let Some((number, field)) = message.next()? {
        match number {
            1 => entries.push(("ir_version".to_owned(), Value::I64(field.int("ir_version")?))),
            2 => entries.push(("producer_name".to_owned(), Value::String(field.text("producer_name")?))),
            3 => {
                entries.push(("producer_version".to_owned(), Value::String(field.text("producer_version")?)))
            }
            7 if parsed.is_none() => parsed = Some(Reader::new(&mut files).graph(field.bytes("graph")?)?),
            25 => functions.push(Reader::new(&mut files).function(field.bytes("functions")?)?),
            7 => return Err(broken("there are two graphs").into()),
            8 => opsets.push(opset(field.bytes("opset_import")?)?),
            14 => {
                let (key, value) = pair(field.bytes("metadata_props")?)?;
                entries.push((format!("metadata.{key}"), Value::String(value)));
            }
            _ => continue,
        }
        keys = keys.saturating_add(1);
        if keys > MAX_KEYS {
            return Err(ErrorKind::TooMany { what: "number of keys", count: keys, most: MAX_KEYS }.into());
        }
    }
    let Some(Parsed { graph, tensors: found }) = parsed else {
        let looks_like = if bytes.is_empty() { "an empty file" } else { UNKNOWN };
        return Err(
            broken(format!("not an ONNX model: there is no graph, it looks like {looks_like}")).into()
        );
    };
    let metadata = Metadata::from_entries(Arc::clone(&source.label), entries)?;
    let tensors = join(source, files, found)?;
    Ok(Onnx { place: Arc::clone(source), metadata, tensors, graph, functions, opsets })
}

/// Groups the tensors by their files: the model's own, those of external data, and values that were decoded.
fn join(source: &Arc<Source>, files: Files<'_>, found: Vec<(TensorInfo, Place)>) -> Result<Tensors, Error> {
    let external = files.external.into_iter().map(|(_, source)| source);
    let mut parts: Vec<(Arc<Source>, Vec<TensorInfo>)> =
        std::iter::once(Arc::clone(source)).chain(external).map(|source| (source, Vec::new())).collect();
    let (mut own, mut bytes) = (Vec::new(), Vec::new());
    for (mut info, place) in found {
        match place {
            Place::File(file, _) => {
                parts.get_mut(file).into_iter().for_each(|part| part.1.push(info.clone()))
            }
            Place::Own(values) => {
                info.offset = bytes.len();
                bytes.extend(values);
                own.push(info);
            }
        }
    }
    if !own.is_empty() {
        let derived = Source::new(Bytes::Derived(bytes, Arc::clone(source)), source.path.clone());
        parts.push((derived, own));
    }
    Tensors::new(parts)
}
