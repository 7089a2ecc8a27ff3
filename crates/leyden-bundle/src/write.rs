//! [`write`]: an archive of files, with the signature first.

use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use leyden_verify::Key;
use sha2::{Digest, Sha256};

use crate::contents::Contents;
use crate::entry::{Content, Entry};
use crate::error::{Error, Result};
use crate::hash::{hex, sha256};
use crate::header::{BLOCK_BYTES, END_BLOCKS, of_file, padding};
use crate::names;
use crate::readme;
use crate::statement::{Resource, Statement, public_key_pem};

/// Size of the buffer for copying, in bytes.
pub(crate) const BUFFER_BYTES: usize = 1 << 20;

/// Function that is told the number of bytes since the last call, and may stop the work.
pub type Heard<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Function that makes further entries from the names and SHA-256 of others.
pub type More<'a> = &'a dyn Fn(&[(&str, &str)]) -> Vec<Entry>;

/// A complete set of entries with their checksums, ready to be written.
#[derive(Debug)]
pub struct Prepared {
    entries: Vec<(Entry, u64, String)>,
    statement: Statement,
    signature: Vec<u8>,
}

impl Prepared {
    /// Adds description, explanation, key and checksums to the entries, hashes all whose SHA-256 is unknown, and signs. `more`
    /// makes further entries from the names and SHA-256 of those, such as a list of them.
    ///
    /// # Errors
    /// The key signs nothing, a name is not allowed or there twice, a file cannot be read, or `heard` stops the work.
    pub fn new(
        mut entries: Vec<Entry>,
        more: More<'_>,
        contents: &Contents,
        key: &Key,
        heard: Heard<'_>,
    ) -> Result<Prepared> {
        let subject = contents.models.first().map_or("leyden", |model| &model.name).to_owned();
        entries.push(Entry::bytes(names::CONTENTS, contents.bytes()));
        entries.push(Entry::bytes(names::KEY, public_key_pem(&key.id())));
        entries.push(Entry::bytes(names::README, readme::text(contents, &key.id())));
        let mut hashed = Vec::new();
        for entry in entries {
            let (bytes, sha256) = measure(&entry, heard)?;
            hashed.push((entry, bytes, sha256));
        }
        let known: Vec<(&str, &str)> =
            hashed.iter().map(|(entry, _, sum)| (&entry.name[..], &sum[..])).collect();
        for entry in more(&known) {
            let (bytes, sha256) = measure(&entry, heard)?;
            hashed.push((entry, bytes, sha256));
        }
        hashed.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let resources =
            hashed.iter().map(|(entry, _, sha256)| Resource::new(&*entry.name, &**sha256)).collect();
        let mut statement = Statement { subject, resources };
        let checksums = Entry::bytes(names::CHECKSUMS, statement.checksums());
        let (bytes, sum) = measure(&checksums, heard)?;
        let at = hashed.partition_point(|(entry, ..)| *entry.name < *names::CHECKSUMS);
        statement.resources.insert(at, Resource::new(names::CHECKSUMS, &*sum));
        hashed.insert(at, (checksums, bytes, sum));
        names::check_all(statement.resources.iter().map(|file| &file.name[..]))
            .map_err(|(name, why)| Error::entry(Path::new("bundle"), name, why))?;
        let failed = |what: String| Error::bundle(Path::new("key"), what);
        let signature = statement.sign(key).map_err(|error| failed(error.to_string()))?;
        let signature =
            signature.ok_or_else(|| failed("it has no secret part, so it signs nothing".to_owned()))?;
        Ok(Prepared { entries: hashed, statement, signature })
    }

    /// Returns the files of the bundle but the signature, with their checksums.
    #[must_use]
    pub fn files(&self) -> &[Resource] {
        &self.statement.resources
    }

    /// Returns the size of the archive in bytes.
    #[must_use]
    pub fn archive_bytes(&self) -> u64 {
        let whole = |bytes: u64| BLOCK_BYTES as u64 + bytes + padding(bytes) as u64;
        let files = self.entries.iter().map(|(_, bytes, _)| whole(*bytes)).sum::<u64>();
        files + whole(self.signature.len() as u64) + (END_BLOCKS * BLOCK_BYTES) as u64
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// A file changed since its checksum was computed, a file cannot be read or the output not be written, or `heard` stops
    /// the work.
    pub fn write(&self, out: &mut dyn Write, name: &Path, heard: Heard<'_>) -> Result<()> {
        let signature = Entry::bytes(names::SIGNATURE, &*self.signature);
        let sum = sha256(&self.signature);
        put(out, name, &signature, (self.signature.len() as u64, &sum), heard)?;
        for (entry, bytes, sha256) in &self.entries {
            put(out, name, entry, (*bytes, sha256), heard)?;
        }
        out.write_all(&[0; END_BLOCKS * BLOCK_BYTES]).map_err(Error::io("write", name))
    }
}

/// Returns size and SHA-256 of an entry's content.
fn measure(entry: &Entry, heard: Heard<'_>) -> Result<(u64, String)> {
    match &entry.content {
        Content::Bytes(bytes) => Ok((bytes.len() as u64, sha256(bytes))),
        Content::File(path, known) => {
            let (mut file, bytes) = open(path)?;
            if let Some(known) = known {
                return Ok((bytes, known.clone()));
            }
            let mut hasher = Sha256::new();
            let read = copy(&mut file, path, u64::MAX, heard, &mut |part| {
                hasher.update(part);
                Ok(())
            })?;
            Ok((read, hex(&hasher.finalize())))
        }
    }
}

/// Writes an entry whose content has this size and SHA-256.
fn put(
    out: &mut dyn Write,
    to: &Path,
    entry: &Entry,
    (bytes, sha256): (u64, &str),
    heard: Heard<'_>,
) -> Result<()> {
    let header = of_file(&entry.name, bytes).map_err(|why| Error::entry(to, &entry.name, why))?;
    out.write_all(&header).map_err(Error::io("write", to))?;
    match &entry.content {
        Content::Bytes(content) => out.write_all(content).map_err(Error::io("write", to))?,
        Content::File(path, _) => {
            let (mut file, _) = open(path)?;
            let mut hasher = Sha256::new();
            let read = copy(&mut file, path, bytes, heard, &mut |part| {
                hasher.update(part);
                out.write_all(part).map_err(Error::io("write", to))
            })?;
            let rest = file.read(&mut [0]).map_err(Error::io("read", path))?;
            if read != bytes || rest != 0 || hex(&hasher.finalize()) != sha256 {
                return Err(Error::bundle(path, "it has changed since its checksum was computed"));
            }
        }
    }
    out.write_all(&[0; BLOCK_BYTES][..padding(bytes)]).map_err(Error::io("write", to))
}

/// Opens a regular file, and returns its size.
pub(crate) fn open(path: &Path) -> Result<(File, u64)> {
    // Opening a FIFO would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(Error::io("read", path))?;
    if !metadata.is_file() {
        return Err(Error::bundle(path, "not a regular file"));
    }
    Ok((File::open(path).map_err(Error::io("open", path))?, metadata.len()))
}

/// Reads at most `most` bytes in parts; returns their number.
pub(crate) fn copy(
    from: &mut dyn Read,
    path: &Path,
    most: u64,
    heard: Heard<'_>,
    to: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<u64> {
    let mut buffer = vec![0; usize::try_from(most).map_or(BUFFER_BYTES, |most| most.min(BUFFER_BYTES))];
    let mut done = 0;
    while done < most {
        let part = usize::try_from(most - done).map_or(BUFFER_BYTES, |rest| rest.min(BUFFER_BYTES));
        let n = match from.read(&mut buffer[..part]) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.map_err(Error::io("read", path))?,
        };
        if n == 0 {
            break;
        }
        to(&buffer[..n])?;
        done += n as u64;
        if heard(n as u64).is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(done)
}
