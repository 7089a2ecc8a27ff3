//! [`Store`]: the folder of pulled models.
//!
//! ```text
//! hf/ORG/REPO/models.json            record: a model exists once it stands here, after all of its files
//! hf/ORG/REPO/COMMIT/PATH            files under the names that they have in the repository
//! hf/ORG/REPO/partial/CHECKSUM.part  what has arrived of a file
//! locks/ORG--REPO.lock               held while a repository is changed
//! ```
//!
//! A new commit of a repository gets a folder of its own, so that a model's files always belong together, and a model
//! that is in use keeps its files. The record is not trusted more than the hub: every name in it is checked again.

use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::knobs;
use crate::names;
use crate::naming::{fitting, without_scheme};
use crate::reference::{MAIN, Reference, Repo, behind_scheme};
use crate::short_names::ShortName;

pub(crate) const RECORD: &str = "models.json";
const SCHEMA: &str = "leyden.models/1";
const PARTIAL: &str = "partial";
/// Longest record that is read.
const LONGEST_RECORD: u64 = 16 << 20;

/// The folder of pulled models. Nothing is created before the first pull.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// How a model is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One GGUF file, or the parts of one.
    Gguf,
    /// A folder with safetensors files, `config.json` and a tokenizer.
    Safetensors,
    /// The same with PyTorch's `pytorch_model.bin`.
    Pytorch,
    /// An ONNX model, and such a folder around it.
    Onnx,
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::Safetensors => "safetensors",
            Self::Pytorch => "pytorch",
            Self::Onnx => "onnx",
        }
    }
}

/// A model in the store.
#[derive(Debug, Clone)]
pub struct Model {
    /// `ORG/REPO[@REVISION]:FILE`; with `hf:` in front it is the reference that pulls it.
    pub name: String,
    /// The repository that it comes from.
    pub repo: Repo,
    /// The branch, tag or commit that was asked for.
    pub revision: String,
    /// The commit that this was then.
    pub commit: String,
    /// How it is stored.
    pub format: Format,
    /// The file to open, the first part of a split one, or the folder of a checkpoint in safetensors or PyTorch's files.
    pub path: PathBuf,
    /// Its files.
    pub files: Vec<ModelFile>,
    /// When it was pulled, in seconds since 1970.
    pub pulled: u64,
    /// Why it cannot be used, if so: a file is missing or has the wrong length.
    pub damage: Option<String>,
}

/// A file of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Its path in the repository.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum, as it was when it was pulled.
    pub sha256: String,
}

impl Model {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }
}

/// All that is in the store.
#[derive(Debug, Default)]
pub struct Contents {
    /// The models, by name.
    pub models: Vec<Model>,
    /// The models under names that the user gave, by name.
    pub named: Vec<crate::named::Named>,
    /// Repositories with downloads that were not finished, and the bytes that have arrived.
    pub unfinished: Vec<(Repo, u64)>,
    /// What could not be read.
    pub problems: Vec<Error>,
}

/// What was removed.
#[derive(Debug)]
pub struct Removed {
    /// The model, or the repository if all of it was removed.
    pub name: String,
    /// Bytes of files that are gone.
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
    /// The file to open; none for a folder.
    pub(crate) main: Option<String>,
    pub(crate) pulled: u64,
    pub(crate) files: Vec<ModelFile>,
}

/// Held while a repository's folder is changed.
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
    /// Whether a pull of one replaces the other.
    pub(crate) fn same_model(&self, other: &Self) -> bool {
        (&self.revision, &self.main) == (&other.revision, &other.main)
    }

    fn check(&self) -> std::result::Result<(), &'static str> {
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
    /// The store in a folder.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The store that the environment names, or the user's.
    ///
    /// # Errors
    /// No variable says where the user's data is.
    pub fn from_env() -> Result<Self> {
        Ok(Self::at(knobs::models_folder()?))
    }

    /// Its folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn repo_folder(&self, repo: &Repo) -> PathBuf {
        self.root.join("hf").join(repo.organisation()).join(repo.name())
    }

    /// The folder of a model's files.
    pub(crate) fn model_folder(&self, model: &Model) -> PathBuf {
        self.repo_folder(&model.repo).join(&model.commit)
    }

    pub(crate) fn partial(&self, repo: &Repo, checksum: &str) -> PathBuf {
        self.repo_folder(repo).join(PARTIAL).join(format!("{checksum}.part"))
    }

    /// Everything in the store, damaged and unfinished things too. A store that does not exist is empty.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Contents { named: self.named()?, ..Contents::default() };
        for repo in self.repos()? {
            match self.record(&repo) {
                Ok(record) => {
                    contents
                        .models
                        .extend(record.models.into_iter().map(|recorded| self.model(&repo, recorded)));
                }
                Err(error) => contents.problems.push(error),
            }
            let bytes = bytes_below(&self.repo_folder(&repo).join(PARTIAL));
            if bytes > 0 {
                contents.unfinished.push((repo, bytes));
            }
        }
        contents.models.sort_by(|a, b| a.name.cmp(&b.name));
        contents.unfinished.sort();
        Ok(contents)
    }

    /// The model of this name: as [`Model::name`] has it, or any shorter form that fits one model alone: `ORG/REPO`,
    /// `ORG/REPO:Q4_K_M`, the repository's name, the file's name with or without ending. `hf:` and the hub's address in
    /// front are allowed; a [`ShortName`] means its model where nothing else fits.
    ///
    /// # Errors
    /// No model fits ([`ErrorKind::NoSuchModel`]), or several do.
    pub fn find(&self, name: &str) -> Result<Model> {
        let mut found = self.fitting(behind_scheme(name).unwrap_or(name))?;
        if let (true, Some(short)) = (found.is_empty(), ShortName::find(name)) {
            found = self.fitting(&without_scheme(&short.reference))?;
        }
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(Error::new(name, ErrorKind::NoSuchModel { path_too: false })),
            (Some(model), true) => Ok(model),
            (Some(last), false) => {
                let all = found.into_iter().chain([last]);
                let candidates = all.map(|model| (model.name.clone(), model.bytes())).collect();
                Err(Error::new(name, ErrorKind::Ambiguous { candidates }))
            }
        }
    }

    /// The models that a name without a scheme fits.
    fn fitting(&self, name: &str) -> Result<Vec<Model>> {
        let models: Vec<Model> = match Reference::without_scheme(name) {
            Ok(reference) => {
                let record = self.record(reference.repo())?;
                record.models.into_iter().map(|recorded| self.model(reference.repo(), recorded)).collect()
            }
            Err(_) => self.contents()?.models,
        };
        Ok(fitting(&models, name).into_iter().cloned().collect())
    }

    /// Removes a [`Named`](crate::Named) model, or a pulled one and those of its files that no other model has. `ORG/REPO` of a
    /// repository that holds unfinished downloads or a damaged record, and no model, removes these.
    ///
    /// # Errors
    /// No model fits, or several do, or a pull is at work on the repository, or the system refuses.
    pub fn remove(&self, name: &str) -> Result<Removed> {
        if let Some(named) = self.find_named(name)? {
            return self.remove_named(&named);
        }
        let model = match self.find(name) {
            Ok(model) => model,
            Err(error) => {
                let whole = match error.kind() {
                    ErrorKind::NoSuchModel { .. } | ErrorKind::Record(_) => Reference::named(name).ok(),
                    _ => None,
                };
                return match whole.filter(|whole| without_scheme(whole) == whole.repo().to_string()) {
                    Some(whole) => self.remove_rest(whole.repo(), error),
                    None => Err(error),
                };
            }
        };
        let _lock = self.try_lock(&model.repo)?.ok_or_else(|| Error::new(name, ErrorKind::Busy))?;
        let mut record = self.record(&model.repo)?;
        let (gone, kept): (Vec<_>, Vec<_>) = record
            .models
            .into_iter()
            .partition(|recorded| self.model(&model.repo, recorded.clone()).name == model.name);
        record.models = kept;
        // The record first: a model whose files go while it is listed would be a damaged one.
        self.write_record(&model.repo, &record)?;
        let mut bytes = 0;
        for recorded in &gone {
            bytes += self.remove_files(&model.repo, recorded, &record)?;
        }
        self.sweep(&model.repo, &record)?;
        Ok(Removed { name: model.name, bytes })
    }

    /// Removes a repository that has a damaged record, or no model; `why` is the error if there is nothing at all.
    fn remove_rest(&self, repo: &Repo, why: Error) -> Result<Removed> {
        let folder = self.repo_folder(repo);
        let has_models = self.record(repo).is_ok_and(|record| !record.models.is_empty());
        if !folder.is_dir() || has_models {
            return Err(why);
        }
        let _lock = self.try_lock(repo)?.ok_or_else(|| Error::new(repo.to_string(), ErrorKind::Busy))?;
        let bytes = bytes_below(&folder);
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
        Ok(Removed { name: repo.to_string(), bytes })
    }

    /// Removes the files of `recorded` that no model in `record` has.
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
            // The folders that are empty now; removing one that is not fails, which ends it.
            for parent in file.ancestors().skip(1).take_while(|parent| *parent != folder) {
                if fs::remove_dir(parent).is_err() {
                    break;
                }
            }
        }
        Ok(bytes)
    }

    /// Removes the folders of a repository that has neither models nor unfinished downloads.
    fn sweep(&self, repo: &Repo, record: &Record) -> Result<()> {
        let folder = self.repo_folder(repo);
        let _ = fs::remove_dir(folder.join(PARTIAL));
        if record.models.is_empty() && !folder.join(PARTIAL).exists() {
            durable::remove_file(&folder.join(RECORD))?;
            // Each fails, rightly, where something is left that leyden did not make.
            let _ = fs::remove_dir(&folder).and_then(|()| fs::remove_dir(folder.parent().unwrap_or(&folder)));
        }
        Ok(())
    }

    /// The record of a repository; empty where there is none.
    pub(crate) fn record(&self, repo: &Repo) -> Result<Record> {
        let path = self.repo_folder(repo).join(RECORD);
        let damaged = |why: String| Error::new(path.display().to_string(), ErrorKind::Record(why));
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Record::default()),
            opened => opened.map_err(Error::io("open", &path))?,
        };
        let mut bytes = Vec::new();
        file.take(LONGEST_RECORD).read_to_end(&mut bytes).map_err(Error::io("read", &path))?;
        let record: Record = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
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

    /// The lock of a repository, or none if another process or thread has it.
    pub(crate) fn try_lock(&self, repo: &Repo) -> Result<Option<Lock>> {
        let folder = self.root.join("locks");
        durable::make_folder(&self.root, &folder)?;
        // Never removed: who waits for a removed file would hold a lock that nobody else sees.
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

    fn repos(&self) -> Result<Vec<Repo>> {
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

/// Bytes of the files in a folder and below; what cannot be read counts nothing.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).fold(0, u64::saturating_add)
}
