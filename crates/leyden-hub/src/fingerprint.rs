//! [`sha256_of_files`]: the SHA-256 of a model without a record in the store, computed once and cached.
//!
//! ```text
//! digests/DEVICE-INODE    size and times of a file, and its SHA-256
//! ```
//!
//! A modified file has another change time (ctime), which programs cannot set, and is hashed again.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::digest::{self, Digest, Hasher};
use crate::durable;
use crate::error::{Error, Result};
use crate::names;
use crate::store::Store;

/// Maximum size of an entry in bytes.
const LONGEST: u64 = 1024;

/// Returns the SHA-256 of a model's files in 64 hexadecimal digits: for one file that of its content, for several that
/// of the lines `SHA256  NAME` in the order of their names. Each file is hashed once and the result cached in `store`;
/// without a store, or if it cannot be written, it is computed at every call.
///
/// # Errors
/// If a file cannot be read.
pub fn sha256_of_files(files: &[PathBuf], store: Option<&Store>) -> Result<String> {
    let mut all = Vec::new();
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        all.push((name.unwrap_or_default(), sha256_of_file(path, store)?));
    }
    Ok(digest::of_files(all))
}

/// Returns the SHA-256 of bytes in 64 hexadecimal digits.
#[must_use]
pub fn sha256_of_bytes(bytes: &[u8]) -> String {
    names::hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of one file, from the cache if the file is unchanged.
pub(crate) fn sha256_of_file(path: &Path, store: Option<&Store>) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let metadata = file.metadata().map_err(Error::io("examine", path))?;
    let kept = store.map(|store| store.root().join("digests").join(entry(&metadata)));
    let state = state(&metadata);
    if let Some(digest) = kept.as_deref().and_then(|kept| read(kept, &state)) {
        return Ok(digest);
    }
    let mut hasher = Hasher::new(&Digest::Sha256(String::new()), metadata.len());
    digest::of_file(&mut file, path, &mut hasher, &mut |_| Ok(()))?;
    let digest = hasher.finish().sha256;
    if let (Some(store), Some(kept)) = (store, kept) {
        // If the store cannot be written, the file is hashed again at the next start.
        let _ = keep(store, &kept, &format!("{state} {digest}\n"));
    }
    Ok(digest)
}

fn entry(metadata: &Metadata) -> String {
    format!("{:x}-{:x}", metadata.dev(), metadata.ino())
}

fn state(m: &Metadata) -> String {
    format!("{} {}.{:09} {}.{:09}", m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
}

/// Reads the cached digest, if the file still has this state.
fn read(path: &Path, state: &str) -> Option<String> {
    if fs::metadata(path).ok()?.len() > LONGEST {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    let (of, digest) = text.trim_end().rsplit_once(' ')?;
    (of == state && names::is_hex(digest, 32)).then(|| digest.to_owned())
}

fn keep(store: &Store, path: &Path, text: &str) -> Result<()> {
    durable::make_folder(store.root(), path.parent().unwrap_or(store.root()))?;
    durable::write(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_file_is_hashed_once_and_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (store, path) = (Store::at(folder.path().join("store")), folder.path().join("m.gguf"));
        fs::write(&path, "abc").unwrap();
        let digest = || sha256_of_files(std::slice::from_ref(&path), Some(&store)).unwrap();
        assert_eq!(digest(), ABC);
        let kept = store.root().join("digests").join(entry(&fs::metadata(&path).unwrap()));
        let forged = fs::read_to_string(&kept).unwrap().replace(ABC, &"0".repeat(64));
        fs::write(&kept, &forged).unwrap();
        assert_eq!(digest(), "0".repeat(64), "the kept one is taken");
        for damaged in ["", "x", &forged[..forged.len() - 2], &"9".repeat(5000)] {
            fs::write(&kept, damaged).unwrap();
            assert_eq!(digest(), ABC, "{damaged}");
        }
        fs::write(&path, "abcd").unwrap();
        assert_ne!(digest(), ABC);
        let other = folder.path().join("n.gguf");
        fs::write(&other, "abc").unwrap();
        let both = sha256_of_files(&[path.clone(), other.clone()], None).unwrap();
        assert_eq!(both, sha256_of_files(&[other, path], None).unwrap());
        assert_eq!(sha256_of_bytes(b"abc"), ABC);
        assert!(sha256_of_files(&[folder.path().join("none")], None).is_err());
    }
}
