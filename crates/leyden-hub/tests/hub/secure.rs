//! Encrypted connections and proxies.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use leyden_hub::{Authorities, Options, Proxies};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Hub, ReadWrite, Reply, Repository, Server, read_request};
use crate::{Shelf, content, options};

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub/certificates").join(name)
}

fn config() -> Arc<ServerConfig> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let make = || {
        let chain = vec![CertificateDer::from_pem_file(certificate("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(certificate("server.key")).unwrap();
        let provider = leyden_tls::provider().unwrap();
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
    };
    Arc::clone(CONFIG.get_or_init(make))
}

fn encrypted(stream: TcpStream, serve: &mut dyn FnMut(&mut dyn ReadWrite)) {
    serve(&mut StreamOwned::new(ServerConnection::new(config()).unwrap(), stream));
}

/// Hub over TLS, with everything on one host.
fn secure_hub(repository: &Repository, large: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    let listing = repository.listing().to_string();
    Server::start_with(
        move |request| {
            if request.path.starts_with("/api/") {
                Reply::new(200, listing.clone())
            } else {
                large(&request.path)
            }
        },
        encrypted,
    )
}

fn secure(server: &Server) -> Options {
    let mut options = options(&format!("https://localhost:{}", server.port()));
    options.authorities = Authorities::File(certificate("authority.pem"));
    options
}

#[test]
fn an_encrypted_pull_works_with_the_right_authority_only() {
    let model = content(3_000_000, 1);
    let all = model.clone();
    let server = secure_hub(&Repository::new(&[("m.gguf", &model)]), move |_| Reply::new(200, all.clone()));
    let shelf = Shelf::new();
    let pulled = shelf.pull(&secure(&server), "hf:org/repo").unwrap();
    assert_eq!(std::fs::read(pulled.model.path).unwrap(), model);

    // The system does not trust this authority; with an address instead of a name it is another server.
    let shelf = Shelf::new();
    let mut unknown = secure(&server);
    unknown.authorities = Authorities::File(certificate("server.pem"));
    let (message, hint) = shelf.refused(&unknown, "hf:org/repo");
    assert!(message.contains("no secure connection to localhost:"), "{message}");
    assert!(hint.contains("SSL_CERT_FILE"), "{hint}");
    let mut misnamed = secure(&server);
    misnamed.endpoint = format!("https://ip6-localhost.invalid:{}", server.port());
    shelf.refused(&misnamed, "hf:org/repo");
    let mut no_file = secure(&server);
    no_file.authorities = Authorities::File(certificate("make.sh"));
    assert!(shelf.refused(&no_file, "hf:org/repo").0.contains("the file holds none"));
}

#[test]
fn a_redirect_may_not_leave_encryption() {
    let hub = Hub::start(&Repository::new(&[("m.gguf", b"x")]));
    let open = format!("{}/cdn/m.gguf", hub.cdn.url());
    let server = secure_hub(&Repository::new(&[("m.gguf", b"x")]), move |_| Reply::redirect(&open));
    let (message, _) = Shelf::new().refused(&secure(&server), "hf:org/repo");
    assert!(message.contains("from an encrypted to an open connection"), "{message}");
    assert!(hub.cdn.seen().is_empty());
}

/// Target of a tunnel, and the credentials in its request.
type Tunnel = (String, Option<String>);

/// Proxy that opens tunnels to any host, and records the targets and credentials.
fn proxy() -> (String, Arc<Mutex<Vec<Tunnel>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut near = stream.unwrap();
            let request = read_request(&mut BufReader::new(near.try_clone().unwrap())).unwrap();
            let credentials = request.header("proxy-authorization").map(str::to_owned);
            all.lock().unwrap().push((request.path.clone(), credentials));
            let mut far = TcpStream::connect(&request.path).unwrap();
            near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            thread::spawn(move || std::io::copy(&mut far, &mut near));
        }
    });
    (format!("127.0.0.1:{}", address.port()), seen)
}

#[test]
fn proxies_are_used_unless_the_host_is_excepted() {
    let server = secure_hub(&Repository::new(&[("m.gguf", b"x")]), |_| Reply::new(200, "x"));
    let (address, seen) = proxy();
    let mut options = secure(&server);
    options.proxies = Proxies { https: Some(format!("http://me:p%40ss@{address}")), ..Proxies::default() };
    Shelf::new().pull(&options, "hf:org/repo").unwrap();
    let through = seen.lock().unwrap().clone();
    assert!(!through.is_empty());
    for (target, credentials) in &through {
        assert_eq!(target, &format!("localhost:{}", server.port()));
        assert_eq!(credentials.as_deref(), Some("Basic bWU6cEBzcw=="));
    }
    options.proxies.direct = "example.org,localhost".to_owned();
    Shelf::new().pull(&options, "hf:org/repo").unwrap();
    assert_eq!(seen.lock().unwrap().len(), through.len());
    for bad in ["socks5://secret@127.0.0.1:1", "://", "ftp://secret"] {
        options.proxies = Proxies { https: Some(bad.to_owned()), ..Proxies::default() };
        let (message, _) = Shelf::new().refused(&options, "hf:org/repo");
        assert!(
            message.contains("https_proxy: only proxies with http or https") && !message.contains("secret"),
            "{message}"
        );
    }
}
