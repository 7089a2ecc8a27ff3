//! `leyden serve` with TLS, its options, and clients with certificates: Python's, `leyden ps` and `leyden load`.

use leyden_testkit::certificates::{Authority, Description};
use leyden_testkit::emulated;
use rustix::process::Signal;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::program::{Files, leyden};
use super::serve::Server;

/// Paths of the files of a server and a client.
struct Paths {
    authority: String,
    certificate: String,
    key: String,
    client: String,
    client_key: String,
    clients: String,
}

fn paths(files: &Files, authority: &Authority) -> Paths {
    let server = authority.issue(&Description { dns: &["localhost"], ..Description::default() });
    let client = authority.issue(&Description {
        client: true,
        dns: &["ada.example.org"],
        common_name: "Ada",
        ..Description::default()
    });
    let line = "{\"id\":\"ada\",\"certificates\":[\"dns:ada.example.org\"]}\n";
    Paths {
        authority: files.add("ca.pem", authority.pem().as_bytes()),
        certificate: files.add("cert.pem", server.certificate.as_bytes()),
        key: files.add("key.pem", server.key.as_bytes()),
        client: files.add("client.pem", client.certificate.as_bytes()),
        client_key: files.add("client-key.pem", client.key.as_bytes()),
        clients: files.add("clients.jsonl", line.as_bytes()),
    }
}

/// Returns true, and prints why, where TLS is not possible: the cryptography needs instructions that emulators lack.
fn skipped() -> bool {
    if emulated() {
        let _ =
            writeln!(std::io::stderr(), "skipped: the emulator may lack instructions of the cryptography");
    }
    emulated()
}

#[test]
fn clients_with_certificates_are_served() {
    if skipped() {
        return;
    }
    let (files, authority) = (Files::new(), Authority::new("authority of a test"));
    let paths = paths(&files, &authority);
    let server = Server::start(&[
        "--tls-cert",
        &paths.certificate,
        "--tls-key",
        &paths.key,
        "--tls-client-ca",
        &paths.authority,
        "--tls-clients",
        &paths.clients,
    ]);
    let url = format!("https://localhost:{}", server.address.rsplit(':').next().unwrap());
    let own =
        ["--ca-file", &paths.authority, "--client-cert", &paths.client, "--client-key", &paths.client_key];
    let with = |command: &[&str], own: &[&str]| leyden(&[command, &["--url", &url], own].concat());
    let listed = with(&["ps"], &own).ok();
    assert!(listed.contains("storyteller"), "{listed}");
    let load = ["load", "--requests", "4", "--users", "2", "--output-tokens", "4", "--json"];
    let loaded = with(&load, &own);
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    let error = with(&["ps"], &own[..2]).failed(1);
    assert!(error.contains("ertificate"), "{error}");
    let error = with(&["ps"], &own[..4]).failed(2);
    assert!(error.contains("--client-key"), "{error}");
    let mixed =
        ["--ca-file", &paths.authority, "--client-cert", &paths.client, "--client-key", &paths.client];
    let error = with(&["ps"], &mixed);
    assert!(error.err.contains("client.pem: no private key"), "{error:?}");
    python(&server, &paths);
    // A new pair is used after a signal, and the server goes on.
    let renewed = authority.issue(&Description { dns: &["localhost"], ..Description::default() });
    files.add("cert.pem", renewed.certificate.as_bytes());
    files.add("key.pem", renewed.key.as_bytes());
    server.signal(Signal::HUP);
    with(&["ps"], &own).ok();
    let (code, log) = server.end();
    assert!(code == Some(0) && log.contains("key=\"ada\""), "{log}");
    assert!(log.contains("tls_handshake_failed"), "{log}");
}

/// Runs Python's clients against a server.
fn python(server: &Server, paths: &Paths) {
    let found = Command::new("python3").args(["-c", "import requests"]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the package requests");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the package requests");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/tls_client.py");
    let arguments = [&server.address, &paths.authority, &paths.client, &paths.client_key];
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.ends_with("ok\n"), "{out}\n{err}");
    let _ = write!(std::io::stderr(), "tls_client.py: {out}");
}

#[test]
fn wrong_files_are_named_before_a_model_is_loaded() {
    if skipped() {
        return;
    }
    let (files, authority) = (Files::new(), Authority::new("authority of a test"));
    let paths = paths(&files, &authority);
    let config = files.add(
        "config.toml",
        format!(
            "[tls]\ncert = {:?}\nkey = {:?}\n[models.m]\nmodel = \"m\"\n",
            paths.certificate, paths.client_key
        )
        .as_bytes(),
    );
    let twice = files.add(
        "twice",
        b"{\"id\":\"x\",\"certificates\":[\"cn:x\"]}\n{\"id\":\"y\",\"certificates\":[\"cn:x\"]}\n",
    );
    let unclear = files.add("unclear", b"{\"id\":\"x\",\"certificates\":[\"x\"]}\n");
    let pair = ["--tls-cert", &paths.certificate, "--tls-key", &paths.key];
    let mutual = [&pair[..], &["--tls-client-ca", &paths.authority]].concat();
    let of_clients =
        |file: &str| [&mutual[..], &["--tls-clients", file]].concat().iter().map(|s| s.to_string()).collect();
    let cases: [(Vec<String>, i32, &str); 8] = [
        (vec!["--tls-cert".into(), paths.certificate.clone()], 2, "--tls-cert needs --tls-key"),
        (
            ["--tls-cert", &paths.key, "--tls-key", &paths.key].map(str::to_owned).into(),
            1,
            "key.pem: no certificate (-----BEGIN CERTIFICATE-----): the file has PRIVATE KEY",
        ),
        (
            ["--tls-cert", &paths.certificate, "--tls-key", &paths.client_key].map(str::to_owned).into(),
            1,
            "client-key.pem: the private key is not that of the first certificate in",
        ),
        (
            vec!["--config".into(), config],
            1,
            "client-key.pem: the private key is not that of the first certificate",
        ),
        (
            [&pair[..], &["--tls-clients", &paths.clients]].concat().iter().map(|s| s.to_string()).collect(),
            2,
            "--tls-client-ca",
        ),
        (
            of_clients(&twice),
            1,
            "twice: line 2: `y`, its key, or an identity of its certificate occurs twice",
        ),
        (
            of_clients(&unclear),
            1,
            "unclear: line 1: `certificates` must have texts such as `dns:client.example.org`",
        ),
        (vec!["--api-keys".into(), paths.clients.clone()], 2, "need --tls-client-ca"),
    ];
    for (options, code, wanted) in cases {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let error = leyden(&[&["serve", "--port", "0"], &options[..]].concat()).failed(code);
        assert!(error.contains(wanted), "{options:?}: {error}");
    }
    // An address that others reach needs keys, or certificates of all clients.
    let optional = [&mutual[..], &["--tls-client-auth", "optional", "--host", "0.0.0.0"]].concat();
    let error = leyden(&[&["serve", "--port", "0"], &optional[..]].concat());
    assert!(error.code == Some(2) && error.err.contains("--no-auth"), "{error:?}");
}
