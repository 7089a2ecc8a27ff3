//! [`Split`]: the metadata of a GGUF file that is one part of several.
//!
//! The parts are named `NAME-00001-of-00003.gguf` and so on. Each has its number, counted from 0, the
//! number of parts and the number of tensors in all of them; only the first has the other metadata.

use std::path::{Path, PathBuf};

use super::metadata::Metadata;
use crate::error::{Error, ErrorKind};

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";
/// Maximum number of parts in the format.
const MAX_PARTS: u32 = 0xffff;

/// The metadata of one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Number of this part, from 0.
    pub(super) no: u32,
    /// Number of parts: at least 2.
    pub(super) count: u32,
    /// Number of tensors in all parts together.
    tensors: u32,
}

impl Split {
    /// Reads the keys of a part; `None` for a file that is whole. A file that was merged from
    /// parts still has the keys, with a count of 0.
    pub(super) fn of(metadata: &Metadata) -> Result<Option<Split>, Error> {
        let count = metadata.opt_u32(COUNT)?.unwrap_or(0);
        if count < 2 {
            return Ok(None);
        }
        let (no, tensors) = (metadata.u32(NO)?, metadata.u32(TENSORS)?);
        let most = u64::from(MAX_PARTS);
        let too_many = |key, what, n, most| {
            let kind = ErrorKind::TooMany { what, count: u64::from(n), most };
            Err(Error::new(kind).item(key).file(&metadata.file().into()))
        };
        if count > MAX_PARTS {
            return too_many(COUNT, "number of parts", count, most);
        }
        if no >= count {
            return too_many(
                NO,
                "number of the part, counted from 0,",
                no,
                u64::from(count).saturating_sub(1),
            );
        }
        Ok(Some(Split { no, count, tensors }))
    }

    /// Returns the suffix of this part's file name.
    fn suffix(&self) -> String {
        format!("-{:05}-of-{:05}.gguf", self.no.saturating_add(1), self.count)
    }

    /// Returns the paths of all parts, from the path of this one.
    pub(super) fn paths(&self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(prefix) = name.and_then(|name| name.strip_suffix(&self.suffix())) else {
            return Err(self.alone());
        };
        let part = |no| path.with_file_name(format!("{prefix}{}", Split { no, ..*self }.suffix()));
        Ok((0..self.count).map(part).collect())
    }

    /// Returns the paths of all parts of a model, from the name of one part; empty for other names.
    pub(super) fn paths_of_name(path: &Path) -> Vec<PathBuf> {
        let of_name = || {
            let (rest, count) = path.file_name()?.to_str()?.strip_suffix(".gguf")?.rsplit_once("-of-")?;
            let (_, no) = rest.rsplit_once('-')?;
            let count: u32 = count.parse().ok().filter(|count| *count <= MAX_PARTS)?;
            let no = no.parse::<u32>().ok()?.checked_sub(1).filter(|no| *no < count)?;
            Split { no, count, tensors: 0 }.paths(path).ok()
        };
        of_name().unwrap_or_default()
    }

    /// Returns the error of a part whose name does not have the suffix of a part.
    pub(super) fn alone(&self) -> Error {
        let no = self.no.saturating_add(1);
        Error::new(ErrorKind::PartName { no, count: self.count, suffix: self.suffix() }).item(NO)
    }

    /// Checks the metadata of part `no` of the same model.
    pub(super) fn check(&self, no: u32, part: &Metadata) -> Result<(), Error> {
        for (key, wanted) in [(COUNT, self.count), (NO, no), (TENSORS, self.tensors)] {
            let found = part.u32(key)?;
            if found != wanted {
                let kind = ErrorKind::Differs { wanted: u64::from(wanted), found: u64::from(found) };
                return Err(Error::new(kind).item(key).file(&part.file().into()));
            }
        }
        Ok(())
    }

    /// Checks the number of tensors found in all parts.
    pub(super) fn check_tensors(&self, found: usize) -> Result<(), Error> {
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        if found != u64::from(self.tensors) {
            let kind = ErrorKind::Differs { wanted: found, found: u64::from(self.tensors) };
            return Err(Error::new(kind).item(TENSORS));
        }
        Ok(())
    }
}
