//! [`Contents`]: pulled models, models under users' names and unfinished downloads of a store; finding and removing them.

use std::fs;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::model::Model;
use crate::named::Named;
use crate::naming::{fitting, without_scheme};
use crate::reference::{Reference, Repo, behind_scheme};
use crate::short_names::ShortName;
use crate::store::{PARTIAL, Removed, Store, bytes_below};

/// Contents of a store.
#[derive(Debug, Default)]
pub struct Contents {
    /// Pulled models, sorted by name.
    pub models: Vec<Model>,
    /// Models under names given by the user, sorted by name.
    pub named: Vec<Named>,
    /// Repositories with unfinished downloads, and the number of downloaded bytes.
    pub unfinished: Vec<(Repo, u64)>,
    /// Errors of records that could not be read.
    pub problems: Vec<Error>,
}

impl Store {
    /// Lists everything in the store, damaged models and unfinished downloads included. A store that does not exist is
    /// empty.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn contents(&self) -> Result<Contents> {
        let named = self.named()?;
        let (models, problems) = self.pulled()?;
        let mut contents = Contents { models, named, unfinished: Vec::new(), problems };
        for repo in self.repos()? {
            let bytes = bytes_below(&self.repo_folder(&repo).join(PARTIAL));
            if bytes > 0 {
                contents.unfinished.push((repo, bytes));
            }
        }
        contents.models.sort_by(|a, b| a.name.cmp(&b.name));
        contents.unfinished.sort();
        Ok(contents)
    }

    /// Finds a model by [`Model::name`] or any shorter form that fits one model only: `ORG/REPO`, `ORG/REPO:Q4_K_M`, the
    /// repository's name, the file's name with or without ending. `hf:` or the hub's address may precede it. A
    /// [`ShortName`] is tried if nothing else fits.
    ///
    /// # Errors
    /// If no model fits ([`ErrorKind::NoSuchModel`]), or several do.
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

    /// Returns the models that fit a name without a scheme.
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

    /// Removes a [`Named`] model, or a pulled model and its files, except files shared with other models. `ORG/REPO` of a
    /// repository without models removes its unfinished downloads or its damaged record.
    ///
    /// # Errors
    /// If no model fits, several do, a pull of the repository is running, or a file operation fails.
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
        // The record first: a listed model with missing files would count as damaged.
        self.write_record(&model.repo, &record)?;
        let mut bytes = 0;
        for recorded in &gone {
            bytes += self.remove_files(&model.repo, recorded, &record)?;
        }
        self.sweep(&model.repo, &record)?;
        Ok(Removed { name: model.name, bytes })
    }

    /// Removes a repository with a damaged record or without models; returns `why` if there is nothing to remove.
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

    /// Removes the model at a path like [`Store::remove`]; returns `None` if the store has no model there.
    ///
    /// # Errors
    /// Errors of [`Store::remove`].
    pub fn remove_at(&self, path: &Path) -> Result<Option<Removed>> {
        let contents = self.contents()?;
        if let Some(named) = contents.named.iter().find(|named| named.path == path) {
            return self.remove_named(named).map(Some);
        }
        match contents.models.iter().find(|model| model.path == path) {
            Some(model) => self.remove(&model.name).map(Some),
            None => Ok(None),
        }
    }
}
