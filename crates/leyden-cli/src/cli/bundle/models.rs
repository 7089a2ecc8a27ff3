//! Models that go into a bundle: their files, and what lies beside them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_bundle::{Entry, Hub, Model, licence};
use leyden_hub::{Defaults, Source, Store};
use leyden_tensor::WeightSource;
use leyden_verify::{Signed, compare_files, evidence_path};

use super::args::Create;
use super::places;
use crate::cli::failure::Failure;
use crate::cli::text::printable;
use crate::cli::{import, model_file, verify};

/// A model with its entries.
pub(super) struct Found {
    pub(super) model: Model,
    pub(super) entries: Vec<Entry>,
    /// Path of the file or folder.
    path: PathBuf,
}

/// Finds all models, and gives each the evidence, calibrations and licences that belong to it.
pub(super) fn find_all(args: &Create) -> Result<Vec<Found>, Failure> {
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for named in &args.models {
        let found = find(named, &mut taken)?;
        if all.iter().any(|other: &Found| other.model.name.eq_ignore_ascii_case(&found.model.name)) {
            return Err(Failure::usage(format!("{}: two models have this name", found.model.name))
                .hint("give one another name: NAME=PATH"));
        }
        all.push(found);
    }
    for found in &mut all {
        found.beside(args)?;
    }
    for path in &args.evidence {
        let mut about = None;
        for found in &mut all {
            if found.is_subject(path)? {
                about = Some(found);
                break;
            }
        }
        let found = about.ok_or_else(|| {
            Failure::new(format!("{}: the evidence is about other files than the models", path.display()))
                .hint("leyden verify --check EVIDENCE names each difference")
        })?;
        found.add_evidence(path);
    }
    let one = |what: &str| Failure::usage(format!("{what} is for one model, and there are several"));
    for path in &args.calibration {
        let [found] = &mut all[..] else {
            return Err(one("--calibration").hint("put the file beside its model, as MODEL.calibration.json"));
        };
        found.add_calibration(path)?;
    }
    for path in &args.licence {
        let [found] = &mut all[..] else {
            return Err(one("--licence").hint("put the file beside its model, as LICENSE"));
        };
        found.add_licence(path)?;
    }
    all.iter_mut().for_each(Found::describe_licence);
    Ok(all)
}

/// Splits `NAME=PATH`, unless all of it is a path.
fn split(named: &Path) -> (Option<&str>, &Path) {
    let parts = named.to_str().filter(|_| !named.exists()).and_then(|text| text.split_once('='));
    match parts {
        Some((name, path)) if Path::new(path).exists() => (Some(name), Path::new(path)),
        _ => (None, named),
    }
}

fn find(named: &Path, taken: &mut BTreeSet<String>) -> Result<Found, Failure> {
    let (name, given) = split(named);
    let path = model_file::locate(given)?;
    import::check(&path)?;
    // A path needs no store.
    let contents = Store::from_env().and_then(|store| store.contents()).unwrap_or_default();
    let file = |root: &Path, file: &leyden_hub::ModelFile| {
        (root.join(&file.path), file.path.clone(), Some(file.sha256.clone()))
    };
    let (source, own, hub, defaults) = match () {
        () if let Some(model) = contents.models.iter().find(|model| model.path == path) => {
            let origin = model.origin();
            let root = path.ancestors().find(|folder| folder.ends_with(&origin.commit)).unwrap_or(&path);
            let files = model.files.iter().map(|one| file(root, one)).collect();
            let hub = Hub {
                repo: origin.repo.to_string(),
                revision: origin.revision,
                commit: origin.commit,
                format: origin.format.name().to_owned(),
            };
            let own = given.to_str().map_or_else(|| model.name.clone(), str::to_owned);
            (Source { main: origin.main, files }, own, Some(hub), None)
        }
        () if let Some(known) = contents.named.iter().find(|known| known.path == path) => {
            let root = path.ancestors().find(|folder| folder.ends_with("files")).unwrap_or(&path);
            let files = known.files.iter().map(|one| file(root, one)).collect();
            let main = path.strip_prefix(root).ok().filter(|main| !main.as_os_str().is_empty());
            let main = main.map(|main| main.to_string_lossy().into_owned());
            let defaults = Some(&known.defaults).filter(|defaults| **defaults != Defaults::default());
            let defaults = defaults.map(serde_json::to_value).transpose()?;
            (Source { main, files }, known.name.clone(), None, defaults)
        }
        () => {
            let source = Source::at(&path)?;
            let stem = if path.is_dir() { path.file_name() } else { path.file_stem() };
            (source, stem.unwrap_or_default().to_string_lossy().into_owned(), None, None)
        }
    };
    let name = name.map_or(own, str::to_owned);
    if hub.is_none() {
        Store::check_new_name(&name).map_err(|error| {
            Failure::from(error).hint("give it another name: NAME=PATH, such as my-model=PATH")
        })?;
    }
    let folder = format!("{}/{}", places::MODELS, places::folder(&name, taken));
    let entries = source.files.into_iter();
    let entries =
        entries.map(|(path, inside, sum)| Entry::file(format!("{folder}/{inside}"), path, sum)).collect();
    let model = Model {
        name,
        folder,
        main: source.main,
        hub,
        defaults,
        licence: None,
        evidence: None,
        calibrations: Vec::new(),
    };
    Ok(Found { model, entries, path })
}

impl Found {
    /// Returns the last part of the model's folder in the bundle.
    fn short(&self) -> &str {
        self.model.folder.rsplit('/').next().unwrap_or_default()
    }

    /// Adds evidence, calibrations and licences that lie beside the model.
    fn beside(&mut self, args: &Create) -> Result<(), Failure> {
        let evidence = evidence_path(&self.path);
        if evidence.is_file() {
            if self.is_subject(&evidence)? {
                self.add_evidence(&evidence);
            } else {
                args.notes.say(&format!("{}: it is about other files, and was left out", evidence.display()));
            }
        }
        let own = self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let folder =
            self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut beside: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        beside.sort();
        for path in beside.iter().filter(|path| path.is_file()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_own = |rest: &str| rest.starts_with(".calibration") && rest.ends_with(".json");
            if name.strip_prefix(&own).is_some_and(is_own) {
                self.add_calibration(path)?;
            }
            // The files of a folder are in the bundle already, and its neighbours belong to others.
            if !self.path.is_dir() && licence::is_licence_file(name) {
                self.add_licence(path)?;
            }
        }
        Ok(())
    }

    /// Returns true if evidence is about the model's files.
    fn is_subject(&self, path: &Path) -> Result<bool, Failure> {
        let evidence = Signed::read(path)?.unchecked()?;
        Ok(compare_files("model", &evidence.model, &verify::of_model(&self.path)?).is_empty())
    }

    fn add_evidence(&mut self, path: &Path) {
        let name = format!("{}/{}/evidence.json", places::EVIDENCE, self.short());
        self.entries.retain(|entry| entry.name != name);
        self.entries.push(Entry::file(&name, path, None));
        self.model.evidence = Some(name);
    }

    fn add_calibration(&mut self, path: &Path) -> Result<(), Failure> {
        crate::cli::calibration_file::read(path)?;
        let name = match self.model.calibrations.len() {
            0 => "calibration.json".to_owned(),
            n => format!("calibration-{}.json", n + 1),
        };
        let name = format!("{}/{}/{name}", places::EVIDENCE, self.short());
        self.entries.push(Entry::file(&name, path, None));
        self.model.calibrations.push(name);
        Ok(())
    }

    fn add_licence(&mut self, path: &Path) -> Result<(), Failure> {
        let text = licence::read_small(path).ok_or_else(|| {
            Failure::new(format!("{}: not a licence: it must be a text of at most 1 MiB", path.display()))
        })?;
        let (folder, n) = (format!("{}/{}", places::LICENCES, self.short()), self.entries.len());
        let own = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let mut name = format!("{folder}/{own}");
        if leyden_bundle::check_name(&name).is_err() || self.entries.iter().any(|entry| entry.name == name) {
            name = format!("{folder}/licence-{n}");
        }
        self.entries.push(Entry::bytes(name, text));
        Ok(())
    }

    /// Notes the licence that the model's files state, in the description and in a text.
    fn describe_licence(&mut self) {
        let (licence, lines) = stated(&self.path);
        let mut text = format!("Model: {}\n", self.model.name);
        if let Some(hub) = &self.model.hub {
            text += &format!("Origin: {} at the commit {}\n", hub.repo, hub.commit);
        }
        text += &format!("Licence: {}\n", licence.as_deref().unwrap_or("its files state none"));
        lines.iter().for_each(|line| text += &format!("{line}\n"));
        let is_text = |entry: &&Entry| {
            let name = entry.name.rsplit('/').next().unwrap_or_default();
            licence::is_licence_file(name) || entry.name.starts_with(places::LICENCES)
        };
        for entry in self.entries.iter().filter(is_text) {
            text += &format!("Text: {}\n", entry.name);
        }
        self.model.licence = licence;
        let name = format!("{}/{}/about.txt", places::LICENCES, self.short());
        self.entries.push(Entry::bytes(name, text));
    }

    /// Returns true if neither a licence nor a text of one was found.
    pub(super) fn lacks_licence(&self) -> bool {
        let is_text = |entry: &Entry| {
            let name = entry.name.rsplit('/').next().unwrap_or_default();
            licence::is_licence_file(name) || name.starts_with("licence-")
        };
        self.model.licence.is_none() && !self.entries.iter().any(is_text)
    }
}

/// Returns the licence that a model's metadata or card states, and further lines about its origin.
fn stated(path: &Path) -> (Option<String>, Vec<String>) {
    const MAX_CHARS: usize = 300;
    if path.is_dir() {
        let card = licence::read_small(&path.join("README.md"));
        return (card.and_then(|card| licence::of_card(&card)), Vec::new());
    }
    let source = ModelFile::open(path).ok().and_then(|file| file.into_source().ok());
    let value = |key: &str| {
        let source: &dyn WeightSource = source.as_deref()?;
        let text = source.metadata().opt_str(key).ok().flatten()?;
        Some(printable(text, MAX_CHARS)).filter(|text| !text.is_empty())
    };
    let lines = [
        ("Author", "general.author"),
        ("Organisation", "general.organization"),
        ("Licence at", "general.license.link"),
        ("Source", "general.source.url"),
        ("Repository", "general.repo_url"),
    ];
    let lines = lines.iter().filter_map(|(label, key)| Some(format!("{label}: {}", value(key)?)));
    (value("general.license.name").or_else(|| value("general.license")), lines.collect())
}
