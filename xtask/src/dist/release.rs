//! [`Release`]: the folder of a release, with its checksums and signatures.
//!
//! `SHA256SUMS` is signed with Ed25519 in two forms: 64 bytes for openssl, and a file of minisign. minisign's form without
//! prehashing is used, as its signature is one of the file itself; minisign verifies both.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leyden_verify::{DEFAULT_DAYS, Key, Time};
use sha2::{Digest, Sha256};

use super::tree::hex;
use super::{VERSION, make_folder, read, write};

/// Bytes of a public key in DER before the key itself: RFC 8410.
const DER_PREFIX: &str = "302a300506032b6570032100";

/// A release.
pub(super) struct Release {
    folder: PathBuf,
    /// Names and SHA-256.
    files: Vec<(String, String)>,
}

impl Release {
    /// Makes the folder.
    pub(super) fn new(folder: &Path) -> Result<Release, String> {
        Ok(Release { folder: make_folder(folder)?, files: Vec::new() })
    }

    /// Writes a file.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        write(&self.folder.join(name), bytes)?;
        self.files.push((name.to_owned(), hex(&Sha256::digest(bytes))));
        Ok(())
    }

    /// Adds the wheels that lie in the folder.
    pub(super) fn add_wheels(&mut self) -> Result<(), String> {
        let entries = std::fs::read_dir(&self.folder).map_err(|error| error.to_string())?;
        for path in entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "whl"))
        {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            self.files.push((name, hex(&Sha256::digest(read(&path)?))));
        }
        Ok(())
    }

    /// Writes the checksums, and with a key their signatures.
    pub(super) fn sign(mut self, key_file: Option<&Path>) -> Result<(), String> {
        self.files.sort();
        let sums: String = self.files.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        write(&self.folder.join("SHA256SUMS"), sums.as_bytes())?;
        let folder = self.folder.display();
        let Some(path) = key_file else {
            println!("{folder}: {} files, not signed: `--key FILE` signs them", self.files.len());
            return Ok(());
        };
        let key = key(path)?;
        let missing = || format!("{}: it has no secret part, so it cannot sign", path.display());
        let signature = unhex(&key.sign(sums.as_bytes()).ok_or_else(missing)?)?;
        write(&self.folder.join("SHA256SUMS.sig"), &signature)?;
        write(&self.folder.join("key.pem"), pem(&key)?.as_bytes())?;
        let comment = format!("leyden {VERSION} file:SHA256SUMS");
        let signed: Vec<u8> = signature.iter().copied().chain(comment.bytes()).collect();
        let whole = unhex(&key.sign(&signed).ok_or_else(missing)?)?;
        let (number, public) = numbered(&key)?;
        let mini = format!(
            "untrusted comment: signature of leyden\n{}\ntrusted comment: {comment}\n{}\n",
            STANDARD.encode([b"Ed", &number[..], &signature[..]].concat()),
            STANDARD.encode(whole)
        );
        write(&self.folder.join("SHA256SUMS.minisig"), mini.as_bytes())?;
        let mini = format!(
            "untrusted comment: minisign public key of leyden\n{}\n",
            STANDARD.encode([b"Ed", &number[..], &public[..]].concat())
        );
        write(&self.folder.join("minisign.pub"), mini.as_bytes())?;
        println!("{folder}: {} files, signed with the key {}", self.files.len(), key.id());
        Ok(())
    }
}

/// Reads the key, or makes it if there is none.
pub(super) fn key(path: &Path) -> Result<Key, String> {
    if path.exists() {
        let key = Key::read(path).map_err(|error| error.to_string())?;
        let expired = key.is_expired(Time::now());
        return if expired { Err(format!("{}: the key has expired", path.display())) } else { Ok(key) };
    }
    let key = Key::generate(Time::now(), DEFAULT_DAYS).map_err(|error| error.to_string())?;
    key.write(path).map_err(|error| error.to_string())?;
    println!("{}: a new key; keep it secret, and publish {}", path.display(), key.id());
    Ok(key)
}

/// Returns the public key as openssl reads it.
fn pem(key: &Key) -> Result<String, String> {
    let der = unhex(&format!("{DER_PREFIX}{}", key.id()))?;
    Ok(format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der)))
}

/// Returns the number of a key, by which minisign tells keys apart, and its public part.
fn numbered(key: &Key) -> Result<(Vec<u8>, Vec<u8>), String> {
    let public = unhex(&key.id())?;
    Ok((Sha256::digest(&public)[..8].to_vec(), public))
}

fn unhex(digits: &str) -> Result<Vec<u8>, String> {
    let pairs = (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16));
    pairs.collect::<Result<_, _>>().map_err(|error| format!("hexadecimal digits: {error}"))
}
