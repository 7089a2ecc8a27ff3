//! The environment variables that the program reads beside the kernels' own.

use std::path::PathBuf;

use leyden_kernels::knobs::Knob;

/// Where the history of conversations is kept.
pub(super) const HISTORY: Knob = Knob {
    name: "LEYDEN_HISTORY",
    help: "file that keeps what was typed to `leyden run`, or `off`; by default leyden/history in the user's state folder",
};

/// Where packed weights are kept.
pub(super) const PACKS: Knob = Knob {
    name: "LEYDEN_PACKS",
    help: "folder of packed weights; by default leyden/packs in the user's cache folder",
};

/// The key that `leyden load` sends. A secret, so it is not among [`KNOBS`].
pub(super) const API_KEY: &str = "LEYDEN_API_KEY";

/// All of them, those that `leyden pull` reads and that hold no secrets included.
pub(super) static KNOBS: &[Knob] = &[
    HISTORY,
    PACKS,
    of_hub(&leyden_hub::knobs::MODELS),
    of_hub(&leyden_hub::knobs::ENDPOINT),
    of_hub(&leyden_hub::knobs::OFFLINE),
    of_hub(&leyden_hub::knobs::HUB_OFFLINE),
];

const fn of_hub(knob: &leyden_hub::knobs::Knob) -> Knob {
    Knob { name: knob.name, help: knob.help }
}

/// The key that opens a server under load, if there is one.
pub(super) fn api_key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|value| !value.is_empty())
}

/// The file for the history, if there is to be one.
pub(super) fn history_file() -> Option<PathBuf> {
    match HISTORY.get() {
        Some(value) if value == "off" => return None,
        Some(path) => return Some(PathBuf::from(path)),
        None => {}
    }
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("leyden/history"))
}

/// The folder of packed weights, if there is a place for it.
pub(super) fn pack_folder() -> Option<PathBuf> {
    if let Some(path) = PACKS.get() {
        return Some(PathBuf::from(path));
    }
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("leyden/packs"))
}

fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
