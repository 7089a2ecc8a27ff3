//! [`Named`]: model in the store under a name given by the user.
//!
//! ```text
//! named/NAME/name.json    record: name, files with checksums, original model, defaults
//! named/NAME/files/PATH   files: hard links to the original data where possible, else copies
//! ```
//!
//! Each name has its own files, so that the removal of one name leaves other names complete. A new folder is prepared
//! beside its place and renamed, so that a name always means either the old or the new model.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use leyden_files::TemporaryFolder;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest;
use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::file_names;
use crate::fingerprint::sha256_of_file;
use crate::model::ModelFile;
use crate::names;
use crate::reference::Reference;
use crate::short_names::ShortName;
use crate::store::{Removed, Store};

pub(crate) const RECORD: &str = "name.json";
const SCHEMA: &str = "leyden.name/1";
/// Maximum size of a record in bytes.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// Maximum length of a name in characters.
const MAX_NAME_CHARS: usize = 128;
/// Maximum number of files of a folder.
const MAX_FILES: usize = 1000;
/// Maximum number of folders between a model's folder and a file.
const MAX_DEPTH: usize = 4;

/// Default values of requests. They are stored unchecked; the server of the model checks them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Defaults {
    /// System message of conversations without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Messages before those of each conversation: objects with `role` and `content`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
    /// Parameters under the names of Ollama's Modelfile, such as `temperature`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
}

impl Defaults {
    /// Returns these defaults, with missing values taken from `others`.
    #[must_use]
    fn over(self, others: Defaults) -> Defaults {
        let mut parameters = others.parameters;
        parameters.extend(self.parameters);
        Defaults {
            system: self.system.or(others.system),
            messages: if self.messages.is_empty() { others.messages } else { self.messages },
            parameters,
        }
    }
}

/// Model under a name given by the user.
#[derive(Debug, Clone)]
pub struct Named {
    /// Name as given.
    pub name: String,
    /// File to open, the first part of a split file, or the folder.
    pub path: PathBuf,
    /// Files of the model.
    pub files: Vec<ModelFile>,
    /// Original model: a name or a path.
    pub from: String,
    /// Time at which the name was given, in seconds since 1970.
    pub created: u64,
    /// Default values of requests.
    pub defaults: Defaults,
    /// Reason why it cannot be used, if any: a file is missing or has the wrong length.
    pub damage: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    schema: String,
    name: String,
    /// File to open; `None` for a folder.
    main: Option<String>,
    files: Vec<ModelFile>,
    from: String,
    created: u64,
    #[serde(default)]
    defaults: Defaults,
}

impl Named {
    /// Returns the size of all files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Returns a text that differs between two models given the same name.
    #[must_use]
    pub fn version(&self) -> String {
        let defaults = serde_json::to_string(&self.defaults).unwrap_or_default();
        format!("{} {} {defaults}", self.created, self.digest())
    }

    /// Returns the SHA-256, computed like [`Model::digest`](crate::Model::digest).
    #[must_use]
    pub fn digest(&self) -> String {
        digest::of_files(self.files.iter().map(|file| (file.path.clone(), file.sha256.clone())).collect())
    }
}

/// Files of a model: path of each, its path below the model's folder, and its SHA-256 if known.
#[derive(Debug, Clone)]
pub struct Source {
    /// File to open, below the folder; `None` for the folder itself.
    pub main: Option<String>,
    /// The files.
    pub files: Vec<(PathBuf, String, Option<String>)>,
}

impl Source {
    /// Returns the files of the model at a path outside of a store: a GGUF file with all its parts, an ONNX file with the
    /// folder of its configuration, or a folder.
    ///
    /// # Errors
    /// If the path is not a model's file or folder.
    pub fn at(path: &Path) -> Result<Source> {
        let whole = fs::canonicalize(path).map_err(Error::io("find", path))?;
        if whole.is_dir() { of_folder(&whole) } else { of_file(&whole) }
    }
}

impl Store {
    /// Lists the models under names given by the user, sorted by name. Folders without a readable record are left out.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn named(&self) -> Result<Vec<Named>> {
        let folder = self.root().join("named");
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io("read the folder", &folder))?,
        };
        let mut all: Vec<Named> = entries
            .flatten()
            // Folders being prepared begin with a dot.
            .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
            .filter_map(|entry| read(&entry.path()).ok().flatten())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Finds a model by a name given by the user, in any case and with or without `:latest`.
    ///
    /// # Errors
    /// If its record cannot be read.
    pub fn find_named(&self, name: &str) -> Result<Option<Named>> {
        let plain = plain(name);
        if check(plain).is_err() {
            return Ok(None);
        }
        read(&self.named_folder(plain))
    }

    /// Gives a name to a file, to a folder, or to a model of the store by its path. The model stays under this name when
    /// another name of it is removed. A former model of the name is replaced. A model that already has a name keeps its
    /// defaults, except those set in `defaults`. Files are hard links where possible, else copies; a linked file that is
    /// modified in place changes under the name too.
    ///
    /// # Errors
    /// If the name is invalid, `path` is not a model's file or folder, or a file operation fails.
    pub fn give_name(&self, path: &Path, name: &str, defaults: Defaults) -> Result<Named> {
        let plain = plain(name);
        check(plain).map_err(|why| Error::new(name, ErrorKind::Name(why)))?;
        if let Some(named) = self.named()?.into_iter().find(|named| named.path == path) {
            let folder = self.named_folder(&named.name).join("files");
            let defaults = defaults.over(named.defaults);
            return self.make(of_record(&folder, path, &named.files), named.from, plain, defaults);
        }
        if let Some(model) = self.pulled()?.0.into_iter().find(|model| model.path == path) {
            if let Some(why) = &model.damage {
                return Err(Error::new(model.name.clone(), ErrorKind::Damaged(why.clone())));
            }
            let source = of_record(&self.model_folder(&model), path, &model.files);
            return self.make(source, model.name, plain, defaults);
        }
        let whole = fs::canonicalize(path).map_err(Error::io("find", path))?;
        self.make(Source::at(&whole)?, whole.display().to_string(), plain, defaults)
    }

    /// Adds a model from complete and verified files, which lie in `folder` on the disk of the store, under a name like
    /// [`give_name`](Self::give_name). `from` is the description of the original.
    ///
    /// # Errors
    /// If the name or a file's path is invalid, or a file operation fails.
    pub fn add_named(
        &self,
        name: &str,
        (folder, main): (&Path, Option<&str>),
        files: &[ModelFile],
        (from, defaults): (&str, Defaults),
    ) -> Result<Named> {
        let plain = plain(name);
        check(plain).map_err(|why| Error::new(name, ErrorKind::Name(why)))?;
        for file in files.iter().map(|file| &file.path[..]).chain(main) {
            names::check_file(file).map_err(|why| Error::new(file, ErrorKind::Name(why)))?;
        }
        let path = main.map_or_else(|| folder.to_owned(), |main| folder.join(main));
        self.make(of_record(folder, &path, files), from.to_owned(), plain, defaults)
    }

    /// Checks that a name may be given to a model.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check_new_name(name: &str) -> Result<()> {
        check(plain(name)).map_err(|why| Error::new(name, ErrorKind::Name(why)))
    }

    /// Removes a name and its files.
    ///
    /// # Errors
    /// If a file operation fails.
    pub fn remove_named(&self, named: &Named) -> Result<Removed> {
        let _lock = self.lock_names()?;
        let folder = self.named_folder(&named.name);
        // Data with another hard link stays on the disk.
        let freed = named.files.iter().map(|file| {
            let metadata = fs::metadata(folder.join("files").join(&file.path));
            metadata.map_or(0, |m| if std::os::unix::fs::MetadataExt::nlink(&m) == 1 { m.len() } else { 0 })
        });
        let bytes = freed.sum();
        durable::remove_file(&folder.join(RECORD))?;
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
        Ok(Removed { name: named.name.clone(), bytes })
    }

    /// Creates the folder of a name.
    fn make(&self, source: Source, from: String, plain: &str, defaults: Defaults) -> Result<Named> {
        let _lock = self.lock_names()?;
        let parent = self.root().join("named");
        durable::make_folder(self.root(), &parent)?;
        let making = TemporaryFolder::create(&parent).map_err(Error::io("create a folder in", &parent))?;
        let mut files = Vec::new();
        for (path, inside, sha256) in source.files {
            let place = making.path().join("files").join(&inside);
            let folder = place.parent().unwrap_or(&place);
            fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
            // Target of a symbolic link.
            let path = fs::canonicalize(&path).map_err(Error::io("find", &path))?;
            if fs::hard_link(&path, &place).is_err() {
                fs::copy(&path, &place).map_err(Error::io("copy", &path))?;
                File::open(&place).and_then(|file| file.sync_all()).map_err(Error::io("flush", &place))?;
            }
            let bytes = fs::metadata(&place).map_err(Error::io("examine", &place))?.len();
            let sha256 = sha256.map_or_else(|| sha256_of_file(&place, None), Ok)?;
            files.push(ModelFile { path: inside, bytes, sha256 });
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let (schema, name) = (SCHEMA.to_owned(), plain.to_owned());
        let record = Record { schema, name, main: source.main, files, from, created, defaults };
        let text = serde_json::to_vec_pretty(&record)
            .map_err(|error| Error::new(plain, ErrorKind::Record(error.to_string())))?;
        if text.len() as u64 > MAX_RECORD_BYTES {
            let why = format!("it would take {} bytes; {MAX_RECORD_BYTES} are the most", text.len());
            return Err(Error::new(plain, ErrorKind::Record(why)));
        }
        durable::write(&making.path().join(RECORD), &text)?;
        let place = self.named_folder(plain);
        // The former model of the name is moved away first, and removed once the new one is in its place.
        let former = TemporaryFolder::create(&parent).map_err(Error::io("create a folder in", &parent))?;
        if place.exists() {
            fs::rename(&place, former.path().join("former")).map_err(Error::io("rename", &place))?;
        }
        making.rename(&place).map_err(Error::io("rename to", &place))?;
        durable::flush_folder(&parent)?;
        read(&place)?.ok_or_else(|| Error::new(plain, ErrorKind::NoSuchModel { path_too: false }))
    }

    fn named_folder(&self, name: &str) -> PathBuf {
        self.root().join("named").join(names::percent_encoded(&name.to_ascii_lowercase(), false))
    }

    /// Waits until no other process or thread changes names.
    fn lock_names(&self) -> Result<File> {
        let folder = self.root().join("locks");
        durable::make_folder(self.root(), &folder)?;
        // Never removed: a process waiting for a removed file would hold a lock that no other process checks.
        let path = folder.join("named.lock");
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let file = open.map_err(Error::io("open the lock", &path))?;
        file.lock().map_err(Error::io("lock", &path))?;
        Ok(file)
    }
}

/// Returns a name without Ollama's default tag `:latest`.
fn plain(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((front, tag)) if tag.eq_ignore_ascii_case("latest") => front,
        _ => name,
    }
}

/// Checks a name: `NAME`, `NAME:TAG` or `ORG/NAME:TAG` of ASCII letters, digits and `. _ -`, and not a short name.
fn check(name: &str) -> std::result::Result<(), &'static str> {
    if Reference::is_one(name) || name.len() > MAX_NAME_CHARS {
        return Err("it has a scheme, or is longer than 128 characters");
    }
    let (front, tag) = name.split_once(':').map_or((name, None), |(front, tag)| (front, Some(tag)));
    if front.split('/').count() > 2 {
        return Err("it has more than one `/`");
    }
    front.split('/').chain(tag).try_for_each(names::check_part)?;
    let lower = name.to_ascii_lowercase();
    if [".gguf", ".onnx", ".safetensors", ".bin"].iter().any(|ending| lower.ends_with(ending)) {
        return Err("it ends as a file does");
    }
    match ShortName::find(name) {
        Some(_) => Err("it is the short name of a model on the hub"),
        None => Ok(()),
    }
}

/// Reads the record in the folder of a name; `None` if there is no record.
fn read(folder: &Path) -> Result<Option<Named>> {
    let path = folder.join(RECORD);
    let damaged = |why: String| Error::new(path.display().to_string(), ErrorKind::Record(why));
    let Some(record) = durable::read_record::<Record>(&path, MAX_RECORD_BYTES)? else { return Ok(None) };
    if record.schema != SCHEMA {
        return Err(damaged(format!("schema `{}` instead of `{SCHEMA}`", record.schema)));
    }
    let mut inside = record.files.iter().map(|file| &file.path).chain(&record.main);
    inside.try_for_each(|path| names::check_file(path)).map_err(|why| damaged(why.to_owned()))?;
    if record.files.is_empty() {
        return Err(damaged("the model has no files".to_owned()));
    }
    let files = folder.join("files");
    let damage = record.files.iter().find_map(|file| match fs::metadata(files.join(&file.path)) {
        Ok(metadata) if metadata.len() == file.bytes => None,
        Ok(metadata) => Some(format!("{} has {} bytes instead of {}", file.path, metadata.len(), file.bytes)),
        Err(error) => Some(format!("{}: {error}", file.path)),
    });
    let path = record.main.map_or_else(|| files.clone(), |main| files.join(main));
    let Record { name, files, from, created, defaults, .. } = record;
    Ok(Some(Named { name, path, files, from, created, defaults, damage }))
}

/// Returns the files of a model with a record.
fn of_record(folder: &Path, path: &Path, files: &[ModelFile]) -> Source {
    let main = path.strip_prefix(folder).ok().filter(|main| !main.as_os_str().is_empty());
    Source {
        main: main.map(|main| main.to_string_lossy().into_owned()),
        files: files
            .iter()
            .map(|file| (folder.join(&file.path), file.path.clone(), Some(file.sha256.clone())))
            .collect(),
    }
}

/// Returns the files of a GGUF model, with all parts of a split one, or of an ONNX model with the folder of its
/// configuration.
fn of_file(path: &Path) -> Result<Source> {
    let no_model = |why: &str| Error::new(path.display().to_string(), ErrorKind::NoModel(why.to_owned()));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    names::check_file(name).map_err(no_model)?;
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx")) {
        let folder = path.ancestors().skip(1).take(2).find(|folder| is_described(folder));
        let folder = folder.ok_or_else(|| no_model("no config.json beside it or in the folder around"))?;
        let main = path.strip_prefix(folder).map(|main| main.to_string_lossy().into_owned());
        return Ok(Source { main: main.ok(), ..of_folder(folder)? });
    }
    let parts = file_names::parts(name)
        .ok_or_else(|| no_model("no GGUF or ONNX file; of a model in other files name the folder"))?;
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).map_err(Error::io("read", path))?;
    if &magic != b"GGUF" {
        return Err(no_model("no GGUF file: it does not begin with GGUF"));
    }
    let place = |name: String| (path.with_file_name(&name), name, None);
    Ok(Source { main: parts.first().cloned(), files: parts.into_iter().map(place).collect() })
}

/// Returns true for a folder with a file that describes a model.
fn is_described(folder: &Path) -> bool {
    ["config.json", "gliner_config.json"].iter().any(|name| folder.join(name).is_file())
}

/// Returns all files, except hidden ones, of a folder with a file that describes a model.
fn of_folder(folder: &Path) -> Result<Source> {
    let no_model = |why: String| Error::new(folder.display().to_string(), ErrorKind::NoModel(why));
    if !is_described(folder) {
        return Err(no_model("no config.json in the folder; of a GGUF file name the file".to_owned()));
    }
    let mut files = Vec::new();
    let mut open = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((at, front, depth)) = open.pop() {
        for entry in fs::read_dir(&at).map_err(Error::io("read the folder", &at))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            let inside = format!("{front}{name}");
            names::check_file(&inside).map_err(|why| no_model(format!("{inside}: {why}")))?;
            let path = fs::canonicalize(entry.path()).map_err(Error::io("find", &entry.path()))?;
            match () {
                () if path.is_file() => files.push((path, inside, None)),
                () if path.is_dir() && depth < MAX_DEPTH => {
                    open.push((path, format!("{inside}/"), depth + 1))
                }
                // Devices, and folders that are too deep.
                () => {}
            }
            if files.len() > MAX_FILES || open.len() > MAX_FILES {
                return Err(no_model(format!("more than {MAX_FILES} files are below the folder")));
            }
        }
    }
    files.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(Source { main: None, files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_names_that_live_on_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("store"));
        let file = folder.path().join("x.gguf");
        fs::write(&file, "GGUFabc").unwrap();
        let defaults = Defaults { system: Some("Be brief.".to_owned()), ..Defaults::default() };
        let first = store.give_name(&file, "mine:v1", defaults.clone()).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(fs::read(&first.path).unwrap(), b"GGUFabc");
        assert_eq!((first.defaults.clone(), first.bytes(), first.digest().len()), (defaults, 7, 64));
        let warm =
            Defaults { parameters: Map::from_iter([("seed".to_owned(), 1.into())]), ..Defaults::default() };
        let second = store.give_name(&first.path, "me/copy:latest", warm).unwrap();
        assert_eq!(second.defaults.system.as_deref(), Some("Be brief."));
        assert_eq!(second.defaults.parameters["seed"], 1);
        assert_eq!((second.name.as_str(), second.from.ends_with("x.gguf")), ("me/copy", true));
        assert_eq!(store.named().unwrap().len(), 2);
        for name in ["mine:v1", "MINE:v1", "me/copy", "me/copy:latest", "Me/Copy:Latest"] {
            assert!(store.find_named(name).unwrap().is_some(), "{name}");
        }
        assert_eq!(store.remove("mine:v1").unwrap().bytes, 0, "the other name has the data");
        assert_eq!(fs::read(store.find_named("me/copy").unwrap().unwrap().path).unwrap(), b"GGUFabc");
        assert_eq!(store.remove("me/copy").unwrap().bytes, 7);
        assert!(store.named().unwrap().is_empty());
        // A name is replaced as a whole, and the store's state tells of it.
        let mut stamps = vec![store.stamp().unwrap()];
        fs::write(&file, "GGUFnew").unwrap();
        for name in ["again", "AGAIN"] {
            store.give_name(&file, name, Defaults::default()).unwrap();
            let stamp = store.stamp().unwrap();
            assert_eq!(stamp, store.stamp().unwrap());
            assert!(!stamps.contains(&stamp));
            stamps.push(stamp);
        }
        assert_eq!(fs::read_dir(folder.path().join("store/named")).unwrap().count(), 1);
        assert_eq!(fs::read(store.find_named("again").unwrap().unwrap().path).unwrap(), b"GGUFnew");
        let place = store.find_named("again").unwrap().unwrap().path;
        fs::write(place.parent().unwrap().with_file_name("name.json"), "{").unwrap();
        assert!(matches!(store.find_named("again").unwrap_err().kind(), ErrorKind::Record(_)));
    }

    #[test]
    fn what_is_no_name_or_no_model_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("store"));
        let file = folder.path().join("x.gguf");
        fs::write(&file, "GGUFabc").unwrap();
        for name in ["", "a b", "../x", "a/b/c", "hf:a/b", "x.gguf", "smollm2", "a:", "a:b:c", "-a"] {
            let error = store.give_name(&file, name, Defaults::default()).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Name(_)) && error.is_usage(), "{name}: {error}");
            assert!(store.find_named(name).unwrap().is_none());
        }
        fs::write(folder.path().join("y.gguf"), "not one").unwrap();
        for path in ["y.gguf", "none.gguf", ""] {
            assert!(
                store.give_name(&folder.path().join(path), "mine", Defaults::default()).is_err(),
                "{path}"
            );
        }
        assert!(store.named().unwrap().is_empty());
    }
}
