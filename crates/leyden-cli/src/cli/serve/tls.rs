//! TLS of `leyden serve`: its options, which the file of `--config` may have in its table `[tls]`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leyden_server::{ApiKeys, ClientCertificates, ServerFiles, ServerTls};
use toml::Value;

use super::toml_values::{text, unknown};
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;

/// Options of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Tls {
    /// PEM file with the server's certificate, followed by intermediate ones. The server then speaks only TLS (1.2 and 1.3);
    /// changed files are used within seconds
    #[arg(long, visible_alias = "ssl-certfile", alias = "ssl-cert-file", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate, not encrypted
    #[arg(long, visible_alias = "ssl-keyfile", alias = "ssl-key-file", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file with the authorities that sign certificates of clients (mTLS)
    #[arg(long, visible_alias = "ssl-ca-certs", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Certificates of clients: required (the default with --tls-client-ca) or optional
    #[arg(long, value_name = "MODE", value_parser = mode)]
    tls_client_auth: Option<ClientCertificates>,
    /// PEM file with lists of revoked certificates of clients
    #[arg(long, value_name = "FILE")]
    tls_client_crl: Option<PathBuf>,
    /// File of clients like that of --api-keys, with `certificates` for `sha256`: the names in a client's certificate,
    /// such as dns:client.example.org or cn:Ada
    #[arg(long, value_name = "FILE")]
    tls_clients: Option<PathBuf>,
}

type Setter = fn(&mut Tls, &Value) -> Result<(), String>;

/// Keys of the table in the file.
const KEYS: &[(&str, Setter)] = &[
    ("cert", |tls, v| file(v).map(|file| tls.tls_cert = file)),
    ("key", |tls, v| file(v).map(|file| tls.tls_key = file)),
    ("client_ca", |tls, v| file(v).map(|file| tls.tls_client_ca = file)),
    ("client_auth", |tls, v| mode(text(v)?).map(|mode| tls.tls_client_auth = Some(mode))),
    ("client_crl", |tls, v| file(v).map(|file| tls.tls_client_crl = file)),
    ("clients", |tls, v| file(v).map(|file| tls.tls_clients = file)),
];

fn file(value: &Value) -> Result<Option<PathBuf>, String> {
    text(value).map(|text| Some(PathBuf::from(text)))
}

fn mode(name: &str) -> Result<ClientCertificates, String> {
    match name {
        "required" => Ok(ClientCertificates::Required),
        "optional" => Ok(ClientCertificates::Optional),
        _ => Err("must be required or optional".to_owned()),
    }
}

impl Tls {
    /// Reads the table of the file.
    pub(super) fn of_table(table: &Value) -> Result<Tls, String> {
        let table = table.as_table().ok_or("tls must be a table")?;
        let mut tls = Tls::default();
        for (key, value) in table {
            let known = KEYS.iter().find(|(known, _)| known == key);
            let names = KEYS.iter().map(|(known, _)| *known);
            let set = known.ok_or_else(|| format!("tls.{}", unknown(key, names)))?;
            set.1(&mut tls, value).map_err(|what| format!("tls.{key}: {what}"))?;
        }
        Ok(tls)
    }

    /// Returns these options, and for those that are missing the ones of the file.
    pub(super) fn or(self, file: Tls) -> Tls {
        Tls {
            tls_cert: self.tls_cert.or(file.tls_cert),
            tls_key: self.tls_key.or(file.tls_key),
            tls_client_ca: self.tls_client_ca.or(file.tls_client_ca),
            tls_client_auth: self.tls_client_auth.or(file.tls_client_auth),
            tls_client_crl: self.tls_client_crl.or(file.tls_client_crl),
            tls_clients: self.tls_clients.or(file.tls_clients),
        }
    }

    /// Reads the certificate, the key and the authorities of clients; `None` without TLS.
    pub(super) fn load(&self, notes: Notes) -> Result<Option<Arc<ServerTls>>, Failure> {
        let files = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => ServerFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_authorities: self.tls_client_ca.clone(),
                revoked: self.tls_client_crl.clone(),
                client_certificates: self.tls_client_auth.unwrap_or_default(),
            },
            (Some(_), None) => return Err(Failure::usage("--tls-cert needs --tls-key")),
            (None, Some(_)) => return Err(Failure::usage("--tls-key needs --tls-cert")),
            (None, None) if self.tls_client_ca.is_some() => {
                return Err(Failure::usage("--tls-client-ca needs --tls-cert and --tls-key"));
            }
            (None, None) => return self.check_clients().map(|()| None),
        };
        self.check_clients()?;
        let tls = ServerTls::load(files).map_err(|error| Failure::new(error.to_string()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Some(warning) = tls.warning(now) {
            notes.say(&format!("warning: {warning}"));
        }
        Ok(Some(Arc::new(tls)))
    }

    /// Checks that options about clients' certificates have the authorities of these.
    fn check_clients(&self) -> Result<(), Failure> {
        let others = [
            ("--tls-client-auth", self.tls_client_auth.is_some()),
            ("--tls-client-crl", self.tls_client_crl.is_some()),
            ("--tls-clients", self.tls_clients.is_some()),
        ];
        match others.iter().find(|(_, given)| *given && self.tls_client_ca.is_none()) {
            Some((name, _)) => Err(Failure::usage(format!("{name} needs --tls-client-ca"))),
            None => Ok(()),
        }
    }

    /// Adds the clients of `--tls-clients` to the keys.
    pub(super) fn clients(&self, keys: Option<ApiKeys>) -> Result<Option<ApiKeys>, Failure> {
        if keys.as_ref().is_some_and(ApiKeys::has_certificates) && self.tls_client_ca.is_none() {
            return Err(Failure::usage("`certificates` in the file of --api-keys need --tls-client-ca"));
        }
        let Some(path) = &self.tls_clients else { return Ok(keys) };
        let clients = ApiKeys::read(path)?;
        match keys {
            None => Ok(Some(clients)),
            Some(keys) => {
                let all = keys.and(clients);
                all.map(Some).map_err(|what| Failure::new(format!("{}: {what}", path.display())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_fills_in_what_the_options_leave_out() {
        let table = |text: &str| Tls::of_table(&Value::Table(text.parse().unwrap()));
        let file = table(
            "cert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\nclient_auth = \"optional\"\nclient_crl = \"r\"\nclients = \"l\"",
        );
        let options = Tls { tls_cert: Some("other".into()), ..Tls::default() };
        let both = options.or(file.unwrap());
        assert_eq!((both.tls_cert, both.tls_key), (Some("other".into()), Some("k".into())));
        assert_eq!(both.tls_client_auth, Some(ClientCertificates::Optional));
        assert_eq!((both.tls_client_crl, both.tls_clients), (Some("r".into()), Some("l".into())));
        for (text, wanted) in [
            ("certificate = \"c\"", "tls.certificate: unknown setting; did you mean `cert`?"),
            ("cert = 1", "tls.cert: must be a text"),
            ("client_auth = \"never\"", "tls.client_auth: must be required or optional"),
        ] {
            let error = table(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn options_that_need_each_other_say_so() {
        let path = || Some(PathBuf::from("x"));
        for (tls, wanted) in [
            (Tls { tls_cert: path(), ..Tls::default() }, "--tls-cert needs --tls-key"),
            (Tls { tls_key: path(), ..Tls::default() }, "--tls-key needs --tls-cert"),
            (Tls { tls_client_ca: path(), ..Tls::default() }, "--tls-client-ca needs --tls-cert"),
            (Tls { tls_clients: path(), ..Tls::default() }, "--tls-clients needs --tls-client-ca"),
            (
                Tls { tls_cert: path(), tls_key: path(), tls_client_crl: path(), ..Tls::default() },
                "--tls-client-crl needs --tls-client-ca",
            ),
        ] {
            let error = tls.load(Notes::default()).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
