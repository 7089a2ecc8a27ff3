//! Connections that break, stall, redirect wrongly or are stopped by the user.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leyden_hub::{Client, ErrorKind, Event, pull};

use crate::server::{Hub, Reply, Repository, Request, Server};
use crate::{Shelf, content, options};

fn is_file(request: &Request) -> bool {
    request.path.starts_with("/cdn/")
}

#[test]
fn a_broken_download_goes_on_where_it_stopped() {
    let model = content(3_000_000, 1);
    let n = AtomicUsize::new(0);
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, mut reply| {
        if is_file(request) && n.fetch_add(1, Ordering::SeqCst) < 2 {
            reply.cut = Some(700_000);
        }
        reply
    });
    let shelf = Shelf::new();
    let (pulled, notes) = shelf.pull_noting(&options(&hub.api.url()), "hf:org/repo");
    assert_eq!(fs::read(pulled.unwrap().model.path).unwrap(), model);
    let ranges: Vec<_> = hub.fetched().into_iter().map(|(_, range)| range).collect();
    assert_eq!(ranges, [None, Some(700_000), Some(1_400_000)]);
    assert_eq!(notes.iter().filter(|note| note.starts_with("Retry")).count(), 2, "{notes:?}");
}

#[test]
fn a_later_pull_resumes_what_an_earlier_one_left() {
    let model = content(900_000, 1);
    let broken = Arc::new(AtomicUsize::new(0));
    let n = Arc::clone(&broken);
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, mut reply| {
        if is_file(request) && n.fetch_add(1, Ordering::SeqCst) < 3 {
            reply.cut = Some(100_000);
        }
        reply
    });
    let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
    let (message, hint) = shelf.refused(&options, "hf:org/repo");
    assert!(message.starts_with("m.gguf: connection to 127.0.0.1:"), "{message}");
    assert!(hint.contains("goes on where it stopped"));
    assert_eq!(shelf.store().contents().unwrap().unfinished[0].1, 300_000);
    let pulled = shelf.pull(&options, "hf:org/repo").unwrap();
    assert_eq!((pulled.downloaded, hub.fetched()[3].1), (600_000, Some(300_000)));
    assert_eq!(fs::read(pulled.model.path).unwrap(), model);
    assert!(shelf.store().contents().unwrap().unfinished.is_empty());
}

#[test]
fn what_an_earlier_pull_left_may_be_damaged() {
    let model = content(900_000, 1);
    let hub = Hub::start(&Repository::new(&[("m.gguf", &model)]));
    // The last case is a pull that ended after the last byte and before the file was renamed.
    for left in [vec![0; 500_000], vec![0; 900_000], vec![0; 900_001], model.clone()] {
        let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
        shelf.pull(&options, "hf:org/repo").unwrap();
        let folder = shelf.path().join("models/hf/org/repo");
        let partial = folder.join("partial").join(format!("{}.part", crate::server::sha256(&model)));
        fs::create_dir_all(partial.parent().unwrap()).unwrap();
        fs::write(&partial, &left).unwrap();
        fs::remove_dir_all(folder.join("0123456789abcdef0123456789abcdef01234567")).unwrap();
        let (pulled, notes) = shelf.pull_noting(&options, "hf:org/repo");
        assert_eq!(fs::read(pulled.unwrap().model.path).unwrap(), model);
        assert_eq!(
            notes.iter().any(|note| note.starts_with("StartOver")),
            left.len() <= 900_000 && left != model,
            "{notes:?}"
        );
    }
}

#[test]
fn a_server_without_ranges_is_asked_for_everything() {
    let model = content(2_000_000, 1);
    let n = AtomicUsize::new(0);
    let all = model.clone();
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, reply| {
        if !is_file(request) {
            return reply;
        }
        let mut reply = Reply::new(200, all.clone());
        if n.fetch_add(1, Ordering::SeqCst) == 0 {
            reply.cut = Some(1_500_000);
        }
        reply
    });
    let shelf = Shelf::new();
    let pulled = shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap();
    assert_eq!((pulled.downloaded, fs::read(pulled.model.path).unwrap()), (3_500_000, model.clone()));
    // A server that always breaks at the same place makes no progress, however much it sends.
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, reply| {
        if !is_file(request) {
            return reply;
        }
        let mut reply = Reply::new(200, content(2_000_000, 1));
        reply.cut = Some(1_500_000);
        reply
    });
    let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(message.starts_with("m.gguf: connection to "), "{message}");
    assert!(hub.fetched().len() <= 4, "{}", hub.fetched().len());
}

#[test]
fn silence_ends() {
    let repository = Repository::new(&[("m.gguf", &content(100_000, 1))]);
    let long = Duration::from_secs(20);
    type Spoil = fn(&Request, Reply) -> Reply;
    let cases: [(&str, Spoil); 4] = [
        ("no answer in time", |request, mut reply| {
            if !is_file(request) {
                reply.silence = Duration::from_secs(20);
            }
            reply
        }),
        ("no data in time", |request, mut reply| {
            if is_file(request) {
                reply.stall = Some((5000, Duration::from_secs(20)));
            }
            reply
        }),
        ("no noticeable amount of data in time", |request, mut reply| {
            if is_file(request) {
                reply.dribble = Some(Duration::from_millis(50));
            }
            reply
        }),
        ("no complete answer in time", |request, mut reply| {
            if !is_file(request) {
                reply.dribble = Some(Duration::from_millis(20));
            }
            reply
        }),
    ];
    thread::scope(|scope| {
        for (wanted, spoil) in cases {
            let repository = &repository;
            scope.spawn(move || {
                let hub = Hub::spoilt(repository, spoil);
                let mut options = options(&hub.api.url());
                options.timeouts.response = Duration::from_millis(700);
                options.timeouts.stall = Duration::from_millis(700);
                options.timeouts.answer = Duration::from_millis(700);
                options.retries.attempts = 2;
                let started = Instant::now();
                let (message, hint) = Shelf::new().refused(&options, "hf:org/repo");
                assert!(message.ends_with(wanted), "{wanted}: {message}");
                assert!(hint.contains("again") && started.elapsed() < long, "{wanted}: {hint}");
            });
        }
    });
}

#[test]
fn redirects_are_followed_with_sense() {
    let repository = Repository::new(&[("m.gguf", b"x")]);
    // Redirects in a cycle, without a target, to other schemes, and with a password.
    for (to, wanted) in [
        ("/again", "too many redirects"),
        ("file:///etc/passwd", "it is not a URL"),
        ("ftp://host/", "it is neither https nor http"),
        ("http://user@host/", "it holds a user name"),
        ("http://", "it is not a URL"),
    ] {
        let hub = Hub::spoilt(&repository, move |_, _| Reply::redirect(to));
        let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
        assert!(message.contains(wanted), "{to}: {message}");
        assert!(hub.api.seen().len() <= 7);
    }
    let hub = Hub::spoilt(&repository, |_, _| Reply::new(302, ""));
    assert!(Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo").0.contains("no `Location`"));

    // A renamed repository: the hub redirects to itself, by path alone, and still gets the token.
    let listing = repository.listing().to_string();
    let hub = Server::start(move |request| {
        if request.path.starts_with("/api/models/org/repo/") {
            Reply::redirect("/api/models/new/name?x").with("X", "y")
        } else {
            Reply::new(200, listing.clone())
        }
    });
    let _ = Shelf::new().pull(&options(&hub.url()), "hf:org/repo");
    assert_eq!(hub.seen()[1].header("authorization"), Some("Bearer hf_secret"));

    // From the endpoint to another host and back: the token is not sent again.
    let back = Arc::new(Mutex::new(String::new()));
    let to = Arc::clone(&back);
    let elsewhere = Server::start(move |_| Reply::redirect(&to.lock().unwrap()));
    let away = elsewhere.url();
    let endpoint = Server::start(move |request| match request.path.as_str() {
        "/back" => Reply::new(500, ""),
        _ => Reply::redirect(&away),
    });
    *back.lock().unwrap() = format!("{}/back", endpoint.url());
    Shelf::new().refused(&options(&endpoint.url()), "hf:org/repo");
    let tokens: Vec<_> =
        endpoint.seen().iter().map(|r| (r.path == "/back", r.header("authorization").is_some())).collect();
    assert!(tokens.contains(&(true, false)) && tokens.contains(&(false, true)), "{tokens:?}");
    assert!(
        !tokens.contains(&(true, true))
            && elsewhere.seen().iter().all(|r| r.header("authorization").is_none())
    );
    // The same host on another port is another host.
    assert_ne!(endpoint.port(), elsewhere.port());
}

#[test]
fn a_stop_ends_it_and_the_next_pull_resumes() {
    let model = content(2_000_000, 1);
    let stalling = Arc::new(AtomicUsize::new(0));
    let n = Arc::clone(&stalling);
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, mut reply| {
        if is_file(request) && n.fetch_add(1, Ordering::SeqCst) == 0 {
            reply.stall = Some((1_000_000, Duration::from_secs(20)));
        }
        reply
    });
    let (shelf, mut options) = (Shelf::new(), options(&hub.api.url()));
    options.timeouts.stall = Duration::from_secs(30);
    let client = Client::new(options.clone()).unwrap();
    let stopper = client.stopper();
    let started = Instant::now();
    let error = pull(&client, &shelf.store(), &"hf:org/repo".parse().unwrap(), &mut |event| {
        // All sent bytes have been read: the next read blocks until the other thread closes the connection.
        if matches!(event, Event::At { bytes: 1_000_000 }) {
            let stopper = stopper.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                stopper.stop();
            });
        }
    })
    .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Stopped), "{error}");
    assert!(started.elapsed() < Duration::from_secs(15));
    assert_eq!(shelf.store().contents().unwrap().unfinished[0].1, 1_000_000);
    let error = pull(&client, &shelf.store(), &"hf:org/repo".parse().unwrap(), &mut |_| {}).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Stopped), "a stopped client stays stopped: {error}");
    let pulled = shelf.pull(&options, "hf:org/repo").unwrap();
    assert_eq!((pulled.downloaded, hub.fetched()[1].1), (1_000_000, Some(1_000_000)));
    assert_eq!(fs::read(pulled.model.path).unwrap(), model);
}

#[test]
fn two_pulls_of_one_model_do_not_fight() {
    let model = content(2_000_000, 1);
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &model)]), move |request, mut reply| {
        if is_file(request) {
            reply.silence = Duration::from_millis(300);
        }
        reply
    });
    let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| shelf.pull_noting(&options, "hf:org/repo"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let downloaded: u64 = results.iter().map(|(pulled, _)| pulled.as_ref().unwrap().downloaded).sum();
    assert_eq!((downloaded, hub.fetched().len()), (2_000_000, 1));
    assert!(results.iter().any(|(_, notes)| notes.iter().any(|note| note == "Waiting")), "{results:?}");
}
