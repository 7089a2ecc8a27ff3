//! Environment variables of the program; the kernels read further ones.

use std::path::PathBuf;

use leyden_kernels::knobs::Knob;

/// History file of typed lines.
pub(super) const HISTORY: Knob = Knob {
    name: "LEYDEN_HISTORY",
    help: "history file of lines typed in `leyden run`, or `off`; by default leyden/history in the user's state folder",
};

/// Folder of conversations.
pub(super) const CHATS: Knob = Knob {
    name: "LEYDEN_CHATS",
    help: "folder of saved conversations of `leyden run`, or `off`; by default leyden/chats in the user's state folder",
};

/// Folder of packed weights.
pub(super) const PACKS: Knob = Knob {
    name: "LEYDEN_PACKS",
    help: "folder of packed weights; by default leyden/packs in the user's cache folder",
};

/// API key that `leyden load` and `ps` send. It is a secret, so [`KNOBS`] does not have it.
pub(super) const API_KEY: &str = "LEYDEN_API_KEY";

/// Variables that `doctor` shows: all without secrets, including those of the hub.
pub(super) static KNOBS: &[Knob] = &[
    HISTORY,
    CHATS,
    PACKS,
    of_hub(&leyden_hub::knobs::MODELS),
    of_hub(&leyden_hub::knobs::ENDPOINT),
    of_hub(&leyden_hub::knobs::OFFLINE),
    of_hub(&leyden_hub::knobs::HUB_OFFLINE),
];

const fn of_hub(knob: &leyden_hub::knobs::Knob) -> Knob {
    Knob { name: knob.name, help: knob.help }
}

/// Returns the API key to send to a server, if one is set.
pub(super) fn api_key() -> Option<String> {
    std::env::var(API_KEY).ok().filter(|value| !value.is_empty())
}

/// Lets `serve` take every option from the environment, too: `--port` as `LEYDEN_PORT`. A switch is on if its variable
/// is set, unless to `0`, `no`, `off` or `false`.
pub(super) fn of_serve(program: clap::Command) -> clap::Command {
    program.mut_subcommand("serve", |serve| {
        serve.mut_args(|argument| {
            let Some(name) = argument.get_long().and_then(variable) else { return argument };
            argument.env(name)
        })
    })
}

/// Returns the variables that [`of_serve`] reads.
pub(super) fn serve_variables(program: &clap::Command) -> Vec<String> {
    let serve = program.find_subcommand("serve");
    let longs = serve.into_iter().flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long);
    longs.filter_map(variable).collect()
}

/// Returns the variable of an option of `serve`.
fn variable(long: &str) -> Option<String> {
    let is_setting = !matches!(long, "help" | "version" | "end-with-input");
    is_setting.then(|| format!("LEYDEN_{}", long.to_uppercase().replace('-', "_")))
}

/// Returns the history file, unless it is off.
pub(super) fn history_file() -> Option<PathBuf> {
    state(&HISTORY, "leyden/history")
}

/// Returns the folder of saved conversations, unless it is off.
pub(super) fn chats_folder() -> Option<PathBuf> {
    state(&CHATS, "leyden/chats")
}

/// Returns the path in a variable, `None` for `off`; by default `name` in the user's state folder.
fn state(knob: &Knob, name: &str) -> Option<PathBuf> {
    match knob.get() {
        Some(value) if value == "off" => return None,
        Some(path) => return Some(PathBuf::from(path)),
        None => {}
    }
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join(name))
}

/// Returns true if answers are printed without formatting: with `NO_COLOR`, or with `TERM` unset or `dumb`.
pub(super) fn is_plain_terminal() -> bool {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    value("NO_COLOR").is_some() || value("TERM").is_none_or(|term| term == "dumb")
}

/// Returns the folder of packed weights, if there is one.
pub(super) fn pack_folder() -> Option<PathBuf> {
    if let Some(path) = PACKS.get() {
        return Some(PathBuf::from(path));
    }
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(cache.join("leyden/packs"))
}

/// Returns the file of the key that signs evidence, if there is a place for it.
pub(super) fn key_file() -> Option<PathBuf> {
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("leyden/verify.key"))
}

/// Returns the folder that bundles are installed to, if there is one.
pub(super) fn install_folder() -> Option<PathBuf> {
    Some(folder("HOME")?.join(".local"))
}

/// Returns the folder of the user's units of systemd, if there is a place for it.
pub(super) fn user_units() -> Option<PathBuf> {
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("systemd/user"))
}

/// Returns the variables that are set and say where models and their packed weights lie, for a service of the user.
pub(super) fn store_variables() -> Vec<(String, String)> {
    let names = [leyden_hub::knobs::MODELS.name, PACKS.name, "HF_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    names.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect()
}

fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
