//! Writing: what is appended is there, whatever happens.

use super::*;
use crate::clock::Clock;
use crate::{ContentKey, read};
use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

fn ids(folder: &Path) -> Vec<String> {
    let mut ids = Vec::new();
    read(folder, |entry| {
        ids.push(entry.record.id);
        true
    })
    .unwrap();
    ids
}

#[test]
fn many_threads_share_flushes_and_lose_nothing() {
    let mut place = Place::new();
    place.options.segment_bytes = 20_000;
    place.options.checkpoint_records = 10;
    let log = place.open();
    thread::scope(|scope| {
        for t in 0..8 {
            let log = &log;
            scope.spawn(move || {
                for i in 0..25 {
                    log.append(&record(format!("{t}-{i}"), Phase::Whole)).unwrap();
                }
            });
        }
    });
    let figures = log.figures();
    assert_eq!((figures.records, figures.errors), (200, 0));
    assert!(figures.waited_seconds > 0.0);
    log.close().unwrap();
    assert!(log.append(&record(0, Phase::Whole)).unwrap_err().to_string().contains("closed"));
    let all: HashSet<String> = ids(&place.folder).into_iter().collect();
    assert_eq!(all.len(), 200);
    let report = place.verify();
    assert!(report.problems.is_empty(), "{}", problems(&report));
    assert!(report.segments > 2 && report.closed && report.unsigned == 0 && report.checkpoints >= 20);
}

#[test]
fn several_records_are_one_write_and_none_is_an_error() {
    let place = Place::new();
    let log = place.open();
    let before = log.figures().flushes;
    let rows: Vec<Record> = (0..50).map(|i| record(i, Phase::Whole)).collect();
    log.append_all(&rows).unwrap();
    assert_eq!(log.figures().flushes, before + 1);
    assert!(log.append_all(&[]).is_err());
    drop(log);
    assert_eq!(ids(&place.folder), (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
    assert!(place.verify().closed, "a log that is dropped is closed");
}

#[test]
fn a_failed_write_is_told_and_the_log_goes_on() {
    let place = Place::new();
    let parts = Opening::default();
    let faults = Arc::clone(&parts.faults);
    let log = place.open_with(parts);
    log.append(&record("a", Phase::Whole)).unwrap();
    faults.store(1, Ordering::SeqCst);
    let told = log.append(&record("b", Phase::Whole)).unwrap_err().to_string();
    assert!(told.contains("segment-000001.jsonl: cannot write the audit log"), "{told}");
    assert_eq!(log.figures().errors, 1);
    log.append(&record("c", Phase::Whole)).unwrap();
    log.close().unwrap();
    assert_eq!(ids(&place.folder), ["a", "c"]);
    assert!(place.verify().problems.is_empty());
}

#[test]
fn a_log_at_its_limit_refuses_records_and_stays_whole() {
    let mut place = Place::new();
    place.options.limit_bytes = Some(64 << 10);
    let log = place.open();
    let mut written = 0;
    let told = loop {
        match log.append(&record(written, Phase::Whole)) {
            Ok(_) => written += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(told.contains("limit of 65536 bytes") && written > 10, "{told}");
    log.close().unwrap();
    assert!(place.verify().problems.is_empty() && ids(&place.folder).len() == written);
}

#[test]
fn an_unfinished_line_is_cut_off_and_recorded() {
    for garbage in [&b"{\"seq\":3,\"prev\":\"00"[..], b"\0\0\0\0\0\0", b"{\"seq\0\0\n\0\0", b"x"] {
        let place = Place::new();
        let log = place.open();
        log.append(&record("a", Phase::Whole)).unwrap();
        log.close().unwrap();
        fs::File::options().append(true).open(place.segment(1)).unwrap().write_all(garbage).unwrap();
        assert!(!place.verify().problems.is_empty());
        let log = place.open();
        log.append(&record("b", Phase::Whole)).unwrap();
        log.close().unwrap();
        let report = place.verify();
        assert!(report.problems.is_empty(), "{}", problems(&report));
        let told = format!("{} bytes of an unfinished line", garbage.len());
        assert!(report.warnings.iter().any(|warning| warning.what.contains(&told)), "{:?}", report.warnings);
        assert_eq!(ids(&place.folder), ["a", "b"]);
    }
}

/// A process that was killed at any moment of its first start, or of the start of a segment.
#[test]
fn a_start_that_was_cut_off_anywhere_is_repeated() {
    let mut place = Place::new();
    drop(place.open());
    let whole = fs::read(place.segment(1)).unwrap();
    for at in (0..whole.len()).step_by(97) {
        fs::write(place.segment(1), &whole[..at]).unwrap();
        fs::remove_file(place.folder.join("head")).unwrap();
        drop(place.open());
        assert!(place.verify().problems.is_empty(), "{at}");
    }
    place.options.segment_bytes = 1;
    let log = place.open();
    log.append(&record("a", Phase::Whole)).unwrap();
    drop(log);
    let last = place.verify().segments;
    assert!(last > 1);
    // The next segment was made, and nothing was written to it.
    fs::write(place.segment(last + 1), "").unwrap();
    let log = place.open();
    log.append(&record("b", Phase::Whole)).unwrap();
    drop(log);
    let report = place.verify();
    assert!(report.problems.is_empty(), "{}", problems(&report));
}

#[test]
fn one_process_writes_at_a_time_with_the_key_of_the_log() {
    let mut place = Place::new();
    let log = place.open();
    let told = AuditLog::open(&place.folder, place.options.clone()).unwrap_err().to_string();
    assert!(told.contains("another process"), "{told}");
    let report = place.verify();
    assert!(report.in_use && report.problems.is_empty());
    drop(log);
    let right = std::mem::replace(&mut place.options.key, place._root.path().join("other"));
    let told = AuditLog::open(&place.folder, place.options.clone()).unwrap_err().to_string();
    assert!(told.contains("is not here"), "{told}");
    fs::copy(format!("{}.pub", right.display()), &place.options.key).unwrap();
    assert!(AuditLog::open(&place.folder, place.options.clone()).is_err());
    let other = Place::new();
    drop(other.open());
    place.options.key.clone_from(&other.options.key);
    let told = AuditLog::open(&place.folder, place.options.clone()).unwrap_err().to_string();
    assert!(told.contains("is not the key of this audit log"), "{told}");
}

#[test]
fn a_damaged_or_shortened_log_is_not_continued() {
    let place = Place::new();
    let log = place.open();
    log.append(&record("a", Phase::Whole)).unwrap();
    log.append(&record("b", Phase::Whole)).unwrap();
    drop(log);
    let whole = fs::read_to_string(place.segment(1)).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let ends = |n: usize| lines[..n].join("\n") + "\n";
    for (changed, words) in [
        (ends(4), "its end was removed"),
        (whole.replace("\"id\":\"a\"", "\"id\":\"c\""), "does not continue"),
        (whole.replace("\"kind\":\"entry\"", "\"kind\":\"other\""), "kind"),
        ("x\n".to_owned(), "seq"),
    ] {
        fs::write(place.segment(1), changed).unwrap();
        let told = AuditLog::open(&place.folder, place.options.clone()).unwrap_err().to_string();
        assert!(told.contains("segment-000001.jsonl") && told.contains(words), "{told}");
    }
    fs::remove_file(place.segment(1)).unwrap();
    let told = AuditLog::open(&place.folder, place.options.clone()).unwrap_err().to_string();
    assert!(told.contains("missing, but there is a head"), "{told}");
}

#[test]
fn clocks_that_are_set_are_told() {
    let place = Place::new();
    let parts = Opening { clock: Clock::start(), ..Opening::default() };
    let set_by = Arc::clone(&parts.clock.set_by);
    let log = place.open_with(parts);
    log.append(&record("a", Phase::Whole)).unwrap();
    set_by.store(-3_600_000_000, Ordering::SeqCst);
    log.append(&record("b", Phase::Whole)).unwrap();
    set_by.store(7_200_000_000, Ordering::SeqCst);
    log.close().unwrap();
    // The next process starts with the clock set back.
    drop(place.open());
    let report = place.verify();
    assert!(report.problems.is_empty(), "{}", problems(&report));
    let told: String = report.warnings.iter().map(|warning| warning.to_string()).collect();
    for words in ["set by -3600", "set by +10800", "set back between two starts"] {
        assert!(told.contains(words), "{told}");
    }
}

/// More starts without an end than are told one by one.
#[test]
fn many_warnings_are_no_problem() {
    let place = Place::new();
    let log = place.open();
    let streams: Vec<Record> = (0..150).map(|i| record(i, Phase::Start)).collect();
    log.append_all(&streams).unwrap();
    drop(log);
    let report = place.verify();
    assert!(report.problems.is_empty() && report.problems_left_out == 0);
    assert!(report.warnings.len() == 100 && report.warnings_left_out > 0);
}

#[test]
fn contents_are_encrypted_or_left_out() {
    let mut place = Place::new();
    let key = ContentKey::generate().unwrap();
    let log = place.open();
    log.append(&record("a", Phase::Whole)).unwrap();
    drop(log);
    place.options.recipient = Some(key.recipient().clone());
    let log = place.open();
    assert!(log.keeps_content());
    log.append(&record("b", Phase::Whole)).unwrap();
    drop(log);
    assert!(!fs::read_to_string(place.segment(1)).unwrap().contains("question"));
    let mut found = Vec::new();
    read(&place.folder, |entry| {
        found.push(entry.content(&key).unwrap().and_then(|content| content.input));
        true
    })
    .unwrap();
    assert_eq!(found, [None, Some("question".to_owned())]);
}

#[test]
fn checkpoints_follow_records_and_time() {
    let mut place = Place::new();
    place.options.checkpoint_time = Duration::from_millis(20);
    let log = place.open();
    log.append(&record("a", Phase::Whole)).unwrap();
    // The head moves on without a further record.
    let begun = std::time::Instant::now();
    let head = || fs::read_to_string(place.folder.join("head")).unwrap();
    while !head().contains("\"why\":\"interval\"") {
        assert!(begun.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
    drop(log);
    assert!(head().contains("\"why\":\"close\""));
}
