//! The options of commands that load a model: where packed weights are kept.

use std::path::{Path, PathBuf};

use leyden::{Make, Model, PackCache};
use leyden_kernels::topology::Topology;

use super::knobs;
use super::notes::Notes;
use super::text::printable;

/// Packed weights between starts.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Packs {
    /// Folder of packed weights, or `off`; a model that has none there gets them. By default those that `leyden pack`
    /// made are used
    #[arg(long, value_name = "DIR|off")]
    pack_cache: Option<PathBuf>,
    /// Compute with packed weights as they lie in their file: starts at once and shares memory with other processes,
    /// but reads small pages
    #[arg(long)]
    mmap: bool,
}

impl Packs {
    /// The cache that the options ask for.
    pub(super) fn cache(&self) -> PackCache {
        let (path, make) = match &self.pack_cache {
            Some(path) if path == Path::new("off") => return PackCache::Off,
            Some(path) => (Some(path.clone()), Make::Missing),
            None => (knobs::pack_folder(), Make::Existing),
        };
        // On small pages a copy has nothing to offer.
        let map = self.mmap || no_huge_pages();
        path.map_or(PackCache::Off, |path| PackCache::Folder { path, make, map })
    }
}

fn no_huge_pages() -> bool {
    Topology::detect().huge_pages.transparent.as_deref() == Some("never")
}

/// Says on standard error what went wrong around the weights and was done without, and what of the model is ignored.
pub(super) fn tell(model: &Model, notes: Notes) {
    let say = |text: &str| notes.say(&format!("note: {text}"));
    model.packs().notes.iter().for_each(|note| say(note));
    let int8 = &model.packs().int8;
    if !int8.kept.is_empty() {
        let shown =
            |(name, loss): &(String, f64)| format!("{} ({:.1} %)", printable(name, 100), loss * 100.0);
        let names: Vec<String> = int8.kept.iter().map(shown).collect();
        say(&format!(
            "matrices that stay in floats, as rows of them would lose too much: {}",
            names.join(", ")
        ));
    }
    let unknown = model.unknown_keys();
    if !unknown.is_empty() {
        let file = printable(model.metadata().file(), 200);
        say(&format!("{file}: unknown keys, which are ignored: {}", printable(&unknown.join(", "), 400)));
    }
    if no_huge_pages() {
        say("huge pages are off, which costs speed; `leyden doctor` says how to turn them on");
    }
}
