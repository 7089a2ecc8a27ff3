//! `leyden bundle install`: nothing is visible before all of it is verified.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leyden_bundle::{Model, Verified};
use leyden_files::{OutputOptions, TemporaryFolder};
use leyden_hub::{Defaults, ModelFile, Origin, Store};
use leyden_verify::{evidence_path, sha256_of_file};
use serde_json::json;

use super::args::Install;
use super::meter::Meter;
use super::{facts, places};
use crate::cli::failure::Failure;
use crate::cli::knobs;

/// Verifies and installs.
pub(super) fn execute(args: &Install, out: &mut dyn Write) -> Result<(), Failure> {
    let key = args.trust.key()?;
    let store = Store::from_env()?;
    let nowhere =
        || Failure::usage("there is no home folder to install to").hint("name a folder with --to DIR");
    let to = args.to.clone().or_else(knobs::install_folder).ok_or_else(nowhere)?;
    if args.bundle.is_dir() {
        return Err(Failure::usage(format!("{}: a folder, and not a bundle", args.bundle.display()))
            .hint("leyden bundle verify checks an unpacked bundle; install takes the file"));
    }
    let root = store.root();
    fs::create_dir_all(root).map_err(failed("create the folder", root))?;
    // On the disk of the store, where the models' files are moved from here.
    let unpacked = TemporaryFolder::create(root).map_err(failed("create a folder in", root))?;
    let mut meter = Meter::new("verifying", args.bundle.metadata().map_or(0, |found| found.len()))?;
    let verified =
        leyden_bundle::unpack(&args.bundle, key.as_ref(), unpacked.path(), &mut |n| meter.heard(n))?;
    drop(meter);
    let job = Job { args, store: &store, from: unpacked.path(), verified: &verified, to: &to };
    let models =
        verified.contents.models.iter().map(|model| job.plan(model)).collect::<Result<Vec<_>, _>>()?;
    let program = job.plan_program()?;
    let mut lines = Vec::new();
    for (model, place) in verified.contents.models.iter().zip(&models) {
        let path = job.add(model, place)?;
        lines.push((model.name.clone(), path, place.is_there));
    }
    let papers = job.add_papers()?;
    if let Some((path, false)) = &program {
        job.add_program(path)?;
    }
    if args.json {
        let models: Vec<_> = lines
            .iter()
            .map(|(name, path, is_there)| json!({ "name": name, "path": path.display().to_string(), "was_there": is_there }))
            .collect();
        let document = json!({
            "key": verified.key,
            "models": models,
            "program": program.as_ref().map(|(path, _)| path.display().to_string()),
            "papers": papers.display().to_string(),
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    let mut facts = facts::of(&verified, key.is_some());
    for (name, path, is_there) in &lines {
        let was = if *is_there { ", which was there" } else { "" };
        facts.add("installed", format!("{name}: {}{was}", path.display()));
    }
    if let Some((path, is_there)) = &program {
        let was = if *is_there { ", which was there" } else { "" };
        facts.add("installed", format!("{}{was}", path.display()));
    }
    facts.add("papers", papers.display().to_string());
    if let Some(model) = verified.contents.models.first() {
        facts.add("next", format!("leyden run {}", model.name));
    }
    Ok(facts.write(out)?)
}

/// Returns a conversion for `map_err` on file operations.
fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure + use<> {
    let path = path.display().to_string();
    move |error| Failure::new(format!("{path}: cannot {action}: {error}"))
}

/// An installation whose bundle is verified.
struct Job<'a> {
    args: &'a Install,
    store: &'a Store,
    /// Folder with the entries.
    from: &'a Path,
    verified: &'a Verified,
    to: &'a Path,
}

/// Place of a model in the store.
struct Place {
    files: Vec<ModelFile>,
    origin: Option<Origin>,
    defaults: Defaults,
    /// True if the same files are there already.
    is_there: bool,
}

impl Job<'_> {
    /// Finds the place of a model; a different one of the same name is refused without --replace.
    fn plan(&self, model: &Model) -> Result<Place, Failure> {
        let file = |(path, bytes, sha256): (&str, u64, &str)| ModelFile {
            path: path.to_owned(),
            bytes,
            sha256: sha256.to_owned(),
        };
        let mut files: Vec<ModelFile> = self.verified.files_below(&model.folder).map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let same = |other: &[ModelFile], damage: &Option<String>| {
            let mut other = other.to_vec();
            other.sort_by(|a, b| a.path.cmp(&b.path));
            other == files && damage.is_none()
        };
        let defaults: Defaults = match &model.defaults {
            Some(value) => serde_json::from_value(value.clone())?,
            None => Defaults::default(),
        };
        let (origin, there) = match &model.hub {
            Some(hub) => {
                let origin =
                    Origin::new(&hub.repo, &hub.revision, &hub.commit, &hub.format, model.main.as_deref())?;
                let found = self.store.pulled_from(&origin, &files)?;
                let there =
                    found.map(|found| same(&found.files, &found.damage) && found.commit == origin.commit);
                (Some(origin), there)
            }
            None => {
                Store::check_new_name(&model.name)?;
                let found = self.store.find_named(&model.name)?;
                (None, found.map(|found| same(&found.files, &found.damage) && found.defaults == defaults))
            }
        };
        if there == Some(false) && !self.args.replace {
            return Err(Failure::new(format!("{}: the store has another model of this name", model.name))
                .hint("--replace replaces it; nothing was installed"));
        }
        Ok(Place { files, origin, defaults, is_there: there == Some(true) })
    }

    /// Adds a model to the store, with its evidence beside it; returns its path.
    fn add(&self, model: &Model, place: &Place) -> Result<PathBuf, Failure> {
        let folder = self.from.join(&model.folder);
        let path = match &place.origin {
            Some(origin) if place.is_there => {
                let found = self.store.pulled_from(origin, &place.files)?;
                found.map(|found| found.path).unwrap_or_default()
            }
            None if place.is_there => {
                self.store.find_named(&model.name)?.map(|found| found.path).unwrap_or_default()
            }
            Some(origin) => self.store.add_pulled(origin, &folder, &place.files)?.path,
            None => {
                let from = format!("bundle {}", self.args.bundle.display());
                let about = (&from[..], place.defaults.clone());
                let from = (folder.as_path(), model.main.as_deref());
                self.store.add_named(&model.name, from, &place.files, about)?.path
            }
        };
        if let Some(evidence) = &model.evidence {
            let text = fs::read(self.from.join(evidence)).map_err(failed("read", &path))?;
            let to = evidence_path(&path);
            leyden_files::write(&to, &text, OutputOptions::new().files_only())
                .map_err(failed("write", &to))?;
        }
        Ok(path)
    }

    /// Returns the path of the program, and whether it is there; a different one is refused without --replace.
    fn plan_program(&self) -> Result<Option<(PathBuf, bool)>, Failure> {
        let Some(program) = &self.verified.contents.program else { return Ok(None) };
        let name = Path::new(&program.file).file_name().unwrap_or_default();
        let path = self.to.join(places::PROGRAMS).join(name);
        let wanted = self.verified.files.iter().find(|(file, _)| file.name == program.file);
        if fs::symlink_metadata(&path).is_err() {
            return Ok(Some((path, false)));
        }
        let is_same =
            wanted.is_some_and(|(wanted, _)| sha256_of_file(&path).is_ok_and(|sum| sum == wanted.sha256));
        if !is_same && !self.args.replace {
            return Err(Failure::new(format!("{}: another program is there", path.display()))
                .hint("--replace replaces it, and --to DIR takes another place; nothing was installed"));
        }
        Ok(Some((path, is_same)))
    }

    fn add_program(&self, path: &Path) -> Result<(), Failure> {
        let Some(program) = &self.verified.contents.program else { return Ok(()) };
        let folder = path.parent().unwrap_or(self.to);
        fs::create_dir_all(folder).map_err(failed("create the folder", folder))?;
        let temporary = TemporaryFolder::create(folder).map_err(failed("create a folder in", folder))?;
        let new = temporary.path().join("program");
        // A copy keeps the mode.
        fs::copy(self.from.join(&program.file), &new).map_err(failed("write", &new))?;
        File::open(&new).and_then(|file| file.sync_all()).map_err(failed("flush", &new))?;
        // A rename replaces a program that runs.
        fs::rename(&new, path).map_err(failed("write", path))?;
        leyden_files::sync_folder(folder).map_err(failed("flush the folder", folder))
    }

    /// Copies everything but models and program into a folder of the bundle; returns its path.
    fn add_papers(&self) -> Result<PathBuf, Failure> {
        let signature = self.from.join("bundle.sig");
        let name = &sha256_of_file(&signature)?[..16];
        let all = self.to.join("share/leyden/bundles");
        let folder = all.join(name);
        // The name is that of the signature, so the same papers are there.
        if folder.is_dir() {
            return Ok(folder);
        }
        fs::create_dir_all(&all).map_err(failed("create the folder", &all))?;
        let temporary = TemporaryFolder::create(&all).map_err(failed("create a folder in", &all))?;
        let is_paper = |name: &&str| !name.starts_with("models/") && !name.starts_with("bin/");
        let names = self.verified.files.iter().map(|(file, _)| &file.name[..]).filter(is_paper);
        for name in names.chain(["bundle.sig"]) {
            let place = temporary.path().join(name);
            let parent = place.parent().unwrap_or(&all);
            fs::create_dir_all(parent).map_err(failed("create the folder", parent))?;
            fs::copy(self.from.join(name), &place).map_err(failed("write", &place))?;
            File::open(&place).and_then(|file| file.sync_all()).map_err(failed("flush", &place))?;
        }
        temporary.rename(&folder).map_err(failed("write", &folder))?;
        Ok(folder)
    }
}
