//! [`Tensors`]: named tensors and the files that contain their bytes.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::TensorInfo;
use super::limits::MAX_TENSORS;
use super::metadata::{Metadata, sorted_index};
use super::mmap::Mapping;
use super::source::{FileBytes, Source};
use crate::error::{Error, ErrorKind};
use crate::view::TensorView;

/// The content of one file, tensors in the order of their data.
pub(super) struct Parsed {
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorInfo>,
}

/// The tensors of a model, with the files that contain their bytes.
#[derive(Debug)]
pub(super) struct Tensors {
    files: Vec<Arc<Source>>,
    infos: Vec<TensorInfo>,
    /// Indices into `infos`, by name.
    sorted: Vec<u32>,
}

impl Tensors {
    /// Combines files and their tensors, whose sizes were checked, in the files' order.
    ///
    /// # Errors
    /// A name appears twice, or there are too many tensors.
    pub(super) fn new(parts: Vec<(Arc<Source>, Vec<TensorInfo>)>) -> Result<Tensors, Error> {
        let (mut files, mut infos) = (Vec::new(), Vec::new());
        for (source, mut part) in parts {
            part.iter_mut().for_each(|info| info.file = files.len());
            if files.is_empty() {
                infos = part;
            } else {
                infos.append(&mut part);
            }
            files.push(source);
        }
        let count = u64::try_from(infos.len()).unwrap_or(u64::MAX);
        if count > MAX_TENSORS {
            let kind = ErrorKind::TooMany { what: "number of tensors", count, most: MAX_TENSORS };
            return Err(Error::new(kind).item("header"));
        }
        let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        let sorted = sorted_index(&names)
            .map_err(|twice| Error::new(ErrorKind::Duplicate { what: "tensor" }).item(twice))?;
        Ok(Tensors { files, infos, sorted })
    }

    pub(super) fn infos(&self) -> &[TensorInfo] {
        &self.infos
    }

    pub(super) fn paths(&self) -> Vec<&Path> {
        self.files.iter().map(|file| file.path.as_path()).collect()
    }

    pub(super) fn file_metadata(&self) -> io::Result<Vec<fs::Metadata>> {
        self.files.iter().map(|file| file.file_metadata()).collect()
    }

    fn find(&self, name: &str) -> Option<(&TensorInfo, &Arc<Source>)> {
        let info = |i: &u32| usize::try_from(*i).ok().and_then(|i| self.infos.get(i));
        let at = self.sorted.binary_search_by(|i| info(i).map_or("", |t| t.name.as_str()).cmp(name)).ok()?;
        let info = self.sorted.get(at).and_then(info)?;
        Some((info, self.files.get(info.file)?))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the description and the bytes of a tensor as a value that keeps its file open.
    pub(super) fn shared(&self, name: &str) -> Option<(&TensorInfo, FileBytes)> {
        let (info, source) = self.find(name)?;
        Some((info, FileBytes::new(Arc::clone(source), info.range())))
    }

    pub(super) fn optional(&self, name: &str) -> Result<Option<TensorView<'_>>, Error> {
        let Some((info, source)) = self.find(name) else { return Ok(None) };
        info.supported()
            .map_err(|unknown| Error::new(ErrorKind::UnsupportedType(unknown)).item(&info.name))
            .and_then(|dtype| TensorView::new(&info.name, dtype, &info.shape, source.slice(&info.range())))
            .map_err(|e| e.file(&source.label))
            .map(Some)
    }

    /// Returns the description and the bytes of a tensor of any type.
    pub(super) fn raw(&self, name: &str) -> Option<(&TensorInfo, &[u8])> {
        let (info, source) = self.find(name)?;
        Some((info, source.slice(&info.range())))
    }

    /// Returns the bytes of a tensor of any type.
    pub(super) fn file_bytes(&self, name: &str) -> Option<FileBytes> {
        let (info, source) = self.find(name)?;
        Some(FileBytes::new(Arc::clone(source), info.range()))
    }

    /// Returns an error for the first file of which a page could not be read.
    pub(super) fn check_intact(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|file| file.check_intact())
    }

    pub(super) fn advise_willneed(&self, name: &str) {
        if let Some((info, mapping)) = self.mapped(name) {
            mapping.advise_willneed(&info.range());
        }
    }

    pub(super) fn advise_dontneed(&self, name: &str, bytes: Range<usize>) {
        if let Some((info, mapping)) = self.mapped(name) {
            let all = info.range();
            let at = |n: usize| all.start.saturating_add(n).min(all.end);
            mapping.advise_dontneed(&(at(bytes.start)..at(bytes.end)));
        }
    }

    fn mapped(&self, name: &str) -> Option<(&TensorInfo, &Mapping)> {
        let (info, source) = self.find(name)?;
        Some((info, source.mapping()?))
    }
}

/// Returns an error for the first tensor, by offset in the file, that begins before another ends.
pub(super) fn check_overlap(tensors: &[TensorInfo]) -> Result<(), Error> {
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|tensor| tensor.offset);
    for pair in by_offset.windows(2) {
        if let [a, b] = pair
            && a.range().end > b.offset
        {
            return Err(Error::new(ErrorKind::Overlap { with: a.name.as_str().into() }).item(&b.name));
        }
    }
    Ok(())
}
