//! Reading of an archive in one pass: nothing is believed before its checksum was compared.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use leyden_files::OutputOptions;
use leyden_verify::Key;
use sha2::{Digest, Sha256};
use std::io::Write;

use crate::contents::{Contents, below};
use crate::error::{Error, Result};
use crate::hash::{hex, sha256};
use crate::header::{self, BLOCK_BYTES, Block, END_BLOCKS, Found, padding};
use crate::names;
use crate::statement::{Resource, Statement};
use crate::write::{Heard, copy, open};

/// Maximum size of the signature in bytes: about 200,000 files.
pub(crate) const MAX_SIGNATURE_BYTES: u64 = 64 << 20;
/// Maximum size of the description in bytes.
pub(crate) const MAX_CONTENTS_BYTES: u64 = 16 << 20;

/// Result of a verification: everything in it was signed.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Identifier of the key that signed.
    pub key: String,
    /// Program and models.
    pub contents: Contents,
    /// Files but the signature, with their checksums and sizes in bytes.
    pub files: Vec<(Resource, u64)>,
}

impl Verified {
    /// Returns the files in a folder: the name below it, size and SHA-256.
    pub fn files_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, u64, &'a str)> {
        let inside =
            |(file, bytes): &'a (Resource, u64)| Some((below(&file.name, folder)?, *bytes, &file.sha256[..]));
        self.files.iter().filter_map(inside)
    }
}

/// Verifies an archive: signature, every byte of every entry, and that nothing is missing or in excess. Without a `key`, the
/// one that the bundle names: this finds damage, and does not tell who made the bundle.
///
/// # Errors
/// The first entry that is not as signed, or an error of the system.
pub fn verify(path: &Path, key: Option<&Key>, heard: Heard<'_>) -> Result<Verified> {
    read(path, key, None, heard)
}

/// Verifies an archive and writes its entries below the folder `to`, which must be empty and must not be used before this
/// returns.
///
/// # Errors
/// As [`verify`], or a file cannot be written.
pub fn unpack(path: &Path, key: Option<&Key>, to: &Path, heard: Heard<'_>) -> Result<Verified> {
    read(path, key, Some(to), heard)
}

fn read(path: &Path, key: Option<&Key>, to: Option<&Path>, heard: Heard<'_>) -> Result<Verified> {
    let (file, _) = open(path)?;
    let mut archive = Archive { file, path, folders: BTreeSet::new() };
    let signature = archive.signature(heard)?;
    let (statement, key) =
        Statement::open(&signature, key).map_err(|why| Error::entry(path, names::SIGNATURE, why))?;
    if let Some(to) = to {
        archive.write_bytes(to, names::SIGNATURE, &signature)?;
    }
    let mut files = Vec::new();
    let mut contents = None;
    for resource in &statement.resources {
        let bytes = archive.header(&statement, &resource.name)?;
        let kept = archive.entry(resource, bytes, to, heard)?;
        if resource.name == names::CONTENTS {
            contents = Some(kept);
        }
        files.push((resource.clone(), bytes));
    }
    archive.end(&statement)?;
    let contents = described(path, &statement, contents.as_deref())?;
    if let Some(to) = to {
        archive.flush_folders(to)?;
    }
    Ok(Verified { key: key.id(), contents, files })
}

/// Reads the description, and checks the file of checksums.
pub(crate) fn described(path: &Path, statement: &Statement, contents: Option<&[u8]>) -> Result<Contents> {
    let missing = |name: &str| Error::entry(path, name, "it is missing");
    let resource = |name: &str| statement.resources.iter().find(|file| file.name == name);
    let checksums = resource(names::CHECKSUMS).ok_or_else(|| missing(names::CHECKSUMS))?;
    if checksums.sha256 != sha256(statement.checksums().as_bytes()) {
        return Err(Error::entry(path, names::CHECKSUMS, "it has other checksums than the signed ones"));
    }
    let bytes = contents.ok_or_else(|| missing(names::CONTENTS))?;
    let entries: Vec<&str> = statement.resources.iter().map(|file| &file.name[..]).collect();
    Contents::read(bytes, &entries).map_err(|why| Error::entry(path, names::CONTENTS, why))
}

struct Archive<'a> {
    file: File,
    path: &'a Path,
    /// Folders that were made.
    folders: BTreeSet<PathBuf>,
}

impl Archive<'_> {
    fn failed(&self, entry: &str, what: impl std::fmt::Display) -> Error {
        Error::entry(self.path, entry, what)
    }

    fn truncated(&self, entry: &str) -> Error {
        self.failed(entry, "the file ends within it: it was truncated")
    }

    /// Reads a block; `None` at the end of the file, or within a block.
    fn block(&mut self) -> Result<Option<Block>> {
        let mut block = [0; BLOCK_BYTES];
        match self.file.read_exact(&mut block) {
            Ok(()) => Ok(Some(block)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Error::io("read", self.path)(error)),
        }
    }

    fn signature(&mut self, heard: Heard<'_>) -> Result<Vec<u8>> {
        let name = names::SIGNATURE;
        let none = || Error::bundle(self.path, format!("not a bundle: it does not begin with {name}"));
        let block = self.block()?.ok_or_else(|| self.truncated(name))?;
        let Found::Wanted(bytes) = header::read(&block, name) else { return Err(none()) };
        if bytes > MAX_SIGNATURE_BYTES {
            return Err(
                self.failed(name, format!("it has {bytes} bytes; {MAX_SIGNATURE_BYTES} are the most"))
            );
        }
        let mut content = Vec::new();
        let read = copy(&mut self.file, self.path, bytes, heard, &mut |part| {
            content.extend_from_slice(part);
            Ok(())
        })?;
        if read != bytes {
            return Err(self.truncated(name));
        }
        self.padding(name, bytes)?;
        Ok(content)
    }

    /// Reads the header of the entry `name`, and returns its size.
    fn header(&mut self, statement: &Statement, name: &str) -> Result<u64> {
        let Some(block) = self.block()? else { return Err(self.truncated(name)) };
        let (found, what) = match header::read(&block, name) {
            Found::Wanted(bytes) => return Ok(bytes),
            Found::End => return Err(self.failed(name, "it is missing: the archive ends before it")),
            Found::Other(None, what) => return Err(self.failed(name, what)),
            Found::Other(Some(found), what) => (found, what),
        };
        let place = |name: &str| statement.resources.binary_search_by(|file| file.name.as_str().cmp(name));
        Err(match (place(&found), place(name)) {
            (Ok(at), Ok(wanted)) if at > wanted => self.failed(name, "it is missing"),
            (Ok(at), Ok(wanted)) if at < wanted => self.failed(&found, "it is there twice"),
            (Ok(_), _) => self.failed(&found, what),
            (Err(_), _) if found == names::SIGNATURE => self.failed(&found, "it is there twice"),
            (Err(_), _) => self.failed(&found, format!("it is not in the signed list; {what}")),
        })
    }

    /// Reads the content of an entry, and returns it if it is the description.
    fn entry(
        &mut self,
        resource: &Resource,
        bytes: u64,
        to: Option<&Path>,
        heard: Heard<'_>,
    ) -> Result<Vec<u8>> {
        let name = &resource.name[..];
        let is_kept = name == names::CONTENTS;
        if is_kept && bytes > MAX_CONTENTS_BYTES {
            return Err(self.failed(name, format!("it has {bytes} bytes; {MAX_CONTENTS_BYTES} are the most")));
        }
        let (mut hasher, mut kept) = (Sha256::new(), Vec::new());
        let place = to.map(|to| to.join(name));
        let mut output = place.as_deref().map(|place| self.create(to, place)).transpose()?;
        let read = copy(&mut self.file, self.path, bytes, heard, &mut |part| {
            hasher.update(part);
            if is_kept {
                kept.extend_from_slice(part);
            }
            match (&mut output, &place) {
                (Some(output), Some(place)) => output.write_all(part).map_err(Error::io("write", place)),
                _ => Ok(()),
            }
        })?;
        if read != bytes {
            return Err(self.truncated(name));
        }
        self.padding(name, bytes)?;
        let found = hex(&hasher.finalize());
        if found != resource.sha256 {
            return Err(self.failed(name, format!("sha256 {found}, not {}", resource.sha256)));
        }
        if let (Some(output), Some(place)) = (output, &place) {
            finish(&output, place, name.starts_with(names::PROGRAMS))?;
        }
        Ok(kept)
    }

    fn padding(&mut self, name: &str, bytes: u64) -> Result<()> {
        let mut zeros = [0; BLOCK_BYTES];
        let zeros = &mut zeros[..padding(bytes)];
        if self.file.read_exact(zeros).is_err() {
            return Err(self.truncated(name));
        }
        match zeros.iter().all(|byte| *byte == 0) {
            true => Ok(()),
            false => Err(self.failed(name, "the bytes behind it are not zero")),
        }
    }

    fn end(&mut self, statement: &Statement) -> Result<()> {
        for _ in 0..END_BLOCKS {
            let Some(block) = self.block()? else {
                return Err(Error::bundle(self.path, "the file ends before the end of the archive"));
            };
            match header::read(&block, "") {
                Found::End => {}
                Found::Other(Some(found), _) => {
                    let is_known = found == names::SIGNATURE
                        || statement.resources.iter().any(|file| file.name == found);
                    let what = if is_known { "it is there twice" } else { "it is not in the signed list" };
                    return Err(self.failed(&found, what));
                }
                _ => return Err(Error::bundle(self.path, "the end of the archive is damaged")),
            }
        }
        match self.file.read(&mut [0]).map_err(Error::io("read", self.path))? {
            0 => Ok(()),
            _ => Err(Error::bundle(self.path, "there is more behind the end of the archive")),
        }
    }

    /// Creates a new file, and its folders.
    fn create(&mut self, to: Option<&Path>, place: &Path) -> Result<File> {
        let folders = place.ancestors().skip(1).take_while(|folder| Some(*folder) != to);
        self.folders.extend(folders.map(Path::to_owned));
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
        }
        // The folder belongs to the caller, and names are checked: nothing can be there.
        File::options().write(true).create_new(true).open(place).map_err(Error::io("create", place))
    }

    fn write_bytes(&mut self, to: &Path, name: &str, bytes: &[u8]) -> Result<()> {
        let place = to.join(name);
        leyden_files::write(&place, bytes, OutputOptions::new().new_only())
            .map_err(Error::io("write", &place))
    }

    fn flush_folders(&self, to: &Path) -> Result<()> {
        let all = self.folders.iter().map(PathBuf::as_path).rev().chain([to]);
        all.into_iter().try_for_each(|folder| {
            leyden_files::sync_folder(folder).map_err(Error::io("flush the folder", folder))
        })
    }
}

/// Sets the mode of a complete file, and flushes it.
fn finish(file: &File, place: &Path, executable: bool) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if executable {
            file.set_permissions(std::fs::Permissions::from_mode(0o755))
                .map_err(Error::io("write", place))?;
        }
    }
    #[cfg(not(unix))]
    let _ = executable;
    file.sync_all().map_err(Error::io("flush", place))
}
