//! [`Digest`]: the checksum that the hub lists for a file, and hashing of incoming bytes.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::names;

/// Bytes per read. Beyond a few hundred KiB it makes no difference.
pub(crate) const CHUNK: usize = 256 << 10;

/// Checksum listed by the hub, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Digest {
    /// SHA-256 of the content: files in large-file storage, which holds weights.
    Sha256(String),
    /// SHA-1 of git's header and the content: small files. Guards against damage, not against forgery.
    GitBlob(String),
}

impl Digest {
    /// Returns a SHA-256, if the text is one.
    pub(crate) fn sha256(hex: &str) -> Option<Self> {
        names::is_hex(hex, 32).then(|| Self::Sha256(hex.to_owned()))
    }

    /// Returns the id of a git blob, if the text is one.
    pub(crate) fn git_blob(hex: &str) -> Option<Self> {
        names::is_hex(hex, 20).then(|| Self::GitBlob(hex.to_owned()))
    }

    /// Returns the digits alone, a safe file name.
    pub(crate) fn hex(&self) -> &str {
        match self {
            Self::Sha256(hex) | Self::GitBlob(hex) => hex,
        }
    }
}

impl Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha256(hex) => write!(f, "sha256:{hex}"),
            Self::GitBlob(hex) => write!(f, "git:{hex}"),
        }
    }
}

/// Incremental hash of a file.
#[derive(Debug, Clone)]
pub(crate) struct Hasher {
    sha256: Sha256,
    git: Option<Sha1>,
}

/// Result of hashing a file.
#[derive(Debug)]
pub(crate) struct Hashed {
    pub(crate) sha256: String,
    git: Option<String>,
}

impl Hasher {
    /// Returns a hasher for a file that should have this digest and size.
    pub(crate) fn new(wanted: &Digest, size: u64) -> Self {
        let git =
            matches!(wanted, Digest::GitBlob(_)).then(|| Sha1::new_with_prefix(format!("blob {size}\0")));
        Self { sha256: Sha256::new(), git }
    }

    /// Hashes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(git) = &mut self.git {
            git.update(bytes);
        }
    }

    /// Ends the hash.
    pub(crate) fn finish(self) -> Hashed {
        Hashed {
            sha256: names::hex(&self.sha256.finalize()),
            git: self.git.map(|git| names::hex(&git.finalize())),
        }
    }
}

impl Hashed {
    /// Returns the digest of the same kind as `wanted`.
    pub(crate) fn like(&self, wanted: &Digest) -> Digest {
        match (wanted, &self.git) {
            (Digest::GitBlob(_), Some(git)) => Digest::GitBlob(git.clone()),
            _ => Digest::Sha256(self.sha256.clone()),
        }
    }
}

/// Hashes a file from its beginning. Calls `on` for every piece; its error ends the hash.
pub(crate) fn of_file(
    file: &mut File,
    path: &Path,
    hasher: &mut Hasher,
    on: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let n = file.read(&mut buffer).map_err(Error::io("read", path))?;
        if n == 0 {
            return Ok(total);
        }
        hasher.update(&buffer[..n]);
        total += n as u64;
        on(total)?;
    }
}

/// Returns the SHA-256 of several files, given by path and SHA-256: for one file that of its content, else that of the
/// lines `SHA256  PATH` in the order of the paths.
pub(crate) fn of_files(mut files: Vec<(String, String)>) -> String {
    files.sort();
    if let [(_, only)] = &files[..] {
        return only.clone();
    }
    let mut hasher = Sha256::new();
    for (path, sha256) in &files {
        hasher.update(format!("{sha256}  {path}\n"));
    }
    names::hex(&hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let git = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";
        for (wanted, found) in [(Digest::sha256(sha256), sha256), (Digest::git_blob(git), git)] {
            let wanted = wanted.unwrap();
            let mut hasher = Hasher::new(&wanted, 3);
            hasher.update(b"a");
            hasher.update(b"bc");
            let hashed = hasher.finish();
            assert_eq!((hashed.like(&wanted).hex(), hashed.sha256.as_str()), (found, sha256));
        }
        assert!(Digest::sha256("ab").is_none() && Digest::git_blob(&"G".repeat(40)).is_none());
    }
}
