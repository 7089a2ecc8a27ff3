//! Encrypted connections: handshakes that are refused, slow or plain, certificates that change, and clients with
//! certificates of their own.

use super::{CHAT, Lines, at_rest, patience, run, start, story, until, worker_options};
use crate::app::App;
use crate::auth::ApiKeys;
use crate::listen::{self, Ending};
use crate::signals::Signal;
use crate::{ClientCertificates, Limits, ServerFiles, ServerOptions, ServerTls};
use leyden_testkit::certificates::{Authority, Description, Issued, KeyKind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Authority, and folder of the files of a server.
struct Files {
    folder: TempDir,
    authority: Authority,
}

impl Files {
    /// `None` if the processor, or an emulator, lacks instructions of the cryptography.
    fn new() -> Option<Files> {
        if let Err(missing) = leyden_tls::provider() {
            eprintln!("skipped: this processor lacks {missing:?}");
            return None;
        }
        Some(Files { folder: TempDir::new().unwrap(), authority: Authority::new("authority of a test") })
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes a new certificate for `localhost` and its key.
    fn renew(&self, kind: KeyKind) -> ServerFiles {
        let issued =
            self.authority.issue(&Description { kind, dns: &["localhost"], ..Description::default() });
        let certificate = self.put("cert.pem", &issued.certificate);
        ServerFiles { certificate, key: self.put("key.pem", &issued.key), ..ServerFiles::default() }
    }

    /// As [`renew`](Self::renew), for clients with certificates of the same authority.
    fn mutual(&self, client_certificates: ClientCertificates) -> ServerFiles {
        let client_authorities = Some(self.put("ca.pem", self.authority.pem()));
        ServerFiles { client_authorities, client_certificates, ..self.renew(KeyKind::P256) }
    }

    fn client(&self, description: &Description<'_>) -> Issued {
        self.authority.issue(&Description { client: true, ..description.clone() })
    }
}

/// A server with TLS on a socket.
struct Server {
    app: Arc<App>,
    lines: Lines,
    address: SocketAddr,
    signals: UnboundedSender<Signal>,
}

async fn server(files: ServerFiles, options: ServerOptions) -> Server {
    let tls = Some(Arc::new(ServerTls::load(files).unwrap()));
    let (app, lines) = start(worker_options(), ServerOptions { tls, ..options });
    let listener = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = listener.local_addr().unwrap();
    let (signals, caught) = unbounded_channel();
    let times = Ending { lame_duck: Duration::ZERO, drain: Duration::from_secs(30), tell: None };
    tokio::spawn(listen::run(Arc::clone(&app), listener, caught, times));
    Server { app, lines, address, signals }
}

/// Returns a client's configuration.
fn config(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    own: Option<&Issued>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(leyden_tls::provider().unwrap())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.certificate.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap()
        }
    }
}

const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

impl Server {
    async fn connect_as(&self, config: ClientConfig, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let host = ServerName::try_from(host.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(host, stream).await
    }

    /// Returns the status of a request, or the error of its connection.
    async fn status(&self, config: ClientConfig, request: &str) -> io::Result<String> {
        let mut stream = self.connect_as(config, "localhost").await?;
        answer(&mut stream, request)
            .await
            .map(|answer| answer.split(' ').nth(1).unwrap_or_default().to_owned())
    }

    async fn logged(&self, text: &str) {
        until(text, || {
            self.app.log().flush();
            self.lines.text().contains(text)
        })
        .await;
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
}

/// Sends a request that ends its connection, and returns the answer.
async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes).await {
        Ok(_) => {}
        Err(_) if !bytes.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[test]
fn keys_and_versions_of_all_kinds_serve() {
    let Some(files) = Files::new() else { return };
    run(async {
        for kind in [KeyKind::P256, KeyKind::Ed25519, KeyKind::Rsa] {
            let server = server(files.renew(kind), ServerOptions::default()).await;
            for version in BOTH {
                let mut config = config(&files.authority, &[version], None);
                config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
                let stream = server.connect_as(config, "localhost").await;
                if (kind, version.version) == (KeyKind::Ed25519, TLS12.version) {
                    assert!(stream.is_err(), "the cryptography has Ed25519 in TLS 1.3 alone");
                    continue;
                }
                let mut stream = stream.unwrap();
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
                assert_eq!(stream.get_ref().1.protocol_version(), Some(version.version));
                let answer = answer(&mut stream, &get("/health", "")).await.unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{kind:?} {version:?}: {answer}");
            }
            // A client that speaks HTTP/2 alone, and one that wants another host.
            let mut alone = config(&files.authority, BOTH, None);
            alone.alpn_protocols = vec![b"h2".to_vec()];
            assert!(server.connect_as(alone, "localhost").await.is_err());
            assert!(server.connect_as(config(&files.authority, BOTH, None), "example.org").await.is_err());
            let stranger = config(&Authority::new("another"), BOTH, None);
            assert!(server.connect_as(stranger, "localhost").await.is_err());
            let tls = server.app.tls.as_ref().unwrap();
            until("failures are counted", || {
                tls.figures().handshakes[1] == 3 + u64::from(kind == KeyKind::Ed25519)
            })
            .await;
        }
    });
}

#[test]
fn a_story_is_the_same_behind_tls() {
    let Some(files) = Files::new() else { return };
    run(async {
        let server = server(files.renew(KeyKind::P256), ServerOptions::default()).await;
        let body = story(1, 20).to_string();
        let wanted = super::ask(&server.app, super::COMPLETIONS, story(1, 20)).await;
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            super::COMPLETIONS,
            body.len()
        );
        let mut stream = server.connect_as(config(&files.authority, BOTH, None), "localhost").await.unwrap();
        let answer = answer(&mut stream, &request).await.unwrap();
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(answer["choices"][0]["text"], wanted["choices"][0]["text"]);
        // A client that leaves in the middle of an answer ends it.
        let streamed = r#"{"prompt":"Once","max_tokens":400,"stream":true,"ignore_eos":true}"#;
        let request = format!(
            "POST {} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{streamed}",
            super::COMPLETIONS,
            streamed.len()
        );
        let mut stream = server.connect_as(config(&files.authority, BOTH, None), "localhost").await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut some = [0; 64];
        assert!(stream.read(&mut some).await.unwrap() > 0);
        drop(stream);
        until("the engine rests", || at_rest(&server.app)).await;
    });
}

#[test]
fn plain_http_gets_an_error_and_rubbish_is_closed() {
    let Some(files) = Files::new() else { return };
    run(async {
        let server = server(files.renew(KeyKind::P256), ServerOptions::default()).await;
        for path in ["/health", "/v1/models", "/metrics"] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let answer = answer(&mut stream, &get(path, "")).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("use https://"), "{answer}");
            assert!(answer.contains("connection: close"), "{answer}");
        }
        for bytes in
            [&b"\x16\x03\x01\x00\x05hello"[..], b"\x80\x2e\x01\x00\x02", b"\x00", b"\x16\x03\x01\xff\xff"]
        {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            // At most an alert.
            let _ = stream.read_to_end(&mut rest).await;
            assert!(rest.len() <= 7, "{bytes:?}: {rest:?}");
        }
        server.logged("tls_handshake_failed").await;
        // A connection that sends nothing is no failed handshake.
        let before = server.app.tls.as_ref().unwrap().figures().handshakes[1];
        drop(TcpStream::connect(server.address).await.unwrap());
        until("the connections are gone", || server.app.http.connections.get() == 0).await;
        assert_eq!(server.app.tls.as_ref().unwrap().figures().handshakes[1], before);
    });
}

#[test]
fn a_slow_handshake_ends_and_its_place_is_free() {
    let Some(files) = Files::new() else { return };
    run(async {
        let limits = Limits {
            connections: 2,
            connections_per_peer: 2,
            header_time: Duration::from_millis(300),
            ..Limits::default()
        };
        let server =
            server(files.renew(KeyKind::P256), ServerOptions { limits, ..ServerOptions::default() }).await;
        let mut slow = Vec::new();
        for bytes in [&b"\x16\x03\x01"[..], b""] {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            slow.push(stream);
        }
        until("both are counted before their handshake", || server.app.http.connections.get() == 2).await;
        // A byte now and then does not prolong the time.
        let mut dripping = slow.remove(0);
        let drip = tokio::spawn(async move {
            while dripping.write_all(b"\x01").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let status = server.status(config(&files.authority, BOTH, None), &get("/v1/models", "")).await;
        assert_eq!(status.unwrap(), "200");
        tokio::time::timeout(patience(), drip).await.unwrap().unwrap();
        let mut rest = Vec::new();
        let _ = slow[0].read_to_end(&mut rest).await;
        assert!(rest.is_empty());
        until("the connections are gone", || server.app.http.connections.get() == 0).await;
        assert_eq!(server.app.tls.as_ref().unwrap().figures().handshakes, [1, 1]);
    });
}

#[test]
fn a_certificate_is_swapped_under_load() {
    let Some(files) = Files::new() else { return };
    run(async {
        let options = ServerOptions { tls_interval: Duration::from_millis(10), ..ServerOptions::default() };
        let server = server(files.renew(KeyKind::P256), options).await;
        let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        let mut kept = server.connect_as(config(&files.authority, BOTH, None), "localhost").await.unwrap();
        let load = async {
            while !over.load(Ordering::Relaxed) {
                let status =
                    server.status(config(&files.authority, BOTH, None), &get("/v1/models", "")).await;
                assert_eq!(status.unwrap(), "200");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        };
        let swap = async {
            let tls = server.app.tls.as_ref().unwrap();
            for round in 1..=3 {
                files.renew(KeyKind::P256);
                until("the new certificate is used", || tls.figures().reloads[0] >= round).await;
                let before = answered.load(Ordering::Relaxed);
                until("requests go on", || answered.load(Ordering::Relaxed) > before).await;
            }
            // A key of another certificate is reported, and changes nothing.
            let refused = tls.figures().reloads[1];
            files.put("key.pem", &files.client(&Description::default()).key);
            until("the pair is refused", || tls.figures().reloads[1] > refused).await;
            server.logged("tls_reload_failed").await;
            assert!(server.lines.text().contains("key.pem: the private key is not that of"));
            let before = answered.load(Ordering::Relaxed);
            until("requests go on", || answered.load(Ordering::Relaxed) > before).await;
            over.store(true, Ordering::Relaxed);
        };
        tokio::join!(load, swap);
        let old = answer(&mut kept, &get("/health", "")).await.unwrap();
        assert!(old.starts_with("HTTP/1.1 200"), "an open connection keeps on: {old}");
    });
}

#[test]
fn a_signal_makes_it_look_at_the_files() {
    let Some(files) = Files::new() else { return };
    run(async {
        let options = ServerOptions { tls_interval: Duration::from_secs(3600), ..ServerOptions::default() };
        let server = server(files.renew(KeyKind::P256), options).await;
        files.renew(KeyKind::Ed25519);
        server.signals.send(Signal::Reload).unwrap();
        server.logged("tls_reloaded").await;
        let status = server.status(config(&files.authority, BOTH, None), &get("/health", "")).await;
        assert_eq!(status.unwrap(), "200");
        let page = super::get(&server.app, "/metrics").await.1;
        assert!(page.contains("leyden_tls_reloads_total{result=\"loaded\"} 1"), "{page}");
        let left = page.lines().find_map(|l| l.strip_prefix("leyden_tls_certificate_expiry_seconds "));
        let left: f64 = left.unwrap().parse().unwrap();
        assert!((88.0..=90.0).contains(&(left / 86_400.0)), "{left}");
    });
}

#[test]
fn an_expired_certificate_is_served_and_reported() {
    let Some(files) = Files::new() else { return };
    run(async {
        let issued = files.authority.issue(&Description {
            days: (-9, -2),
            dns: &["localhost"],
            ..Description::default()
        });
        let (certificate, key) = (files.put("c.pem", &issued.certificate), files.put("k.pem", &issued.key));
        let server =
            server(ServerFiles { certificate, key, ..ServerFiles::default() }, ServerOptions::default())
                .await;
        server.logged("the certificate expired 2 days ago").await;
        assert!(server.connect_as(config(&files.authority, BOTH, None), "localhost").await.is_err());
        let page = super::get(&server.app, "/metrics").await.1;
        assert!(page.contains("leyden_tls_certificate_expiry_seconds -"), "{page}");
    });
}

#[test]
fn certificates_of_clients_are_verified() {
    let Some(files) = Files::new() else { return };
    run(async {
        let revoked = files.client(&Description::default());
        let mut required = files.mutual(ClientCertificates::Required);
        required.revoked = Some(files.put("crl.pem", &files.authority.revoke(&[revoked.serial])));
        let optional = ServerFiles { client_certificates: ClientCertificates::Optional, ..required.clone() };
        let (required, optional) = (
            server(required, ServerOptions::default()).await,
            server(optional, ServerOptions::default()).await,
        );
        let good = files.client(&Description::default());
        let expired = files.client(&Description { days: (-9, -1), ..Description::default() });
        let early = files.client(&Description { days: (2, 9), ..Description::default() });
        let of_a_server = files.authority.issue(&Description::default());
        let unknown =
            Authority::new("another").issue(&Description { client: true, ..Description::default() });
        for version in BOTH {
            for (own, wanted) in [
                (None, [false, true]),
                (Some(&good), [true, true]),
                (Some(&expired), [false, false]),
                (Some(&early), [false, false]),
                (Some(&unknown), [false, false]),
                (Some(&of_a_server), [false, false]),
                (Some(&revoked), [false, false]),
            ] {
                for (server, wanted) in [&required, &optional].into_iter().zip(wanted) {
                    let config = config(&files.authority, &[version], own);
                    let status = server.status(config, &get("/v1/models", "")).await;
                    assert_eq!(status.is_ok_and(|status| status == "200"), wanted, "{version:?} {own:?}");
                }
            }
        }
    });
}

#[test]
fn identities_of_certificates_have_keys_with_scopes_and_limits() {
    let Some(files) = Files::new() else { return };
    run(async {
        let digest = |key: &str| Sha256::digest(key).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let keys = format!(
            "{{\"id\":\"ada\",\"sha256\":\"{}\",\"certificates\":[\"uri:spiffe://example.org/ada\"]}}\n\
             {{\"id\":\"bob\",\"sha256\":\"{}\"}}\n\
             {{\"id\":\"watcher\",\"certificates\":[\"cn:watcher\"],\"scopes\":[\"metrics\"]}}\n\
             {{\"id\":\"slow\",\"certificates\":[\"dns:Slow.example.org\",\"email:slow@example.org\"],\"requests_per_minute\":1}}\n",
            digest("key of ada"),
            digest("key of bob")
        );
        let keys = Some(ApiKeys::parse(&keys).unwrap());
        let server = server(
            files.mutual(ClientCertificates::Optional),
            ServerOptions { keys, ..ServerOptions::default() },
        )
        .await;
        let ada =
            files.client(&Description { uris: &["spiffe://example.org/ada"], ..Description::default() });
        let watcher = files.client(&Description { common_name: "watcher", ..Description::default() });
        let nobody = files.client(&Description { common_name: "nobody", ..Description::default() });
        let key = |name: &str| format!("authorization: Bearer key of {name}\r\n");
        let bearer = key;
        for (own, headers, path, wanted) in [
            (Some(&ada), String::new(), "/v1/models", "200"),
            (Some(&ada), String::new(), "/metrics", "403"),
            (Some(&ada), bearer("ada"), "/v1/models", "200"),
            // A text that is no key, as clients send it that must send one.
            (Some(&ada), bearer("nobody"), "/v1/models", "200"),
            (Some(&ada), bearer("bob"), "/v1/models", "403"),
            (Some(&watcher), String::new(), "/metrics", "200"),
            (Some(&watcher), String::new(), "/v1/models", "403"),
            (Some(&nobody), String::new(), "/v1/models", "401"),
            (Some(&nobody), bearer("bob"), "/v1/models", "200"),
            (None, String::new(), "/v1/models", "401"),
            (None, bearer("ada"), "/v1/models", "200"),
            (None, String::new(), "/health", "200"),
        ] {
            let status = server.status(config(&files.authority, BOTH, own), &get(path, &headers)).await;
            assert_eq!(status.unwrap(), wanted, "{headers} {path}");
        }
        let mut stream =
            server.connect_as(config(&files.authority, BOTH, Some(&nobody)), "localhost").await.unwrap();
        let refused = answer(&mut stream, &get("/v1/models", "")).await.unwrap();
        assert!(refused.contains("no key has an identity of the client certificate: cn:nobody"), "{refused}");
        server.logged("\"key\":\"watcher\"").await;
        // Rate limits are those of the certificate's line, for each of its identities.
        let slow = [
            Description { dns: &["slow.example.org"], ..Description::default() },
            Description { emails: &["slow@example.org"], ..Description::default() },
        ];
        let body = r#"{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}"#;
        let request = format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        for (own, wanted) in slow.iter().map(|own| files.client(own)).zip([false, true]) {
            let status = server.status(config(&files.authority, BOTH, Some(&own)), &request).await.unwrap();
            assert_eq!(status == "429", wanted, "{status}");
        }
    });
}
