//! Encrypted connections, and keys.

use std::path::PathBuf;
use std::sync::Arc;

use crate::server::Server;
use crate::*;
use leyden_load::ApiKey;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Returns the path of a certificate: the tests' own authority, or one for `localhost`, made by `make.sh` beside
/// them.
fn certificate(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../leyden-hub/tests/hub/certificates").join(name)
}

#[test]
fn encrypted_connections_and_keys_work() {
    let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(leyden_tls::provider().unwrap())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let server = Server::start_with(
        |_| Vec::new(),
        move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            Box::new(StreamOwned::new(session, stream))
        },
    );
    let base = || format!("https://localhost:{}", server.port()).parse().unwrap();
    let find = |authorities: &Authorities| {
        let key = ApiKey::new("sk-test", "").unwrap();
        let server = leyden_load::Server::new(base(), Some(key), authorities)?;
        Target::find(server, None, Ask::default(), LONG, &Control::default())
    };
    let target = match find(&Authorities::File(certificate("authority.pem"))) {
        // A processor, or an emulator, without the instructions.
        Err(error) if error.to_string().contains("this processor lacks") => {
            eprintln!("skipped: {error}");
            return;
        }
        other => other.unwrap(),
    };
    let run = finish(&target, &workload(2, 6));
    assert!(failures(&run).is_empty(), "{:?}", failures(&run));
    let seen = server.seen("/chat/completions");
    assert!(seen.len() >= 6 && seen.iter().all(|r| r.head.contains("\r\nAuthorization: Bearer sk-test\r\n")));
    let stranger = find(&Authorities::File(certificate("server.key"))).unwrap_err();
    assert!(stranger.is_usage() || stranger.to_string().contains("authority"), "{stranger}");
    let unknown = find(&Authorities::System).unwrap_err().to_string();
    assert!(unknown.contains("cannot connect") || unknown.contains("no certificate authority"), "{unknown}");
}
