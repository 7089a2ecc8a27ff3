//! [`Store`]: the folder of pulled models.
//!
//! ```text
//! hf/ORG/REPO/models.json            record of the models; written after all of their files
//! hf/ORG/REPO/COMMIT/PATH            files under their names in the repository
//! hf/ORG/REPO/partial/CHECKSUM.part  downloaded part of a file
//! locks/ORG--REPO.lock               lock for changes of a repository
//! ```
//!
//! Each commit of a repository has its own folder, so that a model's files always belong together and a model in use
//! keeps its files. The record is trusted no more than the hub: every name in it is checked again.

use std::fs::{self, File, TryLockError};

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::knobs;
use crate::model::{Format, Model, ModelFile};
use crate::names;
use crate::reference::{MAIN, Repo};

pub(crate) const RECORD: &str = "models.json";
const SCHEMA: &str = "leyden.models/1";
pub(crate) const PARTIAL: &str = "partial";
/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// Folder of pulled models. Nothing is created before the first pull.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// Removed model and the freed space.
#[derive(Debug)]
pub struct Removed {
    /// Name of the model, or of the repository if all of it was removed.
    pub name: String,
    /// Number of freed bytes.
    pub bytes: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    schema: String,
    pub(crate) models: Vec<Recorded>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    pub(crate) revision: String,
    pub(crate) commit: String,
    pub(crate) format: Format,
    /// File to open; `None` for a folder.
    pub(crate) main: Option<String>,
    pub(crate) pulled: u64,
    pub(crate) files: Vec<ModelFile>,
}

/// Lock of a repository's folder; unlocked when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Default for Record {
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), models: Vec::new() }
    }
}

impl Recorded {
    /// Returns true if a pull of one replaces the other.
    pub(crate) fn same_model(&self, other: &Self) -> bool {
        (&self.revision, &self.main) == (&other.revision, &other.main)
    }

    pub(crate) fn check(&self) -> std::result::Result<(), &'static str> {
        names::check_revision(&self.revision)?;
        if !names::is_commit(&self.commit) {
            return Err("a commit is none");
        }
        let is_file = matches!(self.format, Format::Gguf | Format::Onnx);
        if self.files.is_empty() || is_file != self.main.is_some() {
            return Err("a model has no files, or its format does not fit them");
        }
        if self.main.iter().any(|main| !self.files.iter().any(|file| file.path == *main)) {
            return Err("a model's main file is not among its files");
        }
        self.files.iter().try_for_each(|file| names::check_file(&file.path))
    }

    fn paths(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|file| (self.commit.as_str(), file.path.as_str()))
    }
}

impl Store {
    /// Returns the store in a folder.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the store named by the environment, else the one in the user's data folder.
    ///
    /// # Errors
    /// If no variable names the user's data folder.
    pub fn from_env() -> Result<Self> {
        Ok(Self::at(knobs::models_folder()?))
    }

    /// Returns the folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn repo_folder(&self, repo: &Repo) -> PathBuf {
        self.root.join("hf").join(repo.organisation()).join(repo.name())
    }

    /// Returns the folder of a model's files.
    pub(crate) fn model_folder(&self, model: &Model) -> PathBuf {
        self.repo_folder(&model.repo).join(&model.commit)
    }

    pub(crate) fn partial(&self, repo: &Repo, checksum: &str) -> PathBuf {
        self.repo_folder(repo).join(PARTIAL).join(format!("{checksum}.part"))
    }

    /// Returns the pulled models, and the errors of records that cannot be read.
    ///
    /// # Errors
    /// If the store's folder cannot be read.
    pub(crate) fn pulled(&self) -> Result<(Vec<Model>, Vec<Error>)> {
        let (mut models, mut problems) = (Vec::new(), Vec::new());
        for repo in self.repos()? {
            match self.record(&repo) {
                Ok(record) => {
                    models.extend(record.models.into_iter().map(|recorded| self.model(&repo, recorded)));
                }
                Err(error) => problems.push(error),
            }
        }
        Ok((models, problems))
    }

    /// Removes the files of `recorded`, except those of the models in `record`.
    pub(crate) fn remove_files(&self, repo: &Repo, recorded: &Recorded, record: &Record) -> Result<u64> {
        let folder = self.repo_folder(repo);
        let mut bytes = 0;
        for (commit, path) in recorded.paths() {
            if record.models.iter().flat_map(Recorded::paths).any(|kept| kept == (commit, path)) {
                continue;
            }
            let file = folder.join(commit).join(path);
            bytes += fs::metadata(&file).map_or(0, |metadata| metadata.len());
            durable::remove_file(&file)?;
            durable::remove_file(&evidence_of(&file))?;
            // Empty folders go too. The removal of the first non-empty one fails.
            for parent in file.ancestors().skip(1).take_while(|parent| *parent != folder) {
                if fs::remove_dir(parent).is_err() {
                    break;
                }
                durable::remove_file(&evidence_of(parent))?;
            }
        }
        Ok(bytes)
    }

    /// Removes the folders of a repository without models and unfinished downloads.
    pub(crate) fn sweep(&self, repo: &Repo, record: &Record) -> Result<()> {
        let folder = self.repo_folder(repo);
        let _ = fs::remove_dir(folder.join(PARTIAL));
        if record.models.is_empty() && !folder.join(PARTIAL).exists() {
            durable::remove_file(&folder.join(RECORD))?;
            // Fails for folders with files of others, which stay.
            let _ = fs::remove_dir(&folder).and_then(|()| fs::remove_dir(folder.parent().unwrap_or(&folder)));
        }
        Ok(())
    }

    /// Reads the record of a repository; empty if there is none.
    pub(crate) fn record(&self, repo: &Repo) -> Result<Record> {
        let path = self.repo_folder(repo).join(RECORD);
        let damaged = |why: String| Error::new(path.display().to_string(), ErrorKind::Record(why));
        let Some(record) = durable::read_record::<Record>(&path, MAX_RECORD_BYTES)? else {
            return Ok(Record::default());
        };
        if record.schema != SCHEMA {
            return Err(damaged(format!("schema `{}` instead of `{SCHEMA}`", record.schema)));
        }
        record.models.iter().try_for_each(Recorded::check).map_err(|why| damaged(why.to_owned()))?;
        Ok(record)
    }

    pub(crate) fn write_record(&self, repo: &Repo, record: &Record) -> Result<()> {
        let path = self.repo_folder(repo).join(RECORD);
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| Error::new(path.display().to_string(), ErrorKind::Record(error.to_string())))?;
        durable::write(&path, &bytes)
    }

    pub(crate) fn model(&self, repo: &Repo, recorded: Recorded) -> Model {
        let folder = self.repo_folder(repo).join(&recorded.commit);
        let revision = match recorded.revision.as_str() {
            MAIN => String::new(),
            other => format!("@{other}"),
        };
        let file = recorded.main.as_deref().unwrap_or(recorded.format.name());
        let damage = recorded.files.iter().find_map(|file| {
            let path = folder.join(&file.path);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() && metadata.len() == file.bytes => None,
                Ok(metadata) => {
                    Some(format!("{} has {} bytes instead of {}", file.path, metadata.len(), file.bytes))
                }
                Err(error) => Some(format!("{}: {error}", file.path)),
            }
        });
        Model {
            name: format!("{repo}{revision}:{file}"),
            repo: repo.clone(),
            path: recorded.main.as_ref().map_or_else(|| folder.clone(), |main| folder.join(main)),
            revision: recorded.revision,
            commit: recorded.commit,
            format: recorded.format,
            files: recorded.files,
            pulled: recorded.pulled,
            damage,
        }
    }

    /// Locks a repository; returns `None` if another process or thread has the lock.
    pub(crate) fn try_lock(&self, repo: &Repo) -> Result<Option<Lock>> {
        let folder = self.root.join("locks");
        durable::make_folder(&self.root, &folder)?;
        // Never removed: a process waiting for a removed file would hold a lock that no other process checks.
        let path = folder.join(format!("{}--{}.lock", repo.organisation(), repo.name()));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::io("open the lock", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(Error::io("lock", &path)(error)),
        }
    }

    pub(crate) fn repos(&self) -> Result<Vec<Repo>> {
        let mut repos = Vec::new();
        for organisation in folders(&self.root.join("hf"))? {
            for name in folders(&self.root.join("hf").join(&organisation))? {
                repos.extend(Repo::new(&organisation, &name));
            }
        }
        repos.sort();
        Ok(repos)
    }
}

/// Returns the path of the evidence of `leyden verify` about a file or folder, which goes with it.
fn evidence_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".evidence.json");
    PathBuf::from(name)
}

fn folders(path: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("read the folder", path))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io("read the folder", path))?;
        if entry.path().is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

/// Returns the size of all files in a folder and below, in bytes. Unreadable files count 0.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).fold(0, u64::saturating_add)
}
