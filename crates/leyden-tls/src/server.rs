//! [`ServerTls`]: the certificate and key of a server and the authorities of its clients, from files that may change.
//!
//! A connection takes the configuration of the moment and keeps it. Files are compared by their bytes, so replaced
//! files, links and folders are noticed alike. While a pair is only half replaced, the configuration before it stays.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

use crate::certificate::{Validity, validity};
use crate::error::Error;
use crate::pem;

/// Protocols above TLS that are offered (ALPN).
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Rule for clients without a certificate, on a server with authorities for these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without a certificate is refused in the handshake.
    #[default]
    Required,
    /// A client may have none. A certificate that is not valid is refused.
    Optional,
}

/// Files of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// PEM file with the certificate of the server first, and then the intermediate ones.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// PEM file with the authorities of clients; without it clients have no certificates.
    pub client_authorities: Option<PathBuf>,
    /// PEM file with lists of revoked client certificates.
    pub revoked: Option<PathBuf>,
    /// Rule for clients without a certificate.
    pub client_certificates: ClientCertificates,
}

/// Bytes of the files, in the order of the fields of [`ServerFiles`].
type Contents = Vec<Vec<u8>>;

struct State {
    config: Arc<ServerConfig>,
    validity: Option<Validity>,
    contents: Contents,
    /// Bytes, or the reason why there are none, with which loading failed last.
    failed: Option<Result<Contents, Error>>,
}

/// Result of a look at the files.
#[derive(Debug, PartialEq, Eq)]
pub enum Reload {
    /// Nothing has changed since the last look.
    Unchanged,
    /// New connections use the new files.
    Loaded,
    /// The new files are wrong. New connections use the old ones.
    Failed(Error),
}

/// TLS of a server.
pub struct ServerTls {
    files: ServerFiles,
    state: RwLock<State>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Reads the files. A certificate that has expired is no error: see [`warning`](Self::warning).
    ///
    /// # Errors
    /// A file cannot be read or is wrong, the key is not that of the certificate, or the processor lacks instructions.
    pub fn load(files: ServerFiles) -> Result<ServerTls, Error> {
        let contents = read(&files)?;
        let (config, validity) = build(&files, &contents)?;
        let state = RwLock::new(State { config, validity, contents, failed: None });
        Ok(ServerTls { files, state })
    }

    /// Returns the configuration for a new connection.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Returns the validity of the server's certificate; `None` if it cannot be read.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).validity
    }

    /// Returns true if clients without a certificate are refused.
    #[must_use]
    pub fn requires_client_certificates(&self) -> bool {
        let required = self.files.client_certificates == ClientCertificates::Required;
        self.files.client_authorities.is_some() && required
    }

    /// Looks at the files, and uses those that have changed from now on.
    pub fn reload(&self) -> Reload {
        let contents = read(&self.files);
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let (same, again) =
                (contents.as_ref() == Ok(&state.contents), state.failed.as_ref() == Some(&contents));
            if (same && state.failed.is_none()) || again {
                return Reload::Unchanged;
            }
        }
        let built = contents.clone().and_then(|contents| Ok((build(&self.files, &contents)?, contents)));
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match built {
            Ok(((config, validity), contents)) => {
                *state = State { config, validity, contents, failed: None };
                Reload::Loaded
            }
            Err(error) => {
                state.failed = Some(contents);
                Reload::Failed(error)
            }
        }
    }

    /// Returns a warning if the certificate is not valid at a time in seconds since 1970, or ends within a week.
    #[must_use]
    pub fn warning(&self, now: u64) -> Option<String> {
        const WEEK_SECONDS: u64 = 7 * 86_400;
        let Validity { begins, ends } = self.validity()?;
        let file = self.files.certificate.display();
        if ends < now {
            return Some(format!(
                "{file}: the certificate expired {} ago; clients will refuse it",
                span(now - ends)
            ));
        }
        if begins > now {
            let wait = span(begins - now);
            return Some(format!("{file}: the certificate is valid only in {wait}; clients will refuse it"));
        }
        (ends - now < WEEK_SECONDS)
            .then(|| format!("{file}: the certificate expires in {}", span(ends - now)))
    }
}

/// Returns a duration in days, hours or minutes.
fn span(seconds: u64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7200.. => format!("{} hours", seconds / 3600),
        _ => format!("{} minutes", seconds / 60),
    }
}

fn read(files: &ServerFiles) -> Result<Contents, Error> {
    let ServerFiles { certificate, key, client_authorities, revoked, .. } = files;
    let optional = client_authorities.iter().chain(revoked);
    [certificate, key].into_iter().chain(optional).map(|file| pem::read(file)).collect()
}

type Built = (Arc<ServerConfig>, Option<Validity>);

fn build(files: &ServerFiles, contents: &Contents) -> Result<Built, Error> {
    let provider = crate::provider().map_err(|missing| {
        let what = format!("this processor lacks what TLS needs: {}", missing.join(", "));
        Error::new(Path::new(""), what)
    })?;
    let mut contents = contents.iter();
    let mut next = || contents.next().map(Vec::as_slice).unwrap_or_default();
    let chain = pem::certificates(&files.certificate, next())?;
    let key = pem::private_key(&files.key, next())?;
    let signer = provider.key_provider.load_private_key(key).map_err(|_| {
        let what = "the private key is damaged or of a kind that is not supported; supported: RSA of 2048 to 8192 bits, \
                    ECDSA on P-256 or P-384, Ed25519";
        Error::new(&files.key, what)
    })?;
    let validity = chain.first().and_then(validity);
    let certified = CertifiedKey::new(chain, signer);
    certified.keys_match().map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = files.certificate.display();
            let what = format!(
                "the private key is not that of the first certificate in {certificate}; the server's own comes first there"
            );
            Error::new(&files.key, what)
        }
        error => Error::new(&files.certificate, format!("certificate 1: {error}")),
    })?;
    let failed = |error: rustls::Error| Error::new(&files.certificate, error.to_string());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let config = match &files.client_authorities {
        None => config.with_no_client_auth(),
        Some(file) => {
            let authorities = next();
            let revoked = files.revoked.as_deref().map(|file| (file, next()));
            config.with_client_cert_verifier(verifier(files, (file, authorities), revoked, &provider)?)
        }
    };
    let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = PROTOCOLS.iter().map(|name| name.to_vec()).collect();
    if files.client_authorities.is_some() {
        // A resumed session would not look at the client's certificate again: it may be expired or revoked meanwhile.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok((Arc::new(config), validity))
}

/// Returns the check of clients' certificates.
fn verifier(
    files: &ServerFiles,
    (file, authorities): (&Path, &[u8]),
    revoked: Option<(&Path, &[u8])>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for (i, authority) in pem::certificates(file, authorities)?.into_iter().enumerate() {
        let wrong = |error| Error::new(file, format!("certificate {}: {error}", i + 1));
        roots.add(authority).map_err(wrong)?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let mut last = file;
    if let Some((file, bytes)) = revoked {
        // The lists are those of the clients' issuers; authorities above them seldom publish any.
        builder = builder.with_crls(pem::revocation_lists(file, bytes)?).only_check_end_entity_revocation();
        last = file;
    }
    if files.client_certificates == ClientCertificates::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| Error::new(last, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identities;
    use leyden_testkit::certificates::{Authority, Description, Issued, KeyKind};
    use std::fs;
    use std::time::{SystemTime, UNIX_EPOCH};
    use tempfile::TempDir;

    struct Folder(TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(TempDir::new().unwrap())
        }

        fn put(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }

        fn files(&self, of: &Issued) -> ServerFiles {
            let (certificate, key) = (self.put("cert.pem", &of.certificate), self.put("key.pem", &of.key));
            ServerFiles { certificate, key, ..ServerFiles::default() }
        }
    }

    fn now() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
    }

    fn skipped() -> bool {
        let missing = crate::provider().err();
        missing.inspect(|missing| eprintln!("skipped: this processor lacks {missing:?}")).is_some()
    }

    #[test]
    fn keys_of_all_kinds_are_loaded() {
        if skipped() {
            return;
        }
        let (folder, authority) = (Folder::new(), Authority::new("a"));
        for kind in [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa] {
            let issued =
                authority.issue(&Description { kind, dns: &["localhost"], ..Description::default() });
            let tls = ServerTls::load(folder.files(&issued)).unwrap();
            assert_eq!(tls.warning(now()), None);
            assert!(!tls.requires_client_certificates());
            let left = tls.validity().unwrap().ends - now();
            assert!((89 * 86_400..=90 * 86_400).contains(&left), "{left}");
        }
    }

    #[test]
    fn errors_name_file_and_reason() {
        if skipped() {
            return;
        }
        let (folder, authority) = (Folder::new(), Authority::new("a"));
        let [one, other] = [(); 2].map(|()| authority.issue(&Description::default()));
        let broken = one.certificate.replacen("MI", "M!", 1);
        let unfinished = one.certificate.replace("-----END CERTIFICATE-----", "");
        let chain = authority.pem().to_owned() + &one.certificate;
        let encrypted = one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let damaged = leyden_testkit::certificates::pem("PRIVATE KEY", &[0x30, 3, 2, 1, 0]);
        let damaged_certificate = leyden_testkit::certificates::pem("CERTIFICATE", &[0x30, 3, 2, 1, 0]);
        let cases: [(&str, &str, &str); 13] = [
            (&one.certificate, &other.key, "key.pem: the private key is not that of the first certificate"),
            (&chain, &one.key, "key.pem: the private key is not that of the first certificate"),
            (
                &one.key,
                &one.key,
                "cert.pem: no certificate (-----BEGIN CERTIFICATE-----): the file has PRIVATE KEY",
            ),
            (
                &one.certificate,
                &one.certificate,
                "key.pem: no private key (-----BEGIN PRIVATE KEY-----): the file has",
            ),
            (&one.certificate, &encrypted, "key.pem: the private key is encrypted"),
            (&one.certificate, old, "key.pem: the private key is encrypted"),
            (&one.certificate, &damaged, "key.pem: the private key is damaged"),
            (&damaged_certificate, &one.key, "cert.pem: certificate 1: "),
            (&broken, &one.key, "cert.pem: certificate 1: its text is not base64"),
            (&unfinished, &one.key, "cert.pem: certificate 1: its -----END"),
            ("", &one.key, "cert.pem: no certificate (-----BEGIN CERTIFICATE-----): the file is empty"),
            ("0\u{1}", &one.key, "the file seems to be DER"),
            ("hello", &one.key, "the file is not PEM"),
        ];
        for (certificate, key, wanted) in cases {
            let issued = Issued { certificate: certificate.to_owned(), key: key.to_owned(), serial: 0 };
            let error = ServerTls::load(folder.files(&issued)).unwrap_err().to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
        let mut files = folder.files(&one);
        files.client_authorities = Some(folder.put("ca.pem", &one.key));
        assert!(ServerTls::load(files.clone()).unwrap_err().to_string().contains("ca.pem: no certificate"));
        files.client_authorities = Some(folder.put("ca.pem", authority.pem()));
        files.revoked = Some(folder.put("crl.pem", authority.pem()));
        let error = ServerTls::load(files.clone()).unwrap_err().to_string();
        assert!(error.contains("crl.pem: no list of revoked certificates"), "{error}");
        files.revoked = Some(folder.put("crl.pem", &authority.revoke(&[1])));
        assert!(ServerTls::load(files.clone()).unwrap().requires_client_certificates());
        files.key = folder.0.path().join("missing.pem");
        assert!(ServerTls::load(files.clone()).unwrap_err().to_string().contains("missing.pem: cannot read"));
        files.key = folder.0.path().to_owned();
        assert!(ServerTls::load(files).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn certificates_outside_their_time_are_warned_of() {
        if skipped() {
            return;
        }
        let (folder, authority) = (Folder::new(), Authority::new("a"));
        for (days, wanted) in [
            ((-9, -3), Some("expired 3 days ago")),
            ((3, 9), Some("valid only in ")),
            ((-9, 3), Some("expires in ")),
            ((-9, 30), None),
        ] {
            let issued = authority.issue(&Description { days, ..Description::default() });
            let warning = ServerTls::load(folder.files(&issued)).unwrap().warning(now());
            let as_wanted = match (&warning, wanted) {
                (None, None) => true,
                (Some(warning), Some(wanted)) => warning.contains(wanted) && warning.contains("cert.pem: "),
                _ => false,
            };
            assert!(as_wanted, "{days:?}: {warning:?}");
        }
    }

    #[test]
    fn changed_files_are_loaded_and_broken_ones_are_not() {
        if skipped() {
            return;
        }
        let (folder, authority) = (Folder::new(), Authority::new("a"));
        let [one, other] =
            [(-1, 10), (-1, 20)].map(|days| authority.issue(&Description { days, ..Description::default() }));
        let tls = ServerTls::load(folder.files(&one)).unwrap();
        let first = tls.config();
        assert_eq!(tls.reload(), Reload::Unchanged);
        // The certificate is replaced before the key.
        folder.put("cert.pem", &other.certificate);
        assert!(matches!(tls.reload(), Reload::Failed(error) if error.file().ends_with("key.pem")));
        assert_eq!(tls.reload(), Reload::Unchanged, "an error is reported once");
        assert!(Arc::ptr_eq(&first, &tls.config()));
        fs::remove_file(folder.0.path().join("key.pem")).unwrap();
        assert!(matches!(tls.reload(), Reload::Failed(error) if error.what().contains("cannot read")));
        assert_eq!(tls.reload(), Reload::Unchanged);
        folder.put("key.pem", &other.key);
        assert_eq!(tls.reload(), Reload::Loaded);
        assert!(!Arc::ptr_eq(&first, &tls.config()));
        assert!(tls.validity().unwrap().ends > now() + 15 * 86_400);
        assert_eq!(tls.reload(), Reload::Unchanged);
        // The files before a failure are the files in use.
        folder.put("key.pem", "");
        assert!(matches!(tls.reload(), Reload::Failed(_)));
        folder.put("key.pem", &other.key);
        assert_eq!((tls.reload(), tls.reload()), (Reload::Loaded, Reload::Unchanged));
    }

    #[test]
    fn identities_are_listed_in_order() {
        let issued = Authority::new("a").issue(&Description {
            common_name: "Ada Lovelace",
            dns: &["Client.Example.org"],
            uris: &["spiffe://example.org/Batch"],
            emails: &["ada@example.org"],
            ..Description::default()
        });
        let chain = pem::certificates(Path::new("x"), issued.certificate.as_bytes()).unwrap();
        let wanted = [
            "uri:spiffe://example.org/Batch",
            "dns:client.example.org",
            "email:ada@example.org",
            "cn:Ada Lovelace",
        ];
        assert_eq!(identities(&chain[0]), wanted);
        assert!(identities(&chain[0].as_ref()[..40].to_vec().into()).is_empty());
    }
}
