//! [`Store::add_pulled`]: a pulled model of another store, from verified files.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Format, Model, ModelFile};
use crate::reference::Repo;
use crate::store::{Recorded, Store};

/// Place of a model on the hub, as a store records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Repository.
    pub repo: Repo,
    /// Branch, tag or commit of the pull.
    pub revision: String,
    /// Commit.
    pub commit: String,
    /// Format.
    pub format: Format,
    /// File to open; `None` for a folder.
    pub main: Option<String>,
}

impl Origin {
    /// Returns the place, from texts of untrusted origin.
    ///
    /// # Errors
    /// The text that is not valid.
    pub fn new(repo: &str, revision: &str, commit: &str, format: &str, main: Option<&str>) -> Result<Origin> {
        let wrong = |why: &'static str| Error::new(repo, ErrorKind::Name(why));
        let (organisation, name) = repo.split_once('/').ok_or_else(|| wrong("want ORG/REPO"))?;
        let formats = [Format::Gguf, Format::Safetensors, Format::Pytorch, Format::Onnx];
        let format = formats.into_iter().find(|known| known.name() == format);
        Ok(Origin {
            repo: Repo::new(organisation, name).map_err(wrong)?,
            revision: revision.to_owned(),
            commit: commit.to_owned(),
            format: format.ok_or_else(|| wrong("its format is unknown"))?,
            main: main.map(str::to_owned),
        })
    }

    fn recorded(&self, files: &[ModelFile]) -> Result<Recorded> {
        let recorded = Recorded {
            revision: self.revision.clone(),
            commit: self.commit.clone(),
            format: self.format,
            main: self.main.clone(),
            pulled: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
            files: files.to_vec(),
        };
        recorded.check().map_err(|why| Error::new(self.repo.to_string(), ErrorKind::Name(why)))?;
        Ok(recorded)
    }
}

impl Store {
    /// Returns the pulled model that [`add_pulled`](Self::add_pulled) would replace: of the same repository, revision and
    /// main file.
    ///
    /// # Errors
    /// If the place is not valid, or the record of the repository cannot be read.
    pub fn pulled_from(&self, origin: &Origin, files: &[ModelFile]) -> Result<Option<Model>> {
        let recorded = origin.recorded(files)?;
        let found = self.record(&origin.repo)?.models.into_iter().find(|other| other.same_model(&recorded));
        Ok(found.map(|found| self.model(&origin.repo, found)))
    }

    /// Adds a model from complete and verified files, which lie in `folder` on the disk of the store and are moved from
    /// there, as if it had been pulled. A former model of the repository, revision and main file is replaced.
    ///
    /// # Errors
    /// If the place or a file's path is not valid, another process changes the repository, or a file operation fails.
    pub fn add_pulled(&self, origin: &Origin, folder: &Path, files: &[ModelFile]) -> Result<Model> {
        let recorded = origin.recorded(files)?;
        let repo = &origin.repo;
        let _lock = self.try_lock(repo)?.ok_or_else(|| Error::new(repo.to_string(), ErrorKind::Busy))?;
        let mut record = self.record(repo)?;
        let commit = self.repo_folder(repo).join(&origin.commit);
        for file in files {
            let place = commit.join(&file.path);
            let parent = place.parent().unwrap_or(&commit);
            durable::make_folder(self.root(), parent)?;
            let from = folder.join(&file.path);
            fs::rename(&from, &place).map_err(Error::io("rename", &from))?;
            durable::flush_folder(parent)?;
        }
        let (replaced, kept): (Vec<_>, Vec<_>) =
            record.models.drain(..).partition(|other| other.same_model(&recorded));
        record.models = kept;
        record.models.push(recorded.clone());
        self.write_record(repo, &record)?;
        for old in &replaced {
            self.remove_files(repo, old, &record)?;
        }
        Ok(self.model(repo, recorded))
    }
}

impl Model {
    /// Returns its place on the hub.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let folder = self.path.ancestors().find(|folder| folder.ends_with(&self.commit));
        let main = folder.and_then(|folder| self.path.strip_prefix(folder).ok());
        let main = main.map(|main| main.to_string_lossy().into_owned()).filter(|main| !main.is_empty());
        Origin {
            repo: self.repo.clone(),
            revision: self.revision.clone(),
            commit: self.commit.clone(),
            format: self.format,
            main,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::sha256_of_bytes;

    #[test]
    fn an_added_model_is_found_like_a_pulled_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("store"));
        let add = |commit: &str, content: &str| {
            let from = folder.path().join("from");
            fs::create_dir_all(from.join("sub")).unwrap();
            fs::write(from.join("sub/m-Q4_0.gguf"), content).unwrap();
            let file = ModelFile {
                path: "sub/m-Q4_0.gguf".to_owned(),
                bytes: content.len() as u64,
                sha256: sha256_of_bytes(content.as_bytes()),
            };
            let origin = Origin::new("org/repo", "main", commit, "gguf", Some(&file.path)).unwrap();
            let files = std::slice::from_ref(&file);
            let before = store.pulled_from(&origin, files).unwrap().map(|model| model.commit);
            let model = store.add_pulled(&origin, &from, files).unwrap();
            assert_eq!((model.origin(), model.damage.clone()), (origin, None));
            (before, model)
        };
        let (none, first) = add(&"0a".repeat(20), "GGUF1");
        assert_eq!((none, first.name.as_str()), (None, "org/repo:sub/m-Q4_0.gguf"));
        fs::write(first.path.with_file_name("m-Q4_0.gguf.evidence.json"), "{}").unwrap();
        let (before, second) = add(&"0b".repeat(20), "GGUF22");
        assert_eq!(before, Some("0a".repeat(20)));
        assert!(!first.path.parent().unwrap().exists(), "the former files are gone, evidence included");
        assert_eq!(fs::read(store.find("org/repo:Q4_0").unwrap().path).unwrap(), b"GGUF22");
        let (before, third) = add(&"0b".repeat(20), "GGUF22");
        assert_eq!((before.is_some(), third.path == second.path), (true, true));
        assert!(third.path.exists() && store.contents().unwrap().models.len() == 1);
    }

    #[test]
    fn hostile_places_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("store"));
        let commit = "0a".repeat(20);
        let file = |path: &str| ModelFile { path: path.to_owned(), bytes: 1, sha256: "ab".repeat(32) };
        for (repo, format) in [("../x", "gguf"), ("org", "gguf"), ("org/repo", "exe"), ("org/../x", "gguf")] {
            assert!(Origin::new(repo, "main", &commit, format, None).is_err(), "{repo}");
        }
        for (revision, commit, main) in
            [("main", "../..", "m.gguf"), ("../x", &commit[..], "m.gguf"), ("main", &commit, "other.gguf")]
        {
            let origin = Origin::new("org/repo", revision, commit, "gguf", Some(main)).unwrap();
            assert!(
                store.add_pulled(&origin, folder.path(), &[file("m.gguf")]).is_err(),
                "{revision} {commit}"
            );
        }
        let origin = Origin::new("org/repo", "main", &commit, "gguf", Some("../m.gguf")).unwrap();
        assert!(store.add_pulled(&origin, folder.path(), &[file("../m.gguf")]).is_err());
        assert!(!store.root().exists());
    }
}
