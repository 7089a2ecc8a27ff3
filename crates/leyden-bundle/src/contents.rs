//! [`Contents`]: the description of program and models in a bundle.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names;

const FORMAT: &str = "leyden-bundle";
const VERSION: u32 = 1;
/// Maximum number of models in a bundle.
const MAX_MODELS: usize = 1000;

/// Description of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// `leyden-bundle`.
    format: String,
    /// Version of the format.
    version: u32,
    /// Program.
    pub program: Option<Program>,
    /// Models.
    pub models: Vec<Model>,
}

/// Program in a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Name of the entry.
    pub file: String,
    /// Version.
    pub version: String,
    /// Processor architecture and operating system for which it was built.
    pub target: String,
}

/// Model in a bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name under which it is installed.
    pub name: String,
    /// Folder of its files in the bundle.
    pub folder: String,
    /// File to open, below that folder; `None` for the folder itself.
    pub main: Option<String>,
    /// Its place on the hub, if it was pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<Hub>,
    /// Default values of requests, if it has a name with some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Value>,
    /// Licence that its files state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Entry with its evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Entries with its calibrations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrations: Vec<String>,
}

/// Place of a model on the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// `ORG/REPO`.
    pub repo: String,
    /// Branch, tag or commit of the pull.
    pub revision: String,
    /// Commit.
    pub commit: String,
    /// Format: gguf, safetensors, pytorch or onnx.
    pub format: String,
}

impl Contents {
    /// Returns the description of a program and models.
    #[must_use]
    pub fn new(program: Option<Program>, models: Vec<Model>) -> Contents {
        Contents { format: FORMAT.to_owned(), version: VERSION, program, models }
    }

    /// Returns the bytes of the entry.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// Reads the entry; each file that it names must be one of `entries`.
    ///
    /// # Errors
    /// The field, and the rule that it breaks.
    pub(crate) fn read(bytes: &[u8], entries: &[&str]) -> Result<Contents, String> {
        let contents: Contents = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if contents.format != FORMAT || contents.version != VERSION {
            return Err(format!("format: want `{FORMAT}` version {VERSION}; a newer leyden may read it"));
        }
        if contents.models.len() > MAX_MODELS {
            return Err(format!("models: more than {MAX_MODELS}"));
        }
        let is_there = |field: &str, name: &str| match entries.binary_search(&name) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{field}: there is no entry {}", crate::error::printable(name))),
        };
        if let Some(program) = &contents.program {
            is_there("program.file", &program.file)?;
        }
        for (i, model) in contents.models.iter().enumerate() {
            let field = |name: &str| format!("models[{i}].{name}");
            names::check_name(&model.folder).map_err(|why| format!("{}: {why}", field("folder")))?;
            if !entries.iter().any(|name| below(name, &model.folder).is_some()) {
                return Err(format!("{}: there are no files in it", field("folder")));
            }
            if let Some(main) = &model.main {
                is_there(&field("main"), &format!("{}/{main}", model.folder))?;
            }
            model.evidence.iter().try_for_each(|name| is_there(&field("evidence"), name))?;
            model.calibrations.iter().try_for_each(|name| is_there(&field("calibrations"), name))?;
        }
        Ok(contents)
    }
}

/// Returns the part of an entry's name below a folder.
pub(crate) fn below<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    name.strip_prefix(folder)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_names_only_entries() {
        let model = Model {
            name: "m".to_owned(),
            folder: "models/m".to_owned(),
            main: Some("m.gguf".to_owned()),
            hub: None,
            defaults: None,
            licence: None,
            evidence: Some("evidence/m.json".to_owned()),
            calibrations: Vec::new(),
        };
        let program = Program {
            file: "bin/leyden".to_owned(),
            version: "1".to_owned(),
            target: "x86_64-linux".to_owned(),
        };
        let good = Contents::new(Some(program), vec![model]);
        let entries = ["bin/leyden", "evidence/m.json", "models/m/m.gguf"];
        assert_eq!(Contents::read(&good.bytes(), &entries).unwrap(), good);
        let text = String::from_utf8(good.bytes()).unwrap();
        for (from, to, wanted) in [
            ("bin/leyden", "bin/other", "program.file: there is no entry"),
            ("evidence/m.json", "../m", "models[0].evidence: there is no entry"),
            ("m.gguf", "../../bin/leyden", "models[0].main: there is no entry"),
            ("models/m", "models/n", "models[0].folder: there are no files"),
            ("models/m", "../m", "models[0].folder: it leads out"),
            ("\"version\": 1,", "\"version\": 2,", "want `leyden-bundle` version 1"),
            ("\"models\"", "\"modells\"", "unknown field"),
        ] {
            let error = Contents::read(text.replacen(from, to, 1).as_bytes(), &entries).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
