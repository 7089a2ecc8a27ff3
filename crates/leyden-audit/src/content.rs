//! Encryption of contents: HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305.
//!
//! A log holds the public key alone, so that whoever reads the log and the server's files reads no content.

use crate::digest::{hex, unhex};
use crate::error::Error;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable, single_shot_open, single_shot_seal};
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;

type Secret = <X25519HkdfSha256 as Kem>::PrivateKey;
type Public = <X25519HkdfSha256 as Kem>::PublicKey;

/// Prefix of a public key as text.
const PUBLIC: &str = "leyden-audit-recipient:";
/// Prefix of a secret key as text.
const SECRET: &str = "leyden-audit-secret:";
/// Purpose of the encryption, part of the derived key.
const INFO: &[u8] = b"leyden audit content 1";
/// Maximum size of a key file in bytes.
const MAX_KEY_BYTES: u64 = 4 << 10;

/// Texts of a request and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Input: the body of a request, or the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Output as it was sent or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// Encrypted content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Public key of the recipient in hexadecimal digits.
    to: String,
    /// Encapsulated key in hexadecimal digits.
    key: String,
    /// Encrypted JSON of the content in base64.
    text: String,
}

/// Public key to which contents are encrypted.
#[derive(Clone)]
pub struct Recipient(Public);

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", self.id())
    }
}

impl FromStr for Recipient {
    type Err = Error;

    /// Parses the text that `leyden audit keygen` prints.
    fn from_str(text: &str) -> Result<Recipient, Error> {
        let digits = text.trim().strip_prefix(PUBLIC);
        let key = digits.and_then(unhex).and_then(|bytes| Public::from_bytes(&bytes).ok());
        key.map(Recipient).ok_or_else(|| {
            Error::new(format!(
                "recipient: want `{PUBLIC}` and 64 hexadecimal digits, as `leyden audit keygen` prints"
            ))
        })
    }
}

impl Recipient {
    /// Reads a recipient: the text itself, or a file that holds it.
    ///
    /// # Errors
    /// It is neither, or the file cannot be read.
    pub fn read(text_or_path: &str) -> Result<Recipient, Error> {
        if text_or_path.starts_with(PUBLIC) {
            return text_or_path.parse();
        }
        let path = Path::new(text_or_path);
        short_text(path)?.parse().map_err(|error| Error::file(path, error))
    }

    /// Returns the public key in hexadecimal digits.
    pub(crate) fn id(&self) -> String {
        hex(&self.0.to_bytes())
    }

    /// Encrypts content; `place` binds it to its record.
    ///
    /// # Errors
    /// The key is no usable point, or there are no random bytes.
    pub(crate) fn seal(&self, content: &Content, place: &str) -> Result<Sealed, Error> {
        let failed = |what: &dyn fmt::Display| Error::new(format!("cannot encrypt the content: {what}"));
        let text = serde_json::to_vec(content).map_err(|error| failed(&error))?;
        // The generator panics if the system fails, so it is asked first.
        getrandom::fill(&mut [0; 1]).map_err(|error| failed(&error))?;
        let (key, text) = single_shot_seal::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeS::Base,
            &self.0,
            INFO,
            &text,
            place.as_bytes(),
        )
        .map_err(|error| failed(&error))?;
        Ok(Sealed { to: self.id(), key: hex(&key.to_bytes()), text: BASE64_STANDARD.encode(text) })
    }
}

/// Secret key that decrypts contents.
pub struct ContentKey {
    secret: Secret,
    public: Recipient,
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentKey({})", self.public)
    }
}

impl ContentKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<ContentKey, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::new(format!("the system gives no random bytes for a key: {error}")))?;
        let (secret, public) = X25519HkdfSha256::derive_keypair(&bytes);
        Ok(ContentKey { secret, public: Recipient(public) })
    }

    /// Writes the key to a new file that only its owner may read, and the recipient to the same name with `.pub` behind
    /// it.
    ///
    /// # Errors
    /// A file cannot be written, or the first one exists.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let write = |path: &Path, text: String, options| {
            leyden_files::write(path, text.as_bytes(), options)
                .map_err(|error| Error::file(path, format!("cannot write: {error}")))
        };
        let secret = format!("{SECRET}{}\n", hex(&self.secret.to_bytes()));
        write(path, secret, OutputOptions::new().files_only().private().new_only())?;
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        write(Path::new(&public), format!("{}\n", self.public), OutputOptions::new().files_only())
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// It cannot be read, is no key, or other users may read it.
    pub fn read(path: &Path) -> Result<ContentKey, Error> {
        let text = short_text(path)?;
        let digits = text.trim().strip_prefix(SECRET);
        let secret = digits.and_then(unhex).and_then(|bytes| Secret::from_bytes(&bytes).ok());
        let secret = secret.ok_or_else(|| {
            Error::file(
                path,
                format!("want `{SECRET}` and 64 hexadecimal digits, as `leyden audit keygen` writes"),
            )
        })?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let mode = fs::metadata(path).map_err(|error| Error::file(path, error))?.mode();
            if mode & 0o077 != 0 {
                return Err(Error::file(path, "other users may read the secret key; run chmod 600 on it"));
            }
        }
        let public = Recipient(X25519HkdfSha256::sk_to_pk(&secret));
        Ok(ContentKey { secret, public })
    }

    /// Returns the recipient whose contents this key decrypts.
    #[must_use]
    pub fn recipient(&self) -> &Recipient {
        &self.public
    }

    /// Decrypts content that was encrypted with the same `place`.
    ///
    /// # Errors
    /// It was encrypted to another key or for another record, or was changed.
    pub(crate) fn open(&self, sealed: &Sealed, place: &str) -> Result<Content, Error> {
        if sealed.to != self.public.id() {
            return Err(Error::new(format!(
                "the content is encrypted to {PUBLIC}{}, not to this key",
                shown(&sealed.to)
            )));
        }
        let wrong =
            || Error::new("sealed: not content of this record: it was changed or copied from another record");
        let key = unhex(&sealed.key).ok_or_else(wrong)?;
        let key = Deserializable::from_bytes(&key).map_err(|_| wrong())?;
        let text = BASE64_STANDARD.decode(&sealed.text).map_err(|_| wrong())?;
        let text = single_shot_open::<ChaCha20Poly1305, HkdfSha256, X25519HkdfSha256>(
            &OpModeR::Base,
            &self.secret,
            &key,
            INFO,
            &text,
            place.as_bytes(),
        )
        .map_err(|_| wrong())?;
        serde_json::from_slice(&text).map_err(|_| wrong())
    }
}

/// Returns the beginning of a text from a file, without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Reads a short text file.
fn short_text(path: &Path) -> Result<String, Error> {
    let failed = |error: std::io::Error| Error::file(path, format!("cannot read the key: {error}"));
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::file(path, "not a regular file"));
    }
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_KEY_BYTES).read_to_string(&mut text)).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_with_their_key_in_their_record_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reader");
        let key = ContentKey::generate().unwrap();
        key.write(&path).unwrap();
        assert!(key.write(&path).is_err(), "a key is never replaced");
        let recipient = Recipient::read(&folder.path().join("reader.pub").display().to_string()).unwrap();
        assert_eq!(recipient.to_string(), Recipient::read(&recipient.to_string()).unwrap().to_string());
        let content = Content { input: Some("Ä question".to_owned()), output: None };
        let sealed = recipient.seal(&content, "a").unwrap();
        assert!(!format!("{sealed:?}").contains("question"));
        let read = ContentKey::read(&path).unwrap();
        assert_eq!(read.open(&sealed, "a").unwrap(), content);
        let other = ContentKey::generate().unwrap();
        let told = other.open(&sealed, "a").unwrap_err().to_string();
        assert!(told.contains("not to this key"), "{told}");
        for changed in [
            Sealed { text: sealed.text.replacen(|c: char| c.is_lowercase(), "A", 1), ..sealed.clone() },
            Sealed { key: "00".repeat(32), ..sealed.clone() },
            Sealed { key: "0".to_owned(), ..sealed.clone() },
            Sealed { text: "?".to_owned(), ..sealed.clone() },
            Sealed { text: String::new(), ..sealed.clone() },
        ] {
            assert!(read.open(&changed, "a").is_err(), "{changed:?}");
        }
        assert!(read.open(&sealed, "b").is_err(), "the content of another record");
    }

    #[test]
    fn wrong_keys_are_refused() {
        for wrong in ["leyden-audit-recipient:", "leyden-audit-recipient:00", "leyden-audit-recipient:zz"] {
            assert!(Recipient::read(wrong).is_err(), "{wrong}");
        }
        // A point of small order gives the same key to everybody.
        let weak: Result<Recipient, _> = format!("{PUBLIC}{}", "00".repeat(32)).parse();
        assert!(weak.is_err() || weak.unwrap().seal(&Content::default(), "").is_err());
        let folder = tempfile::tempdir().unwrap();
        assert!(ContentKey::read(folder.path()).unwrap_err().to_string().contains("not a regular file"));
        assert!(ContentKey::read(&folder.path().join("none")).is_err());
    }
}
