//! [`FileStore`]: files that clients upload, and the outputs of their batches, in a folder.
//!
//! A file is two files of the folder: `ID.data`, its content, and `ID.json`, which describes it and is written last. A file belongs
//! to the key that uploaded it; no other key sees it.

use crate::error::ApiError;
use crate::failure::{Error, ErrorKind};
use crate::ids::Ids;
use crate::limits::Limits;
use crate::timestamp::unix_time;
use hyper::StatusCode;
use leyden_files::{Output, OutputOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredFile {
    pub(crate) id: String,
    /// Place in the order of creation.
    pub(crate) number: u64,
    /// Name of the key that it belongs to; empty without keys.
    pub(crate) owner: String,
    pub(crate) bytes: u64,
    /// Times in seconds since 1970.
    pub(crate) created_at: u64,
    pub(crate) expires_at: Option<u64>,
    pub(crate) filename: String,
    pub(crate) purpose: String,
}

impl StoredFile {
    /// Returns the file in OpenAI's form.
    pub(crate) fn shown(&self) -> Value {
        json!({
            "id": self.id, "object": "file", "bytes": self.bytes, "created_at": self.created_at,
            "expires_at": self.expires_at, "filename": self.filename, "purpose": self.purpose, "status": "processed",
        })
    }

    fn is_over(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// Properties of a new file.
#[derive(Clone, Debug)]
pub(crate) struct NewFile {
    pub(crate) owner: String,
    pub(crate) filename: String,
    pub(crate) purpose: &'static str,
    /// Seconds until it is deleted.
    pub(crate) lifetime: Option<u64>,
}

/// The files of all keys.
#[derive(Debug)]
pub(crate) struct FileStore {
    folder: PathBuf,
    limits: Limits,
    ids: Ids,
    files: Mutex<BTreeMap<u64, StoredFile>>,
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Writing {
    output: Output,
    path: PathBuf,
    id: String,
    bytes: u64,
}

impl Writing {
    /// Adds bytes.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    /// Returns the number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FileStore {
    /// Opens the folder, which is made if it is missing, and removes what interrupted uploads left in it.
    ///
    /// # Errors
    /// The folder cannot be read or written, or a description in it is damaged.
    pub(crate) fn open(folder: PathBuf, limits: &Limits) -> Result<FileStore, Error> {
        let described: Vec<StoredFile> = descriptions(&folder)?;
        let now = unix_time();
        let mut files = BTreeMap::new();
        for file in described {
            let data = folder.join(format!("{}.data", file.id));
            let size = fs::metadata(&data).map(|meta| meta.len()).ok();
            if file.is_over(now) || size != Some(file.bytes) {
                remove(&folder, &file.id);
            } else {
                files.insert(file.number, file);
            }
        }
        let known: std::collections::HashSet<&str> = files.values().map(|file| file.id.as_str()).collect();
        for path in entries(&folder)? {
            let is_data = path.extension().is_some_and(|ending| ending == "data");
            let id = path.file_stem().unwrap_or_default().to_string_lossy();
            if is_data && !known.contains(id.as_ref()) {
                let _ = fs::remove_file(&path);
            }
        }
        Ok(FileStore { folder, limits: limits.clone(), ids: Ids::default(), files: Mutex::new(files) })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, StoredFile>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = unix_time();
        files.retain(|_, file| {
            let over = file.is_over(now);
            if over {
                remove(&self.folder, &file.id);
            }
            !over
        });
        files
    }

    /// Returns a new id of a file.
    pub(crate) fn new_id(&self) -> String {
        format!("file-{}", self.ids.next())
    }

    /// Begins a file.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub(crate) fn begin(&self, id: Option<String>) -> io::Result<Writing> {
        let id = id.unwrap_or_else(|| self.new_id());
        let path = self.folder.join(format!("{id}.data"));
        let output = Output::with(&path, OutputOptions::new().files_only().private())?;
        Ok(Writing { output, path, id, bytes: 0 })
    }

    /// Ends a file, which is there from now on; one with the same id is replaced.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub(crate) fn finish(&self, writing: Writing, new: NewFile) -> io::Result<StoredFile> {
        let Writing { output, path, id, bytes } = writing;
        output.finish()?;
        let mut files = self.lock();
        files.retain(|_, file| file.id != id);
        let number = files.last_key_value().map_or(0, |(number, _)| number + 1);
        let created_at = unix_time();
        let file = StoredFile {
            id,
            number,
            owner: new.owner,
            bytes,
            created_at,
            expires_at: new.lifetime.map(|seconds| created_at + seconds),
            filename: new.filename,
            purpose: new.purpose.to_owned(),
        };
        if let Err(error) = save(&self.folder, &file.id, &file) {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        files.insert(number, file.clone());
        Ok(file)
    }

    /// Checks that a key may store one more file of this size.
    ///
    /// # Errors
    /// 400: too many or too large files.
    pub(crate) fn check_room(&self, owner: &str, bytes: u64) -> Result<(), ApiError> {
        let files = self.lock();
        let own = || files.values().filter(|file| file.owner == owner);
        let (number, size) = (own().count(), own().map(|file| file.bytes).sum::<u64>());
        let full = |what: String| {
            let message = format!("{what}; delete files that are no longer needed");
            Err(ApiError::new(StatusCode::BAD_REQUEST, "file_limit_exceeded", message))
        };
        if number >= self.limits.files {
            return full(format!("this key has {number} files, the maximum"));
        }
        if size.saturating_add(bytes) > self.limits.files_bytes {
            return full(format!("the files of this key would exceed {} bytes", self.limits.files_bytes));
        }
        Ok(())
    }

    /// Returns the files of a key, the oldest first.
    pub(crate) fn list(&self, owner: &str) -> Vec<StoredFile> {
        self.lock().values().filter(|file| file.owner == owner).cloned().collect()
    }

    /// Returns a file of a key.
    pub(crate) fn get(&self, owner: &str, id: &str) -> Option<StoredFile> {
        self.lock().values().find(|file| file.owner == owner && file.id == id).cloned()
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(&self, file: &StoredFile) -> io::Result<File> {
        File::open(self.folder.join(format!("{}.data", file.id)))
    }

    /// Removes a file of a key. Returns false if there is none.
    pub(crate) fn remove(&self, owner: &str, id: &str) -> bool {
        let mut files = self.lock();
        let number =
            files.iter().find(|(_, file)| file.owner == owner && file.id == id).map(|(number, _)| *number);
        let Some(number) = number else { return false };
        remove(&self.folder, id);
        files.remove(&number);
        true
    }
}

/// Removes a file's description, then its content.
fn remove(folder: &Path, id: &str) {
    for ending in ["json", "data"] {
        // Remaining files are removed at the next start.
        let _ = fs::remove_file(folder.join(format!("{id}.{ending}")));
    }
}

/// Writes the description of something as `ID.json`.
///
/// # Errors
/// The disk is full or failed.
pub(crate) fn save(folder: &Path, id: &str, it: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(it).map_err(io::Error::other)?;
    leyden_files::write(
        &folder.join(format!("{id}.json")),
        &text,
        OutputOptions::new().files_only().private(),
    )
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let cannot = |error: io::Error| broken(folder, format!("cannot read: {error}"));
    let all: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder).map_err(cannot)?.map(|entry| Ok(entry?.path())).collect();
    all.map_err(cannot)
}

/// Returns the error of a folder that cannot be used.
pub(crate) fn broken(folder: &Path, what: String) -> Error {
    ErrorKind::Batches { folder: folder.to_owned(), what }.into()
}

/// Reads all descriptions of a folder, which is made if it is missing.
///
/// # Errors
/// The folder cannot be read or made, or a description is damaged.
pub(crate) fn descriptions<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| broken(folder, format!("cannot make the folder: {error}")))?;
    let mut all = Vec::new();
    for path in
        entries(folder)?.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "json"))
    {
        let text = fs::read(&path).map_err(|error| broken(&path, format!("cannot read: {error}")))?;
        let one = serde_json::from_slice(&text)
            .map_err(|error| broken(&path, format!("damaged, remove it to start without it: {error}")))?;
        all.push(one);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(owner: &str) -> NewFile {
        NewFile { owner: owner.to_owned(), filename: "a".to_owned(), purpose: "batch", lifetime: None }
    }

    fn add(store: &FileStore, owner: &str, content: &[u8]) -> StoredFile {
        let mut writing = store.begin(None).unwrap();
        writing.write(content).unwrap();
        store.finish(writing, new(owner)).unwrap()
    }

    #[test]
    fn files_survive_a_restart_and_belong_to_their_key() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("files");
        let limits = Limits { files: 2, files_bytes: 10, ..Limits::default() };
        let store = FileStore::open(at.clone(), &limits).unwrap();
        let (first, second) = (add(&store, "ada", b"one"), add(&store, "ada", b"two"));
        let foreign = add(&store, "bob", b"three");
        // An upload that a kill interrupted, one without its description, and one whose content was lost.
        fs::write(at.join("file-x.data"), "x").unwrap();
        drop(store.begin(None).unwrap());
        let store = FileStore::open(at.clone(), &limits).unwrap();
        assert_eq!(store.list("ada"), [first.clone(), second.clone()]);
        assert!(!at.join("file-x.data").exists());
        assert_eq!(store.get("ada", &foreign.id), None);
        assert!(!store.remove("ada", &foreign.id));
        assert_eq!(store.check_room("ada", 1).unwrap_err().code, "file_limit_exceeded");
        assert!(store.remove("ada", &first.id));
        assert!(store.check_room("ada", 7).is_ok() && store.check_room("ada", 8).is_err());
        fs::write(at.join(format!("{}.data", second.id)), "").unwrap();
        let store = FileStore::open(at.clone(), &limits).unwrap();
        assert!(store.list("ada").is_empty());
        fs::write(at.join("file-y.json"), "{").unwrap();
        let error = FileStore::open(at, &limits).unwrap_err().to_string();
        assert!(error.contains("file-y.json: damaged"), "{error}");
    }
}
