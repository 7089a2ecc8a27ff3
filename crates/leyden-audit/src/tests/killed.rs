//! Processes that are killed while they write: what they acknowledged is there.

use super::*;
use crate::read;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::thread;

/// Environment variable with the folder of the process to be killed.
const FOLDER: &str = "LEYDEN_AUDIT_KILLED";

/// Writes until it is killed; run by the other tests in a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn writes_until_it_is_killed() {
    let Some(root) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let mut options = Options::new(root.join("key"), "1.2.3");
    (options.checkpoint_records, options.segment_bytes) = (7, 20_000);
    let log = AuditLog::open(&root.join("log"), options).unwrap();
    let session = log.append(&record("start", Phase::Whole)).unwrap();
    thread::scope(|scope| {
        for t in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for i in 0.. {
                    let id = format!("{session}-{t}-{i}");
                    log.append(&record(&id, Phase::Whole)).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "acknowledged {id}").and_then(|()| out.flush()).unwrap();
                }
            });
        }
    });
}

fn kill_repeatedly(times: u64) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("log");
    let mut acknowledged = HashSet::new();
    for i in 0..times {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::killed::writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(FOLDER, root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // A different number of records each time, then a different moment.
        let mut all: Vec<String> = (0..i * 7 % 40).map(|_| lines.next().unwrap().unwrap()).collect();
        thread::sleep(Duration::from_micros(i * 1_237 % 20_000));
        child.kill().unwrap();
        all.extend(lines.map_while(Result::ok));
        child.wait().unwrap();
        let ids = all.iter().filter_map(|line| line.split_once("acknowledged "));
        acknowledged.extend(ids.map(|(_, id)| id.to_owned()));
    }
    let log = AuditLog::open(&folder, Options::new(root.path().join("key"), "1.2.3")).unwrap();
    log.close().unwrap();
    let report = verify(&folder, &VerifyOptions::default()).unwrap();
    assert!(report.problems.is_empty(), "{}", problems(&report));
    let mut written = HashSet::new();
    read(&folder, |entry| {
        assert!(entry.record.id == "start" || written.insert(entry.record.id));
        true
    })
    .unwrap();
    let lost: Vec<_> = acknowledged.difference(&written).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let cuts = report.warnings.iter().filter(|warning| warning.what.contains("cut off")).count();
    eprintln!(
        "{times} kills: {} acknowledged, {} written, {} segments, {cuts} unfinished lines told, nothing lost",
        acknowledged.len(),
        written.len(),
        report.segments
    );
}

#[test]
fn what_was_acknowledged_survives_kills() {
    kill_repeatedly(5);
}

#[test]
#[ignore = "takes minutes"]
fn what_was_acknowledged_survives_many_kills() {
    kill_repeatedly(200);
}
