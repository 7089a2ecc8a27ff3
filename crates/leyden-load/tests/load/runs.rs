//! Requests and measurements of runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Request, STREAM, Server, Step, answer, chunk, document, last, token, words};
use crate::*;
use leyden_load::{Endpoint, SharedPrefix, Source};
use serde_json::json;

#[test]
fn users_get_their_answers_and_every_one_is_counted() {
    // The first request of each user is answered when all users have sent theirs; otherwise the third user might
    // start when the two others have had all twenty answers.
    let (all, probed) = (Arc::new(Barrier::new(3)), Arc::new(AtomicBool::new(false)));
    let server = Server::start({
        let (all, probed) = (Arc::clone(&all), Arc::clone(&probed));
        move |request| {
            if probed.load(Ordering::SeqCst) && request.nth == 0 {
                all.wait();
            }
            Vec::new()
        }
    });
    let target = target(&server, Ask { ignore_eos: true, ..Ask::default() }).unwrap();
    probed.store(true, Ordering::SeqCst);
    let calibration = target.calibration();
    assert_eq!(
        (target.model(), calibration.source, calibration.tokens_per_word),
        ("tiny", Source::Tokenize, 2.0)
    );
    let run = finish(&target, &workload(3, 20));
    let summary = Summary::new(&run, None);
    assert_eq!((summary.requests.measured, summary.requests.completed), (20, 20), "{:?}", failures(&run));
    assert_eq!(server.connections(), 3 + 3, "a connection for each user, and those of the probes");
    for record in &run.records {
        let sent = server.seen("/chat/completions");
        assert!(
            sent.iter().any(|r| r.body["max_tokens"] == record.wanted_output && r.body["ignore_eos"] == true)
        );
        assert_eq!(record.events.len(), record.wanted_output as usize);
        assert_eq!(record.output_tokens, Some(record.wanted_output));
        assert!(record.begin == record.sent && record.ttft() <= record.e2e() && record.end <= run.to);
    }
    let tokens: u32 = run.records.iter().map(Record::tokens).sum();
    assert!((summary.output_tps * summary.seconds - f64::from(tokens)).abs() < 1e-6);
    assert_eq!((summary.short_answers, summary.tokens_per_event), (0, Some(1.0)));
    let mut indices: Vec<u64> = run.records.iter().map(|record| record.index).collect();
    indices.sort_unstable();
    assert!(indices.iter().copied().eq(0..20));
}

#[test]
fn the_same_seed_sends_the_same_requests() {
    let bodies = |seed| {
        let server = Server::good();
        let target = target(&server, Ask::default()).unwrap();
        let prefix = Some(SharedPrefix { tokens: 30, share: 0.5 });
        finish(&target, &Workload { seed, prefix, ..workload(4, 40) });
        let mut bodies: Vec<_> =
            server.seen("/chat/completions").iter().map(|request| request.body.to_string()).collect();
        bodies.sort();
        bodies
    };
    let first = bodies(1);
    assert!(first == bodies(1) && first != bodies(2));
    let shared = first.iter().filter(|body| body.contains("\"system\"")).count();
    assert!((10..=30).contains(&shared), "{shared}");
}

#[test]
fn lengths_are_found_by_usage_where_nothing_tokenizes() {
    let probe = |with_usage: bool| {
        Server::start(move |request: &Request| match request.path.as_str() {
            "/tokenize" => document(404, "", &json!({})),
            "/v1/completions" if !with_usage => {
                let done = [chunk(&token("x")), chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat();
                vec![Step::Bytes(STREAM.into()), Step::Bytes(done)]
            }
            _ => Vec::new(),
        })
    };
    let ask = || Ask { endpoint: Endpoint::Completions, ..Ask::default() };
    let found = target(&probe(true), ask()).unwrap();
    let calibration = found.calibration();
    assert_eq!(
        (calibration.source, calibration.tokens_per_word, calibration.overhead),
        (Source::Usage, 1.0, 3.0)
    );
    let run = finish(&found, &Workload { prompt: Lengths::Fixed(40), ..workload(1, 2) });
    assert!(run.records.iter().all(|record| record.prompt_tokens == Some(40)));

    let blind = target(&probe(false), ask()).unwrap();
    assert_eq!(blind.calibration().source, Source::Assumed);
    let run = finish(&blind, &workload(1, 2));
    assert!(run.records.iter().all(|record| record.prompt_tokens.is_none() && record.tokens() == 1));
}

#[test]
fn latencies_count_from_when_a_request_was_due() {
    // One at a time, 30 ms each, while twenty arrive within a few milliseconds.
    let turn = Arc::new(Mutex::new(()));
    let server = Server::start(move |request| {
        let _turn = turn.lock().unwrap();
        if words(request) > 8 {
            thread::sleep(Duration::from_millis(30));
        }
        Vec::new()
    });
    let target = target(&server, Ask::default()).unwrap();
    let run = finish(&target, &Workload { arrivals: Arrivals::Rate(2000.0), ..workload(1, 20) });
    assert!(failures(&run).is_empty() && run.records.len() == 20);
    assert!(run.records.iter().all(|record| record.begin == record.planned && record.sent >= record.planned));
    let dues: Vec<Duration> = run.records.iter().map(|record| record.planned).collect();
    let mut e2e: Vec<f64> = run.records.iter().map(|record| record.e2e().unwrap()).collect();
    e2e.sort_by(f64::total_cmp);
    let spread = (*dues.last().unwrap() - dues[0]).as_secs_f64();
    assert!(spread < 0.3 && e2e[19] >= 20.0 * 0.030 - spread && e2e[10] > 0.2 - spread, "{spread} {e2e:?}");
}

#[test]
fn a_time_ends_a_run_and_answers_on_their_way_are_awaited() {
    let server = Server::start(|request| match request.path.as_str() {
        "/v1/chat/completions" if request.body["max_tokens"] != 1 => {
            let steps = answer(request, 4);
            steps.into_iter().flat_map(|step| [step, Step::Pause(Duration::from_millis(20))]).collect()
        }
        _ => Vec::new(),
    });
    let target = target(&server, Ask::default()).unwrap();
    let timed = Workload {
        requests: None,
        duration: Some(Duration::from_millis(300)),
        warmup: Duration::from_millis(100),
        ..workload(2, 1)
    };
    let run = finish(&target, &timed);
    assert!(failures(&run).is_empty() && run.from == Duration::from_millis(100));
    assert!(run.to >= Duration::from_millis(400));
    let (measured, warm): (Vec<&Record>, Vec<&Record>) =
        run.records.iter().partition(|record| record.measured);
    assert!(!warm.is_empty() && measured.iter().all(|record| record.planned >= run.from));
    assert!(run.records.iter().all(|record| record.events.len() == 4));
    assert!(run.records.iter().any(|record| record.end > run.to));
}

#[test]
fn a_run_can_be_stopped_and_keeps_what_it_has() {
    let server = Server::start(|request| match request.path.as_str() {
        "/v1/chat/completions" if request.body["max_tokens"] != 1 => {
            vec![Step::Bytes(STREAM.into()), Step::Bytes(chunk(&token("x"))), Step::Pause(LONG)]
        }
        _ => Vec::new(),
    });
    let target = target(&server, Ask::default()).unwrap();
    let control = Control::default();
    let begin = Instant::now();
    let stopped = thread::scope(|scope| {
        scope.spawn(|| {
            while server.seen("/chat/completions").len() < 4 {
                thread::sleep(Duration::from_millis(5));
            }
            thread::sleep(Duration::from_millis(50));
            control.stop();
        });
        run(&target, &workload(3, 100), &control, &mut |_| {}).unwrap()
    });
    assert!(stopped.interrupted && begin.elapsed() < LONG);
    assert_eq!(failures(&stopped), vec![(Class::Unfinished, "the run ended first".to_owned()); 3]);
    let again = run(&target, &workload(1, 1), &control, &mut |_| {}).unwrap_err();
    assert!(matches!(again.kind(), leyden_load::ErrorKind::Stopped));
}

#[test]
fn answers_are_not_awaited_forever() {
    let server = Server::start(|request| match request.path.as_str() {
        "/v1/chat/completions" if request.body["max_tokens"] != 1 => vec![Step::Pause(LONG)],
        _ => Vec::new(),
    });
    let target = target(&server, Ask::default()).unwrap();
    let (duration, drain) = (Some(Duration::from_millis(50)), Duration::from_millis(50));
    for arrivals in [Arrivals::Users(2, Pause::default()), Arrivals::Rate(100.0)] {
        let run = finish(&target, &Workload { arrivals, duration, drain, requests: None, ..workload(1, 1) });
        assert!(!run.records.is_empty() && !run.interrupted);
        assert!(failures(&run).iter().all(|(class, _)| *class == Class::Unfinished));
        assert_eq!(failures(&run).len(), run.records.len());
    }
}

#[test]
fn events_count_and_groups_of_tokens_are_noticed() {
    let server = Server::start(|request| match request.path.as_str() {
        // Twelve tokens in three events, two of which arrive in one read.
        "/v1/chat/completions" => {
            let two = token("a b c d") + &token("e f g h");
            let all = [chunk(&token("0")), chunk(&two), chunk(&last(9, 12)), b"0\r\n\r\n".to_vec()].concat();
            vec![Step::Bytes(STREAM.into()), Step::Bytes(all)]
        }
        _ => Vec::new(),
    });
    let summary = Summary::new(&finish(&target(&server, Ask::default()).unwrap(), &workload(1, 5)), None);
    assert_eq!((summary.tokens_per_event, summary.output_tokens.unwrap().p50), (Some(4.0), 12.0));
    assert_eq!(summary.itl_s.unwrap().count, 10);
    assert!(summary.together_share.unwrap() >= 0.5);
}
