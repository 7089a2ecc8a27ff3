//! Refusals of hubs, and the resulting messages.

use std::time::Instant;

use crate::server::{Hub, Reply, Repository, Server};
use crate::{Shelf, content, options};

/// Status, headers, body, whether a token is sent; parts of the message and of the hint.
type Case<'a> = (u16, &'a [(&'a str, &'a str)], &'a str, bool, &'a str, &'a str);

#[test]
fn every_refusal_has_its_message_and_hint() {
    let gated =
        [("X-Error-Code", "GatedRepo"), ("X-Error-Message", "Access to model org/repo is restricted.")];
    let cases: &[Case<'_>] = &[
        (
            401,
            &[],
            r#"{"error": "Invalid username or password."}"#,
            false,
            "(401; no token was sent): \"Invalid username",
            "set HF_TOKEN",
        ),
        (
            401,
            &[("X-Error-Code", "RepoNotFound")],
            "",
            true,
            "(401; the token is not accepted)",
            "is not accepted",
        ),
        (401, &gated, "", false, "(403): \"Access to model org/repo is restricted.\"", "then set HF_TOKEN"),
        (403, &gated, "", true, "refuses access (403)", "with the account that the token belongs to"),
        (
            403,
            &[],
            "<html>\u{1b}[31mno</html>",
            true,
            "refuses access (403)",
            "accept the model's conditions",
        ),
        (
            404,
            &[("X-Error-Code", "RepoNotFound")],
            "",
            true,
            "no such repository on the hub (404)",
            "the token may read",
        ),
        (
            404,
            &[("X-Error-Code", "RevisionNotFound")],
            "",
            true,
            "no such revision on the hub (404)",
            "`main`",
        ),
        (404, &[], "nope", false, "no such repository, revision or file", "HF_TOKEN"),
        (429, &[], "", true, "too many requests, the hub says (429)", "wait a little"),
        (429, &[("Retry-After", "300")], "", true, "it asks to wait 300 s", "wait a little"),
        (
            500,
            &[],
            r#"{"error": "boom"}"#,
            true,
            "answered with status 500: \"boom\"",
            "run the same command again",
        ),
        (503, &[], "", true, "answered with status 503", "run the same command again"),
        (418, &[], "", true, "answered with status 418", ""),
        (204, &[], "", true, "answered with status 204", ""),
        (304, &[], "", true, "answered with status 304", ""),
    ];
    for (status, headers, body, token, message, hint) in cases {
        let (status, body) = (*status, (*body).to_owned());
        let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let server = Server::start(move |_| {
            let reply = Reply::new(status, body.clone());
            headers.iter().fold(reply, |reply, (name, value)| reply.with(name, value.clone()))
        });
        let mut options = options(&server.url());
        options.token = options.token.filter(|_| *token);
        let (said, hinted) = Shelf::new().refused(&options, "hf:org/repo");
        assert!(said.starts_with("hf:org/repo: ") && said.contains(message), "{status}: {said}");
        assert!(hinted.contains(hint), "{status}: {hinted}");
        assert!(!said.contains('\u{1b}') && !said.contains("hf_secret"));
        // Temporary failures are tried three times, others once.
        let tries = match status {
            500 | 503 => 3,
            429 if !said.contains("300") => 3,
            _ => 1,
        };
        assert_eq!(server.seen().len(), tries, "{status}");
    }
}

#[test]
fn overload_that_passes_is_waited_for() {
    let repository = Repository::new(&[("m.gguf", &content(1000, 1))]);
    let counts = std::sync::Mutex::new(std::collections::HashMap::<String, usize>::new());
    let hub = Hub::spoilt(&repository, move |request, reply| {
        let mut counts = counts.lock().unwrap();
        let n = counts.entry(request.path.clone()).or_default();
        *n += 1;
        match *n {
            1 => Reply::new(429, "").with("Retry-After", "1"),
            2 => Reply::new(502, ""),
            _ => reply,
        }
    });
    let started = Instant::now();
    let (pulled, notes) = Shelf::new().pull_noting(&options(&hub.api.url()), "hf:org/repo");
    // The listing, the address of the file, and the file are each refused twice; the latter two count together.
    let error = pulled.unwrap_err();
    assert!(error.to_string().contains("429"), "{error}");
    assert!(started.elapsed().as_millis() >= 1000);
    assert!(notes.iter().any(|note| note.contains("RateLimited")), "{notes:?}");
    let pulled = Shelf::new().pull(&options(&hub.api.url()), "hf:org/repo").unwrap();
    assert_eq!(pulled.downloaded, 1000);
}

#[test]
fn the_host_of_the_files_may_refuse_too() {
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", b"x")]), |request, reply| {
        if request.path.starts_with("/cdn/") {
            Reply::new(403, "<Error>Request has expired</Error>")
        } else {
            reply
        }
    });
    let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(
        message.starts_with("m.gguf: 127.0.0.1:") && message.ends_with("answered with status 403"),
        "{message}"
    );
    assert!(!message.contains("signature"));
}

#[test]
fn nobody_listens() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (message, hint) = Shelf::new().refused(&options(&format!("http://127.0.0.1:{port}")), "hf:org/repo");
    assert!(message.contains("connection to 127.0.0.1:") && message.contains("refused"), "{message}");
    assert!(hint.contains("again"));
    for endpoint in ["", "hub", "ftp://hub", "http://u:p@hub", "http://hub?x"] {
        let error = leyden_hub::Client::new(options(endpoint)).unwrap_err();
        assert!(error.is_usage() && error.to_string().starts_with("HF_ENDPOINT: "), "{error}");
    }
}
