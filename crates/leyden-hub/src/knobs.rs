//! Environment variables that this crate reads, one line each.
//!
//! Variables that may hold secrets (tokens and the addresses of proxies) are not in [`KNOBS`], so that a program that
//! shows settings does not show them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::proxies::Proxies;

/// Setting read from the environment.
#[derive(Debug)]
pub struct Knob {
    /// Name of the variable.
    pub name: &'static str,
    /// Effect and values of the variable.
    pub help: &'static str,
}

impl Knob {
    /// Returns the value, if set and not empty.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        text(self.name)
    }
}

/// Folder of the models.
pub const MODELS: Knob = Knob {
    name: "LEYDEN_MODELS",
    help: "folder of pulled models; by default leyden/models in the user's data folder",
};

/// Switch that forbids network access.
pub const OFFLINE: Knob =
    Knob { name: "LEYDEN_OFFLINE", help: "1: `leyden pull` takes from the store and opens no connection" };

/// Switch of the hub's own tools that forbids network access.
pub const HUB_OFFLINE: Knob = Knob { name: "HF_HUB_OFFLINE", help: "1: the same as LEYDEN_OFFLINE=1" };

/// Address of the hub.
pub const ENDPOINT: Knob = Knob {
    name: "HF_ENDPOINT",
    help: "address of the hub or of a mirror; by default https://huggingface.co",
};

/// Settings that may be shown.
pub static KNOBS: &[Knob] = &[MODELS, OFFLINE, HUB_OFFLINE, ENDPOINT];

/// Maximum length of a token, and of a line of a token file.
const LONGEST_TOKEN: u64 = 4096;

fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns the store's folder.
pub(crate) fn models_folder() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(MODELS.name).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let data = folder("XDG_DATA_HOME").or_else(|| Some(folder("HOME")?.join(".local/share")));
    let nowhere = || {
        let why = "the store has no place: neither this nor XDG_DATA_HOME nor HOME is set";
        Error::new(MODELS.name, ErrorKind::Setting(why.to_owned()))
    };
    Ok(data.ok_or_else(nowhere)?.join("leyden/models"))
}

/// Returns true if network access is forbidden.
pub(crate) fn offline() -> Result<bool> {
    Ok(switch(&OFFLINE)? || switch(&HUB_OFFLINE)?)
}

fn switch(knob: &Knob) -> Result<bool> {
    let Some(value) = knob.get() else { return Ok(false) };
    parse_switch(&value)
        .ok_or_else(|| Error::new(knob.name, ErrorKind::Setting("the value is neither 1 nor 0".to_owned())))
}

fn parse_switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(true),
        "0" | "off" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Returns the access token and its source: the environment, else the token file of the hub's own tools.
pub(crate) fn token() -> Result<Option<(String, String)>> {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(value) = text(name) {
            return Ok(Some((value, name.to_owned())));
        }
    }
    let home = || folder("HF_HOME");
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let path = text("HF_TOKEN_PATH")
        .map(PathBuf::from)
        .or_else(|| home().or_else(|| Some(cache()?.join("huggingface"))).map(|path| path.join("token")));
    let Some(path) = path.filter(|path| path.is_file()) else { return Ok(None) };
    let token = token_file(&path)?;
    Ok(Some((token, path.display().to_string())).filter(|(token, _)| !token.is_empty()))
}

fn token_file(path: &Path) -> Result<String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text))
        .map_err(Error::io("read the token", path))?;
    Ok(text.trim().to_owned())
}

/// Reads the proxies from the environment. `HTTP_PROXY` in capitals is not read: a web server sets it from a request
/// header.
pub(crate) fn proxies() -> Proxies {
    let first = |names: &[&str]| names.iter().find_map(|name| text(name));
    Proxies {
        https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
        http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
        direct: first(&["no_proxy", "NO_PROXY"]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches() {
        for (value, wanted) in [("1", Some(true)), ("TRUE", Some(true)), ("0", Some(false)), ("2", None)] {
            assert_eq!(parse_switch(value), wanted, "{value}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert!(KNOBS.iter().all(|knob| !knob.name.contains("TOKEN") && !knob.name.contains("PROXY")));
    }
}
