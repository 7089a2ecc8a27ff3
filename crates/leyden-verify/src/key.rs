//! [`Key`]: an Ed25519 key in a file, with the date at which it expires.
//!
//! A file with `secret` signs and checks, one without it checks only.

use crate::date::{Time, days};
use crate::error::Error;
use crate::files::{hex, unhex};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use leyden_files::OutputOptions;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// Days until a new key expires.
pub const DEFAULT_DAYS: u32 = 365;
/// Name of the format in the file.
const FORMAT: &str = "leyden-key";
/// Maximum size of a file in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A key.
#[derive(Clone)]
pub struct Key {
    secret: Option<SigningKey>,
    public: VerifyingKey,
    made: Time,
    expires: Time,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({}, expires {})", self.id(), self.expires)
    }
}

/// Contents of a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    format: String,
    algorithm: String,
    public: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    made: Time,
    expires: Time,
}

impl Key {
    /// Makes a key that expires so many days after `now`.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate(now: Time, for_days: u32) -> Result<Key, Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| Error::Random(error.to_string()))?;
        let secret = SigningKey::from_bytes(&secret);
        let public = secret.verifying_key();
        Ok(Key { secret: Some(secret), public, made: now, expires: now.plus(days(for_days)) })
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file cannot be read or is not a key; or it has a secret, and other users may read it.
    pub fn read(path: &Path) -> Result<Key, Error> {
        let wrong = |what: &str| Error::file(path, what);
        let failed = |error| Error::file(path, format!("cannot read the key: {error}"));
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(wrong("not a regular file"));
        }
        let mut text = String::new();
        File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)).map_err(failed)?;
        let file: KeyFile = serde_json::from_str(&text)
            .map_err(|error| Error::file(path, format!("not a key of leyden verify: {error}")))?;
        if file.format != FORMAT || file.algorithm != "ed25519" {
            return Err(wrong("format: want `leyden-key` with algorithm `ed25519`"));
        }
        let public = unhex(&file.public).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok());
        let public = public.ok_or_else(|| wrong("public: want 64 hexadecimal digits of an Ed25519 key"))?;
        let secret = match &file.secret {
            Some(secret) => {
                let bytes = unhex(secret).ok_or_else(|| wrong("secret: want 64 hexadecimal digits"))?;
                Some(SigningKey::from_bytes(&bytes))
            }
            None => None,
        };
        if secret.as_ref().is_some_and(|secret| secret.verifying_key() != public) {
            return Err(wrong("secret and public belong to different keys"));
        }
        if secret.is_some() && is_open(&metadata) {
            return Err(wrong("other users may read the secret key; run chmod 600 on it"));
        }
        Ok(Key { secret, public, made: file.made, expires: file.expires })
    }

    /// Returns the key with this public part in hexadecimal digits, without a date of its making or its end; `None` if
    /// it is no key.
    #[must_use]
    pub fn of_public(digits: &str) -> Option<Key> {
        let public = VerifyingKey::from_bytes(&unhex(digits)?).ok()?;
        Some(Key { secret: None, public, made: Time(0), expires: Time(u64::MAX) })
    }

    fn file(&self, secret: bool) -> KeyFile {
        KeyFile {
            format: FORMAT.to_owned(),
            algorithm: "ed25519".to_owned(),
            public: self.id(),
            secret: self.secret.as_ref().filter(|_| secret).map(|secret| hex(&secret.to_bytes())),
            made: self.made,
            expires: self.expires,
        }
    }

    /// Writes the key to a new file that only its owner may read, and the public part to the same name with `.pub`
    /// behind it.
    ///
    /// # Errors
    /// A file cannot be written, or the first one exists.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = |secret| {
            serde_json::to_string_pretty(&self.file(secret))
                .map(|text| text + "\n")
                .map_err(|error| Error::file(path, error))
        };
        let written = |path: &Path, text: &str, options| {
            leyden_files::write(path, text.as_bytes(), options)
                .map_err(|error| Error::file(path, format!("cannot write: {error}")))
        };
        written(path, &text(true)?, OutputOptions::new().files_only().private().new_only())?;
        let mut public = path.as_os_str().to_owned();
        public.push(".pub");
        written(Path::new(&public), &text(false)?, OutputOptions::new().files_only())
    }

    /// Returns the public key in hexadecimal digits, which identifies the key.
    #[must_use]
    pub fn id(&self) -> String {
        hex(self.public.as_bytes())
    }

    /// Returns the time from which on the key is not valid.
    #[must_use]
    pub fn expires(&self) -> Time {
        self.expires
    }

    /// Returns true if the key is not valid any more.
    #[must_use]
    pub fn is_expired(&self, now: Time) -> bool {
        now >= self.expires
    }

    /// Returns true if the key can sign.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        self.secret.is_some()
    }

    /// Returns the public key with this identifier, as [`id`](Self::id) writes it; it does not expire. `None` for any
    /// other text.
    ///
    /// ```
    /// use leyden_verify::{Key, Time};
    /// let key = Key::generate(Time::now(), 1)?;
    /// assert_eq!(Key::of_id(&key.id()).map(|key| key.can_sign()), Some(false));
    /// assert!(Key::of_id("key").is_none());
    /// # Ok::<(), leyden_verify::Error>(())
    /// ```
    #[must_use]
    pub fn of_id(id: &str) -> Option<Key> {
        let public = unhex(id).and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())?;
        Some(Key { secret: None, public, made: Time(0), expires: Time(u64::MAX) })
    }

    /// Returns the signature of bytes in hexadecimal digits; `None` without the secret part.
    #[must_use]
    pub fn sign(&self, bytes: &[u8]) -> Option<String> {
        self.secret.as_ref().map(|secret| hex(&secret.sign(bytes).to_bytes()))
    }

    /// Returns true if a signature in hexadecimal digits is this key's, of these bytes.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &str) -> bool {
        unhex(signature).is_some_and(|signature| {
            self.public.verify_strict(bytes, &Signature::from_bytes(&signature)).is_ok()
        })
    }
}

#[cfg(unix)]
fn is_open(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000);

    #[test]
    fn keys_are_private_and_survive_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = Key::generate(NOW, 30).unwrap();
        key.write(&path).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
            assert!(Key::read(&path).unwrap_err().to_string().contains("chmod 600"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        assert!(key.write(&path).is_err(), "a key is never replaced");
        let read = Key::read(&path).unwrap();
        let public = Key::read(&folder.path().join("key.pub")).unwrap();
        assert_eq!((read.id(), read.expires()), (key.id(), NOW.plus(days(30))));
        assert!(read.can_sign() && !public.can_sign() && public.sign(b"x").is_none());
        let signature = read.sign(b"text").unwrap();
        assert!(public.verifies(b"text", &signature) && !public.verifies(b"texT", &signature));
        assert!(!Key::generate(NOW, 1).unwrap().verifies(b"text", &signature));
        assert!(!public.verifies(b"text", "") && !public.verifies(b"text", &signature.replace('a', "b")));
        assert!(!key.is_expired(NOW) && key.is_expired(NOW.plus(days(30))));
        assert!(!format!("{key:?}").contains(&hex(&key.secret.as_ref().unwrap().to_bytes())));
    }

    /// The first test vector of RFC 8032, section 7.1.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let secret = unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let secret = SigningKey::from_bytes(&secret);
        let key = Key { public: secret.verifying_key(), secret: Some(secret), made: NOW, expires: NOW };
        assert_eq!(key.id(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let wanted = "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b";
        assert_eq!(key.sign(b"").unwrap(), wanted);
    }

    #[test]
    fn damaged_files_are_refused_by_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pub");
        let key = Key::generate(NOW, 1).unwrap();
        let good = serde_json::to_string(&key.file(false)).unwrap();
        for (from, to, words) in [
            ("leyden-key", "other", "format: want"),
            (&key.id()[..], "12", "public: want 64"),
            ("\"made\":\"2", "\"made\":\"x", "is no time"),
            ("\"algorithm\"", "\"algo\"", "not a key"),
            (&good[..], "", "not a key"),
        ] {
            fs::write(&path, good.replace(from, to)).unwrap();
            let told = Key::read(&path).unwrap_err().to_string();
            assert!(told.contains("key.pub: ") && told.contains(words), "{told}");
        }
        assert!(Key::read(folder.path()).unwrap_err().to_string().contains("not a regular file"));
    }
}
