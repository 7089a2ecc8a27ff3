//! Options of the cache of packed weights.

use std::path::{Path, PathBuf};

use leyden::{Make, Model, PackCache};
use leyden_kernels::topology::Topology;

use super::knobs;
use super::notes::Notes;
use super::text::printable;

/// Cache of packed weights.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Packs {
    /// Folder of packed weights, or `off`; missing packs are written to it. By default only packs of `leyden pack` are
    /// used
    #[arg(long, value_name = "DIR|off")]
    pack_cache: Option<PathBuf>,
    /// Map the file of packed weights instead of copying it: starts at once and shares memory with other processes, but
    /// has small pages, which are slower
    #[arg(long)]
    mmap: bool,
}

impl Packs {
    /// Returns the cache of these options.
    pub(super) fn cache(&self) -> PackCache {
        let (path, make) = match &self.pack_cache {
            Some(path) if path == Path::new("off") => return PackCache::Off,
            Some(path) => (Some(path.clone()), Make::Missing),
            None => (knobs::pack_folder(), Make::Existing),
        };
        // Without huge pages a copy is not faster than a mapping.
        let map = self.mmap || no_huge_pages();
        path.map_or(PackCache::Off, |path| PackCache::Folder { path, make, map })
    }
}

fn no_huge_pages() -> bool {
    Topology::detect().huge_pages.transparent.as_deref() == Some("never")
}

/// Prints notes about a loaded model: problems with packs, matrices that stay in floats, ignored keys, huge pages.
pub(super) fn report(model: &Model, notes: Notes) {
    let say = |text: &str| notes.say(&format!("note: {text}"));
    model.packs().notes.iter().for_each(|note| say(note));
    let int8 = &model.packs().int8;
    if !int8.kept.is_empty() {
        let shown =
            |(name, loss): &(String, f64)| format!("{} ({:.1} %)", printable(name, 100), loss * 100.0);
        let names: Vec<String> = int8.kept.iter().map(shown).collect();
        say(&format!(
            "matrices that stay in floats, because INT8 would lose too much accuracy: {}",
            names.join(", ")
        ));
    }
    let unknown = model.unknown_keys();
    if !unknown.is_empty() {
        let file = printable(model.metadata().file(), 200);
        say(&format!("{file}: unknown keys are ignored: {}", printable(&unknown.join(", "), 400)));
    }
    if no_huge_pages() {
        say("huge pages are off, which costs speed; `leyden doctor` shows how to enable them");
    }
}
