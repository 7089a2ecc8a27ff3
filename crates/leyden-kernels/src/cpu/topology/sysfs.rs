//! Access to the files of `/proc` and `/sys`; all reading goes through here.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::cpu::topology::cpu_list::CpuList;

/// Largest file that is read, in bytes: `cpuinfo` of a machine with thousands of CPUs is smaller, and the endless file
/// of a broken mount is cut here.
const MAX_BYTES: u64 = 16 << 20;

/// Directory with `proc` and `sys`: `/` on a machine, a folder of files in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysFs {
    root: PathBuf,
}

impl SysFs {
    /// Returns the files of the running machine.
    pub fn machine() -> Self {
        Self::at("/")
    }

    /// Returns the files below `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the whole text of a file; `None` if it is absent, unreadable or a directory. Bytes that are not UTF-8 are
    /// replaced.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let file = File::open(self.root.join(path.trim_start_matches('/'))).ok()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a file's text without surrounding blanks; `None` if nothing is left.
    pub(super) fn word(&self, path: &str) -> Option<String> {
        let text = self.text(path)?;
        let word = text.trim();
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// Reads a file that holds one number.
    pub(super) fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    /// Reads a file that holds a non-empty CPU list.
    pub(super) fn list(&self, path: &str) -> Option<CpuList> {
        CpuList::parse(&self.text(path)?).filter(|list| !list.is_empty())
    }

    /// Returns the value of the first `key:` in a file of `key: value` lines.
    pub(super) fn field(&self, path: &str, key: &str) -> Option<String> {
        field_in(&self.text(path)?, key).map(str::to_owned)
    }

    /// Returns the names in a directory, sorted; empty if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(path.trim_start_matches('/'))) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Returns the numbers `N` of the entries `<prefix>N` in a directory, ascending.
    pub(super) fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let mut numbers: Vec<u32> =
            self.names(path).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// Returns the value of the first `key:` in `text`; blanks around both are ignored.
pub(super) fn field_in<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// Parses a `1234 kB` value, as `meminfo` writes them, into bytes.
pub(super) fn kib_value(value: &str) -> Option<u64> {
    let number = value.trim().trim_end_matches("kB").trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}
