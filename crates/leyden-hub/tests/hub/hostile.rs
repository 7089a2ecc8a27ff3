//! Hubs with wrong names, lengths, contents and listings.

use std::fs;

use serde_json::json;

use crate::server::{Hub, Reply, Repository, Request, Server, sha256};
use crate::{Shelf, content, options};

fn is_listing(request: &Request) -> bool {
    request.path.starts_with("/api/")
}

fn is_file(request: &Request) -> bool {
    request.path.starts_with("/cdn/")
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let outside = tempfile::tempdir().unwrap();
    let absolute = outside.path().join("x.gguf").to_str().unwrap().to_owned();
    let names = [
        "../x.gguf",
        "../../../../../../../../x.gguf",
        "a/../../x.gguf",
        "/x.gguf",
        absolute.as_str(),
        "..\\x.gguf",
        "C:\\x.gguf",
        ".ssh/x.gguf",
        "a//x.gguf",
        "./x.gguf",
        "x\u{0}.gguf",
        "x\n.gguf",
        "-x.gguf",
        "a/.././x.gguf",
        "\u{202e}x.gguf",
        "x y.gguf",
        "$(x).gguf",
        "%2e%2e/x.gguf",
        "a/b/c/d/e/f/g/h/i.gguf",
    ];
    for name in names {
        let hub = Hub::start(&Repository::new(&[(name, b"evil")]));
        let shelf = Shelf::new();
        let (message, _) = shelf.refused(&options(&hub.api.url()), "hf:org/repo");
        assert!(message.contains("is not accepted"), "{name:?}: {message}");
        assert!(!message.contains(['\u{0}', '\u{202e}']));
        assert_eq!(hub.api.seen().len(), 1, "{name:?}: nothing is fetched");
        assert_eq!(shelf.files(), Vec::<String>::new(), "{name:?}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    // Parts of a model and companions of a checkpoint are checked too; the name of a file that is not chosen is
    // harmless.
    let hub = Hub::start(&Repository::new(&[
        ("m-00001-of-00002.gguf", b"a"),
        ("m-00002-of-00002.gguf", b"b"),
        ("../README.md", b""),
    ]));
    Shelf::new().pull(&options(&hub.api.url()), "hf:org/repo").unwrap();
    let parts = Repository::new(&[("../m-00001-of-00002.gguf", b"a"), ("../m-00002-of-00002.gguf", b"b")]);
    Shelf::new().refused(&options(&Hub::start(&parts).api.url()), "hf:org/repo");
}

#[test]
fn listings_are_bounded_and_checked() {
    type Answer = fn() -> Reply;
    let answer = |reply: Answer| Server::start(move |_| reply());
    let cases: [(Answer, &str); 8] = [
        (|| Reply::new(200, ""), "makes no sense: listing: "),
        (|| Reply::new(200, "<html>sign in</html>"), "makes no sense: listing: "),
        (|| Reply::new(200, "[".repeat(1 << 20)), "makes no sense: listing: "),
        (|| Reply::new(200, r#"{"sha": "../../x", "siblings": []}"#), "`sha` is no commit: ../../x"),
        (|| Reply::new(206, "{}"), "status 206 for a document"),
        (
            || Reply { endless: true, length: None, ..Reply::new(200, " ".repeat(1 << 16)) },
            "longer than 33554432 bytes",
        ),
        (
            || Reply { length: Some(usize::MAX >> 1), endless: true, ..Reply::new(200, " ".repeat(1 << 16)) },
            "longer than 33554432 bytes",
        ),
        (|| Reply::new(200, "").with("X", "y".repeat(1 << 20)), "header"),
    ];
    for (reply, wanted) in cases {
        let server = answer(reply);
        let (message, _) = Shelf::new().refused(&options(&server.url()), "hf:org/repo");
        assert!(message.contains(wanted), "{wanted}: {message}");
        assert!(message.len() < 600, "{wanted}: {}", message.len());
    }
    // Lengths whose sum would overflow, or that exceed every disk.
    for size in [u64::MAX, 1 << 60] {
        let file = |name: &str| json!({ "rfilename": name, "size": size, "lfs": { "sha256": "ab".repeat(32), "size": size } });
        let files = [file("m-00001-of-00002.gguf"), file("m-00002-of-00002.gguf")];
        let listing = json!({ "sha": "01".repeat(20), "siblings": files }).to_string();
        let server = Server::start(move |_| Reply::new(200, listing.clone()));
        let (message, hint) = Shelf::new().refused(&options(&server.url()), "hf:org/repo");
        assert!(message.contains("not enough space") && hint.contains("LEYDEN_MODELS"), "{message}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[test]
fn wrong_lengths_leave_nothing() {
    let model = content(300_000, 1);
    let repository = Repository::new(&[("m.gguf", &model)]);
    type Spoil = fn(Reply) -> Reply;
    let cases: [(&str, Spoil); 5] = [
        ("shorter", |reply| Reply { length: Some(299_999), ..reply }),
        ("longer", |reply| Reply { length: Some(300_001), ..reply }),
        ("longer without saying", |mut reply| {
            reply.body.push(0);
            Reply { length: None, ..reply }
        }),
        ("endless", |reply| Reply { length: None, endless: true, ..reply }),
        ("compressed", |reply| reply.with("Content-Encoding", "gzip")),
    ];
    for (name, spoil) in cases {
        let hub = Hub::spoilt(
            &repository,
            move |request, reply| if is_file(request) { spoil(reply) } else { reply },
        );
        let shelf = Shelf::new();
        let (message, hint) = shelf.refused(&options(&hub.api.url()), "hf:org/repo");
        if name == "compressed" {
            assert!(message.contains("compressed"), "{message}");
            continue;
        }
        assert!(message.starts_with("m.gguf: wrong length: the hub lists 300000 bytes"), "{name}: {message}");
        assert!(hint.contains("nothing was kept"), "{name}: {hint}");
        assert_eq!(shelf.files(), Vec::<String>::new(), "{name}");
        assert_eq!(hub.fetched().len(), 1, "{name}");
    }
    // Ends early without a stated length: treated as a broken connection, and retried.
    let hub = Hub::spoilt(&repository, |request, reply| {
        if is_file(request) {
            Reply { length: None, cut: Some(reply.body.len().min(1000)), ..reply }
        } else {
            reply
        }
    });
    let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(message.contains("ended after 3000 of 300000 bytes"), "{message}");
    // The endpoint contradicts its listing before it redirects.
    let hub =
        Hub::spoilt(
            &repository,
            |request, reply| {
                if is_listing(request) { reply } else { reply.with("X-Linked-Size", "5") }
            },
        );
    let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(message.contains("lists 300000 bytes, the server has 5"), "{message}");
}

#[test]
fn ranges_are_checked() {
    let model = content(300_000, 1);
    for (range, wanted) in [
        ("bytes 0-299999/300000", "range `bytes 0-299999/300000` for bytes 1000 on"),
        ("bytes 1000-299999/400000", "wrong length"),
        ("bytes x", "range `bytes x`"),
        ("", "range ``"),
    ] {
        let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, mut reply| {
            if is_file(request) && request.range().is_none() {
                reply.cut = Some(1000);
            } else if is_file(request) {
                reply = reply.with("Content-Range", range);
            }
            reply
        });
        let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
        assert!(message.contains(wanted), "{range}: {message}");
    }
}

#[test]
fn wrong_contents_leave_nothing() {
    let model = content(300_000, 1);
    let repository =
        Repository::new(&[("m.gguf", &model), ("model.safetensors", b"w"), ("config.json", b"{}")]);
    let flip = |mut reply: Reply| {
        if let Some(byte) = reply.body.last_mut() {
            *byte ^= 1;
        }
        reply
    };
    let hub =
        Hub::spoilt(&repository, move |request, reply| if is_listing(request) { reply } else { flip(reply) });
    let shelf = Shelf::new();
    let (message, hint) = shelf.refused(&options(&hub.api.url()), "hf:org/repo:m.gguf");
    assert!(
        message
            .starts_with(&format!("m.gguf: wrong content: the hub lists checksum sha256:{}", sha256(&model))),
        "{message}"
    );
    assert!(hint.contains("nothing was kept"));
    assert_eq!(shelf.files(), Vec::<String>::new());
    // Small files have git's checksum.
    let only_small =
        Hub::spoilt(
            &repository,
            move |request, reply| {
                if request.path.ends_with(".json") { flip(reply) } else { reply }
            },
        );
    let (message, _) = shelf.refused(&options(&only_small.api.url()), "hf:org/repo:safetensors");
    assert!(message.starts_with("config.json: wrong content: the hub lists checksum git:"), "{message}");

    // The endpoint contradicts its listing.
    let hub = Hub::spoilt(&repository, |request, reply| {
        if is_listing(request) {
            reply
        } else {
            reply.with("X-Linked-Etag", format!("\"{}\"", "ab".repeat(32)))
        }
    });
    let (message, _) = shelf.refused(&options(&hub.api.url()), "hf:org/repo:m.gguf");
    assert!(message.contains("wrong content") && message.contains("abab"), "{message}");

    // No checksum at all.
    let listing =
        json!({ "sha": repository.commit, "siblings": [{ "rfilename": "m.gguf", "size": 300_000 }] })
            .to_string();
    let hub =
        Hub::spoilt(
            &repository,
            move |request, reply| {
                if is_listing(request) { Reply::new(200, listing.clone()) } else { reply }
            },
        );
    let (message, _) = shelf.refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(message.contains("states no checksum"), "{message}");
}

#[test]
fn a_listing_that_knows_only_gits_pointer_is_completed_by_the_endpoint() {
    let repository = Repository::new(&[("m.gguf", &content(1000, 1))]);
    let listing = json!({ "sha": repository.commit, "siblings": [
        { "rfilename": "m.gguf", "size": 1000, "blobId": "ab".repeat(20) },
    ]})
    .to_string();
    let hub =
        Hub::spoilt(
            &repository,
            move |request, reply| {
                if is_listing(request) { Reply::new(200, listing.clone()) } else { reply }
            },
        );
    assert_eq!(Shelf::new().pull(&options(&hub.api.url()), "hf:org/repo").unwrap().downloaded, 1000);
}
