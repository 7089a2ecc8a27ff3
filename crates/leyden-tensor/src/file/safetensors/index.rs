//! [`Index`]: the map from tensors to files of a sharded model.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::super::bounded::read_bounded;
use super::super::json::json_error;
use super::super::metadata::sorted_index;
use super::{MAX_TENSORS, TensorInfo};
use crate::error::{Error, ErrorKind};

/// Maximum size of an index in bytes: [`MAX_TENSORS`] entries of 256 bytes.
const MAX_BYTES: u64 = 32 << 20;
const WEIGHT_MAP: &str = "weight_map";

/// The index of a sharded model.
pub(super) struct Index {
    label: Arc<str>,
    /// The names of the files, sorted.
    files: Vec<Box<str>>,
    tensors: Vec<(String, usize)>,
    /// Indices into `tensors`, by name.
    sorted: Vec<u32>,
    /// Number of tensors in each file.
    counts: Vec<usize>,
}

impl Index {
    pub(super) fn open(path: &Path) -> Result<Index, Error> {
        let label: Arc<str> = path.display().to_string().into();
        let bytes = read_bounded(path, MAX_BYTES).map_err(|kind| Error::new(kind).file(&label))?;
        Index::parse(&bytes, Arc::clone(&label)).map_err(|e| e.file(&label))
    }

    fn parse(bytes: &[u8], label: Arc<str>) -> Result<Index, Error> {
        let mut parser = serde_json::Deserializer::from_slice(bytes);
        let map = Seed.deserialize(&mut parser).and_then(|map| parser.end().map(|()| map));
        let Map { names, tensors } = map.map_err(|e| Error::new(json_error(&e)))?;
        for name in &names {
            check_file_name(name).map_err(|kind| Error::new(kind).item(WEIGHT_MAP))?;
        }
        // Files are numbered in the order in which they appear; sort them by name.
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by_key(|&i| names.get(i));
        let mut place = vec![0; names.len()];
        for (to, from) in order.iter().enumerate() {
            if let Some(place) = place.get_mut(*from) {
                *place = to;
            }
        }
        let file = |i: usize| place.get(i).copied().unwrap_or_default();
        let tensors: Vec<(String, usize)> = tensors.into_iter().map(|(name, i)| (name, file(i))).collect();
        let mut counts = vec![0usize; names.len()];
        for (_, file) in &tensors {
            if let Some(count) = counts.get_mut(*file) {
                *count = count.saturating_add(1);
            }
        }
        let by_name: Vec<&str> = tensors.iter().map(|tensor| tensor.0.as_str()).collect();
        let sorted = sorted_index(&by_name)
            .map_err(|twice| Error::new(ErrorKind::Duplicate { what: "tensor" }).item(twice))?;
        let mut files = names;
        files.sort();
        if files.is_empty() {
            return Err(Error::new(ErrorKind::Empty { what: "list of files" }).item(WEIGHT_MAP));
        }
        Ok(Index { label, files, tensors, sorted, counts })
    }

    /// Returns the names of all files, without a folder.
    pub(super) fn files(&self) -> &[Box<str>] {
        &self.files
    }

    fn file_of(&self, name: &str) -> Option<usize> {
        let tensor = |i: &u32| usize::try_from(*i).ok().and_then(|i| self.tensors.get(i));
        let at = self.sorted.binary_search_by(|i| tensor(i).map_or("", |t| t.0.as_str()).cmp(name)).ok()?;
        self.sorted.get(at).and_then(tensor).map(|tensor| tensor.1)
    }

    /// Checks that a file has exactly the tensors that the index lists for it.
    pub(super) fn check(&self, file: usize, tensors: &[TensorInfo]) -> Result<(), Error> {
        let mut found = 0usize;
        for info in tensors {
            let says = self.file_of(&info.name);
            if says != Some(file) {
                let says = says.and_then(|i| self.files.get(i)).cloned();
                return Err(Error::new(ErrorKind::NotAsIndexed { says }).item(&info.name));
            }
            found = found.saturating_add(1);
        }
        if self.counts.get(file) == Some(&found) {
            return Ok(());
        }
        // Names within a file are distinct, so a tensor of the index is missing.
        let here: HashSet<&str> = tensors.iter().map(|info| info.name.as_str()).collect();
        let missing =
            self.tensors.iter().find(|tensor| tensor.1 == file && !here.contains(tensor.0.as_str()));
        let name = missing.map_or("header", |tensor| tensor.0.as_str());
        Err(Error::new(ErrorKind::Indexed { index: self.label.as_ref().into() }).item(name))
    }
}

/// Checks that a file name is a single path component that cannot lead out of the folder on any
/// system: no separators, no drive letters, not hidden.
fn check_file_name(name: &str) -> Result<(), ErrorKind> {
    let plain = name.len() <= 255
        && name.ends_with(".safetensors")
        && !name.starts_with('.')
        && !name.chars().any(|c| matches!(c, '/' | '\\' | ':') || c.is_control());
    if plain { Ok(()) } else { Err(ErrorKind::FileName(name.into())) }
}

/// The map of an index: file names in order of appearance, and tensors with the numbers of
/// their files.
#[derive(Default)]
struct Map {
    names: Vec<Box<str>>,
    tensors: Vec<(String, usize)>,
}

struct Seed;

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = Map;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Map, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Seed {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map, A::Error> {
        let mut map = None;
        while let Some(key) = entries.next_key::<String>()? {
            if key != WEIGHT_MAP {
                // `metadata` has the total size, which is often wrong.
                entries.next_value::<IgnoredAny>()?;
            } else if map.replace(entries.next_value_seed(WeightMap)?).is_some() {
                return Err(A::Error::custom("key weight_map appears twice"));
            }
        }
        map.ok_or_else(|| A::Error::missing_field(WEIGHT_MAP))
    }
}

struct WeightMap;

impl<'de> DeserializeSeed<'de> for WeightMap {
    type Value = Map;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Map, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WeightMap {
    type Value = Map;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map, A::Error> {
        let mut map = Map::default();
        let mut numbers: HashMap<Box<str>, usize> = HashMap::new();
        while let Some((name, file)) = entries.next_entry::<String, Box<str>>()? {
            if u64::try_from(map.tensors.len()).is_ok_and(|n| n >= MAX_TENSORS) {
                return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
            }
            let number = match numbers.get(&file) {
                Some(&number) => number,
                None => {
                    let number = map.names.len();
                    map.names.push(file.clone());
                    numbers.insert(file, number);
                    number
                }
            };
            map.tensors.push((name, number));
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_stay_in_the_folder() {
        for good in ["model-00001-of-00002.safetensors", "a.safetensors", "ä b.safetensors", "a..safetensors"]
        {
            assert!(check_file_name(good).is_ok(), "{good}");
        }
        let long = format!("{}.safetensors", "a".repeat(300));
        for bad in [
            "",
            ".",
            "..",
            "../a.safetensors",
            "a/../../b.safetensors",
            "/etc/passwd",
            "/a.safetensors",
            "sub/a.safetensors",
            "..\\a.safetensors",
            "c:a.safetensors",
            "a.safetensors/",
            "a\0.safetensors",
            "a\n.safetensors",
            ".hidden.safetensors",
            "...safetensors",
            ".safetensors",
            "model.bin",
            "~",
            &long,
        ] {
            assert!(matches!(check_file_name(bad), Err(ErrorKind::FileName(_))), "{bad}");
        }
    }
}
