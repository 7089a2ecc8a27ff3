//! [`Signed`]: evidence with its signature, in a file.

use crate::canonical;
use crate::check::{Problem, ProblemKind};
use crate::document::{Evidence, FORMAT, VERSION};
use crate::error::Error;
use crate::key::Key;
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// `ed25519`.
    pub algorithm: String,
    /// Public key in hexadecimal digits.
    pub key: String,
    /// Signature in hexadecimal digits, of the canonical bytes of the document.
    pub value: String,
}

/// A document and its signature.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    evidence: Value,
    signature: Signature,
}

impl Signed {
    /// Signs a document.
    ///
    /// # Errors
    /// The key has no secret part.
    pub fn new(evidence: &Evidence, key: &Key) -> Result<Signed, Error> {
        let failed = |what: String| Error::File { file: "key".to_owned(), what };
        let evidence = serde_json::to_value(evidence).map_err(|error| failed(error.to_string()))?;
        let evidence = canonical::rounded(evidence);
        let value = key.sign(&canonical::bytes(&evidence));
        let value = value.ok_or_else(|| failed("it has no secret part, so it signs nothing".to_owned()))?;
        let signature = Signature { algorithm: "ed25519".to_owned(), key: key.id(), value };
        Ok(Signed { evidence, signature })
    }

    /// Reads a file; nothing in it is trusted before [`Signed::open`].
    ///
    /// # Errors
    /// It cannot be read, or is not a signed document.
    pub fn read(path: &Path) -> Result<Signed, Error> {
        let failed = |error| Error::file(path, format!("cannot read: {error}"));
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::file(path, "not a regular file"));
        }
        let mut text = String::new();
        File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)).map_err(failed)?;
        serde_json::from_str(&text)
            .map_err(|error| Error::file(path, format!("not evidence of leyden verify: {error}")))
    }

    /// Writes a file; `path` is the complete new file or the previous one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::file(path, error))? + "\n";
        leyden_files::write(path, text.as_bytes(), OutputOptions::new())
            .map_err(|error| Error::file(path, format!("cannot write: {error}")))
    }

    /// Returns the signature.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Returns the document if the signature is that of `key`.
    ///
    /// # Errors
    /// The document was signed with another key, or changed since.
    pub fn open(&self, key: &Key) -> Result<Evidence, Problem> {
        let forged = |text: String| Err(Problem::new(ProblemKind::Forged, text));
        if self.signature.key != key.id() {
            return forged(format!(
                "signed with the key {}, not with {}",
                short(&self.signature.key),
                short(&key.id())
            ));
        }
        let bytes = canonical::bytes(&self.evidence);
        if self.signature.algorithm != "ed25519" || !key.verifies(&bytes, &self.signature.value) {
            return forged(
                "the signature is not that of this document: it was changed after it was signed".to_owned(),
            );
        }
        let format = self.evidence.get("format").and_then(Value::as_str);
        let version = self.evidence.get("version").and_then(Value::as_u64);
        if format != Some(FORMAT) || version != Some(u64::from(VERSION)) {
            return forged(format!("format: want `{FORMAT}` version {VERSION}"));
        }
        serde_json::from_value(self.evidence.clone())
            .or_else(|error| forged(format!("not evidence of this version of leyden: {error}")))
    }

    /// Returns the document without a check, to be shown.
    ///
    /// # Errors
    /// It is not evidence.
    pub fn unchecked(&self) -> Result<Evidence, Error> {
        serde_json::from_value(self.evidence.clone())
            .map_err(|error| Error::File { file: "evidence".to_owned(), what: error.to_string() })
    }
}

/// Returns the path of the evidence of a model: `MODEL.evidence.json` beside its file or folder.
#[must_use]
pub fn evidence_path(model: &Path) -> PathBuf {
    // A slash at the end of a folder's name is no part of it.
    let mut name = model.components().as_path().as_os_str().to_owned();
    name.push(".evidence.json");
    PathBuf::from(name)
}

/// Returns the beginning of an identifier of untrusted origin.
fn short(id: &str) -> String {
    id.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::date::Time;
    use crate::document::{Machine, Program, Settings};
    use crate::files::{FileHash, FileSet};
    use crate::floor::Floors;
    use crate::judge::{Measured, Pairs, judge};

    pub(crate) const NOW: Time = Time(1_800_000_000);

    /// Returns evidence of a model that passes.
    pub(crate) fn evidence() -> Evidence {
        let file = |name: &str| FileHash { name: name.to_owned(), bytes: 3, sha256: "a".repeat(64) };
        let set = |name: &str| FileSet { path: format!("/models/{name}"), files: vec![file(name)] };
        let floors: Floors = "accuracy>=0.95*ref".parse().unwrap();
        let pairs = Pairs { both: 900, only_model: 7, only_reference: 9, neither: 84 };
        let judged = judge(&floors.all()[0], "rows.csv", &Measured::Questions(pairs), 1).unwrap();
        let (format, version) = Evidence::format();
        Evidence {
            format,
            version,
            verdict: judged.verdict,
            made: NOW,
            floors: vec![judged],
            load: None,
            model: set("m.gguf"),
            reference: Some(set("r.gguf")),
            data: vec![set("rows.csv")],
            program: Program { version: "1".to_owned(), sha256: "b".repeat(64) },
            settings: Settings {
                floor: Some(floors.to_string()),
                load: None,
                confidence: 0.95,
                seed: 1,
                kv_type: "f16".to_owned(),
                isa: "avx2".to_owned(),
                exact: false,
                int8: false,
                threads: None,
                ctx: 512,
                chunks: None,
                limit: None,
                column: None,
                label: None,
            },
            machine: Machine {
                arch: "x86_64".to_owned(),
                processor: "<Processor>".to_owned(),
                vendor: None,
                model: Some("6/1".to_owned()),
                cores: 2,
                os: "Linux".to_owned(),
            },
        }
    }

    #[test]
    fn evidence_lies_beside_the_model() {
        for (model, path) in [("m/a.gguf", "m/a.gguf.evidence.json"), ("m/folder/", "m/folder.evidence.json")]
        {
            assert_eq!(evidence_path(Path::new(model)), Path::new(path));
        }
    }

    #[test]
    fn any_change_of_a_signed_document_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.json");
        let key = Key::generate(NOW, 30).unwrap();
        let signed = Signed::new(&evidence(), &key).unwrap();
        signed.write(&path).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let opened = Signed::read(&path).unwrap().open(&key).unwrap();
        assert_eq!(
            (opened.verdict, opened.floors[0].pairs),
            (evidence().verdict, evidence().floors[0].pairs)
        );
        // White space and the order of keys are no content.
        let value: Value = serde_json::from_str(&good).unwrap();
        fs::write(&path, value.to_string()).unwrap();
        assert!(Signed::read(&path).unwrap().open(&key).is_ok());
        for (from, to) in [
            ("\"pass\"", "\"fail\""),
            ("aaaa", "aaab"),
            ("m.gguf", "n.gguf"),
            ("\"seed\": 1", "\"seed\": 2"),
            ("\"only_model\": 7", "\"only_model\": 70"),
            ("2027", "2028"),
            ("0.95*ref", "0.96*ref"),
        ] {
            assert!(good.contains(from), "{from}");
            let changed = good.replacen(from, to, 1);
            fs::write(&path, changed).unwrap();
            let problem = Signed::read(&path).unwrap().open(&key).unwrap_err();
            assert_eq!(problem.kind, ProblemKind::Forged, "{from}: {problem:?}");
        }
        fs::write(&path, &good).unwrap();
        let other = Key::generate(NOW, 30).unwrap();
        let problem = Signed::read(&path).unwrap().open(&other).unwrap_err();
        assert!(problem.text.contains("signed with the key"), "{problem:?}");
        for damaged in ["", "{}", "[]", &good[..good.len() / 2], "\u{0}"] {
            fs::write(&path, damaged).unwrap();
            assert!(Signed::read(&path).unwrap_err().to_string().contains("not evidence"));
        }
    }
}
