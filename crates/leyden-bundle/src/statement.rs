//! [`Statement`]: files with their SHA-256, and the signed envelope around them.
//!
//! The statement is in-toto's with the predicate of OpenSSF Model Signing 1.0, in a DSSE envelope, in the JSON of a Sigstore
//! bundle with a public key. Each has one form here: the envelope that a reader accepts is, byte for byte, the one that a
//! writer makes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leyden_verify::Key;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::hash::{hex, unhex};
use crate::names;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://model_signing/signature/v1.0";
const PAYLOAD: &str = "application/vnd.in-toto+json";
const ENVELOPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// Bytes of a public key in DER before the key itself: RFC 8410.
const DER_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// `sha256`.
    algorithm: String,
    /// SHA-256 in hexadecimal digits.
    #[serde(rename = "digest")]
    pub sha256: String,
    /// Name of the entry.
    pub name: String,
}

impl Resource {
    pub(crate) fn new(name: impl Into<String>, sha256: impl Into<String>) -> Resource {
        Resource { algorithm: "sha256".to_owned(), sha256: sha256.into(), name: name.into() }
    }
}

/// All files of a bundle but the signature, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) subject: String,
    pub(crate) resources: Vec<Resource>,
}

/// JSON of the payload, with its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Value>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Predicate {
    serialization: Value,
    resources: Vec<Resource>,
}

impl Statement {
    /// Returns the bytes of the payload.
    fn payload(&self) -> serde_json::Result<Vec<u8>> {
        let mut all = Sha256::new();
        self.resources.iter().for_each(|file| all.update(unhex(&file.sha256).unwrap_or_default()));
        serde_json::to_vec(&Payload {
            kind: STATEMENT.to_owned(),
            subject: vec![json!({ "name": self.subject, "digest": { "sha256": hex(&all.finalize()) } })],
            predicate_type: PREDICATE.to_owned(),
            predicate: Predicate {
                serialization: json!({
                    "method": "files", "hash_type": "sha256", "allow_symlinks": false, "ignore_paths": [names::SIGNATURE],
                }),
                resources: self.resources.clone(),
            },
        })
    }

    /// Returns the signed envelope; `None` if the key has no secret part.
    pub(crate) fn sign(&self, key: &Key) -> serde_json::Result<Option<Vec<u8>>> {
        let payload = self.payload()?;
        let Some(signature) = key.sign(&pae(&payload)) else { return Ok(None) };
        envelope(&payload, &signature, &key.id()).map(Some)
    }

    /// Reads an envelope signed with `key`, or with the key that it names.
    ///
    /// # Errors
    /// The reason why it is not such an envelope.
    pub(crate) fn open(bytes: &[u8], key: Option<&Key>) -> Result<(Statement, Key), String> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("not a signature of leyden bundle: {error}"))?;
        let text =
            |at: &str| value.pointer(at).and_then(Value::as_str).ok_or_else(|| format!("no {at} in it"));
        let decoded = |at: &str| STANDARD.decode(text(at)?).map_err(|error| format!("{at}: {error}"));
        let payload = decoded("/dsseEnvelope/payload")?;
        let signature = hex(&decoded("/dsseEnvelope/signatures/0/sig")?);
        let id = text("/dsseEnvelope/signatures/0/keyid")?;
        let short = |id: &str| id.chars().filter(char::is_ascii_alphanumeric).take(64).collect::<String>();
        let key = match key {
            Some(key) if key.id() != id => {
                return Err(format!("signed with the key {}, not with {}", short(id), key.id()));
            }
            Some(key) => key.clone(),
            None => Key::of_id(id).ok_or_else(|| format!("its key {} is none", short(id)))?,
        };
        let changed = "the signature is not that of this statement: it was changed after it was signed";
        if !key.verifies(&pae(&payload), &signature) {
            return Err(changed.to_owned());
        }
        // Bytes outside the signature must be as a writer makes them.
        if envelope(&payload, &signature, &key.id()).map_err(|error| error.to_string())? != bytes {
            return Err("the envelope was changed after it was signed".to_owned());
        }
        let document: Payload = serde_json::from_slice(&payload)
            .map_err(|error| format!("not a statement of leyden bundle: {error}"))?;
        let subject =
            document.subject.first().and_then(|subject| subject["name"].as_str()).unwrap_or_default();
        let statement = Statement { subject: subject.to_owned(), resources: document.predicate.resources };
        for file in &statement.resources {
            if file.algorithm != "sha256" || unhex(&file.sha256).is_none_or(|bytes| bytes.len() != 32) {
                return Err(format!(
                    "{}: its checksum is not a SHA-256",
                    crate::error::printable(&file.name)
                ));
            }
        }
        names::check_all(statement.resources.iter().map(|file| &file.name[..]))
            .map_err(|(name, why)| format!("the entry {}: {why}", crate::error::printable(name)))?;
        if statement.payload().map_err(|error| error.to_string())? != payload {
            return Err("the statement has another form than those of leyden bundle".to_owned());
        }
        Ok((statement, key))
    }

    /// Returns the text for `sha256sum -c`: all files but itself.
    pub(crate) fn checksums(&self) -> String {
        let others = self.resources.iter().filter(|file| file.name != names::CHECKSUMS);
        others.map(|file| format!("{}  {}\n", file.sha256, file.name)).collect()
    }
}

/// Returns the bytes that DSSE signs.
fn pae(payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {PAYLOAD} {} ", PAYLOAD.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

fn envelope(payload: &[u8], signature: &str, id: &str) -> serde_json::Result<Vec<u8>> {
    let hint = hex(&Sha256::digest(public_key_pem(id)));
    let signature = STANDARD.encode(unhex(signature).unwrap_or_default());
    let mut bytes = serde_json::to_vec(&json!({
        "mediaType": ENVELOPE,
        "verificationMaterial": { "publicKey": { "hint": hint }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(payload),
            "payloadType": PAYLOAD,
            "signatures": [{ "sig": signature, "keyid": id }],
        },
    }))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns a public key in PEM, given its identifier.
pub(crate) fn public_key_pem(id: &str) -> String {
    let der = [&DER_PREFIX[..], &unhex(id).unwrap_or_default()].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_verify::Time;

    fn statement() -> Statement {
        let file = |name: &str| Resource::new(name, "ab".repeat(32));
        Statement { subject: "m".to_owned(), resources: vec![file("SHA256SUMS"), file("a"), file("b/c")] }
    }

    #[test]
    fn an_envelope_is_opened_by_its_key_alone() {
        let (key, other) = (Key::generate(Time(0), 1).unwrap(), Key::generate(Time(0), 1).unwrap());
        let bytes = statement().sign(&key).unwrap().unwrap();
        assert_eq!(bytes, statement().sign(&key).unwrap().unwrap(), "signatures are deterministic");
        for trusted in [Some(&key), None] {
            let (opened, found) = Statement::open(&bytes, trusted).unwrap();
            assert_eq!((opened, found.id()), (statement(), key.id()));
        }
        assert!(Statement::open(&bytes, Some(&other)).unwrap_err().contains("signed with the key"));
        assert!(statement().sign(&Key::of_id(&key.id()).unwrap()).unwrap().is_none());
        assert_eq!(statement().checksums(), format!("{0}  a\n{0}  b/c\n", "ab".repeat(32)));
    }

    #[test]
    fn every_changed_byte_of_an_envelope_is_found() {
        let key = Key::generate(Time(0), 1).unwrap();
        let bytes = statement().sign(&key).unwrap().unwrap();
        for i in 0..bytes.len() {
            for bit in [1, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[i] ^= bit;
                assert!(Statement::open(&changed, Some(&key)).is_err(), "byte {i}, bit {bit}");
                assert!(Statement::open(&changed, None).is_err(), "byte {i}, bit {bit}, any key");
            }
        }
        for n in [0, 1, bytes.len() - 1] {
            assert!(Statement::open(&bytes[..n], Some(&key)).is_err());
        }
        assert!(Statement::open(&[&bytes[..], b" "].concat(), Some(&key)).is_err());
    }

    /// A signed statement may still be made by hostile software.
    #[test]
    fn hostile_statements_are_refused_by_entry() {
        let key = Key::generate(Time(0), 1).unwrap();
        for (names, wanted) in [
            (&["../a"][..], "leads out"),
            (&["a", "a"], "twice"),
            (&["b", "a"], "order"),
            (&["a", "a/b"], "a file and a folder"),
            (&["bundle.sig"], "its own checksum"),
            (&["/a"], "absolute"),
        ] {
            let resources = names.iter().map(|name| Resource::new(*name, "ab".repeat(32))).collect();
            let bytes = Statement { resources, ..statement() }.sign(&key).unwrap().unwrap();
            let error = Statement::open(&bytes, Some(&key)).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let resources = vec![Resource::new("a", "ab")];
        let bytes = Statement { resources, ..statement() }.sign(&key).unwrap().unwrap();
        assert!(Statement::open(&bytes, Some(&key)).unwrap_err().contains("not a SHA-256"));
    }
}
