//! `leyden bench`, as a program would run it.

use crate::program::{Files, STORYTELLER, leyden};
use serde_json::Value;

/// Small tests on the embedded model.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "-p", "8", "-n", "4", "-r", "2"], more].concat()
}

#[test]
fn json_is_one_array_with_the_keys_of_llama_bench() {
    let out = leyden(&small(&["-pg", "6,2", "-d", "0,70", "-t", "2", "-o", "json"])).ok();
    let results: Vec<Value> = serde_json::from_str(&out).unwrap();
    let sizes: Vec<[u64; 3]> = results
        .iter()
        .map(|r| ["n_prompt", "n_gen", "n_depth"].map(|key| r[key].as_u64().unwrap()))
        .collect();
    let wanted = [[8, 0, 0], [0, 4, 0], [6, 2, 0], [8, 0, 70], [0, 4, 70], [6, 2, 70]];
    assert_eq!(sizes, wanted);
    for r in &results {
        assert_eq!(r["n_threads"], 2);
        assert_eq!(r["samples_ns"].as_array().unwrap().len(), 2);
        let tokens = (r["n_prompt"].as_u64().unwrap() + r["n_gen"].as_u64().unwrap()) as f64;
        let rate = tokens * 1e9 / r["samples_ns"][0].as_f64().unwrap();
        assert!((r["samples_ts"][0].as_f64().unwrap() / rate - 1.0).abs() < 1e-9);
        assert!(r["avg_ts"].as_f64().unwrap() > 0.0 && r["stddev_ts"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn lines_and_separated_values_hold_the_same_results() {
    let lines = leyden(&small(&["-o", "jsonl"])).ok();
    let parsed = lines.lines().map(serde_json::from_str::<Value>);
    assert_eq!(parsed.filter(|v| v.as_ref().is_ok_and(|v| v["avg_ns"].is_u64())).count(), 2);
    let table = leyden(&small(&["-o", "csv"])).ok();
    let table: Vec<&str> = table.lines().collect();
    assert_eq!(table.len(), 3);
    assert!(table[0].starts_with("build_commit,build_number,cpu_info,"), "{}", table[0]);
    assert_eq!(table[0].split(',').count(), table[1].split("\",\"").count());
}

#[test]
fn the_table_names_tests_and_the_document_has_everything() {
    let text = leyden(&small(&["--parallel", "1,3", "--no-ceilings"])).ok();
    for name in ["pp8", "tg4 ", "tg4 x3"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(!text.contains("at most"), "{text}");
    let document = leyden(&small(&["--json", "--no-ceilings", "--isa", "scalar"])).json();
    assert_eq!(document["tests"][1]["tier"], "scalar");
    assert!(document["ceilings"].is_null());
}

#[test]
fn the_grid_has_every_combination() {
    let lists = ["-t", "1,2", "-tb", "3", "-b", "4,8", "--parallel", "1,2", "--replicas", "1,2"];
    let document = leyden(&small(&[&lists[..], &["--json", "--no-ceilings"]].concat())).json();
    let results = document["tests"].as_array().unwrap();
    let keys = ["replicas", "n_threads", "threads_batch", "n_batch", "parallel", "n_prompt", "n_gen"];
    let mut found: Vec<[u64; 7]> = results.iter().map(|r| keys.map(|key| r[key].as_u64().unwrap())).collect();
    let mut wanted = Vec::new();
    for replicas in [1, 2] {
        for threads in [1, 2] {
            for batch in [4, 8] {
                wanted.push([replicas, 3, 3, batch, 1, 8 * replicas, 0]);
                wanted.push([replicas, threads, 3, batch, 1, 0, 4 * replicas]);
                wanted.push([replicas, threads, 3, batch, 2, 0, 8 * replicas]);
            }
        }
    }
    assert_eq!(found.len(), wanted.len());
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    for r in results {
        let users = r["replicas"].as_f64().unwrap() * r["parallel"].as_f64().unwrap();
        let (all, one) = (r["avg_ts"].as_f64().unwrap(), r["per_user_ts"].as_f64().unwrap());
        assert!((one * users / all - 1.0).abs() < 1e-9);
        let energy = &r["joules_per_token"];
        assert!(energy.is_null() || energy.as_f64().is_some_and(|j| j >= 0.0));
    }
    let table = leyden(&small(&["--replicas", "2", "-b", "4,8", "--no-ceilings"])).ok();
    let head = table.lines().nth(2).unwrap();
    let columns: Vec<&str> = head.split_whitespace().take(5).collect();
    assert_eq!(columns, ["replicas", "threads", "batch", "test", "t/s"]);
    assert!(head.contains("per user"), "{table}");
}

#[test]
fn wrong_usage_says_what_is_wanted() {
    for (arguments, wanted) in [
        (["-p", "0", "-n", "0"], "nothing to measure"),
        (["-p", "1", "-r", "0"], "repetitions"),
        (["-p", "1", "-pg", "5"], "two numbers"),
        (["-p", "1", "--parallel", "0"], "--parallel"),
        (["-n", "1", "-p", "99999999999"], "tokens"),
        (["-p", "1", "--versus", "llama-bench"], "needs -m FILE"),
        (["-p", "1", "-t", "0"], "threads"),
        (["-p", "1", "-tb", "1025"], "threads"),
        (["-p", "1", "--replicas", "0"], "neither `auto`"),
    ] {
        let said = leyden(&[&["bench"], &arguments[..]].concat()).failed(2);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[cfg(unix)]
#[test]
fn another_program_runs_in_turn() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    let log = files.path("log");
    let script = format!("#!/bin/sh\necho \"$@\" >> '{log}'\necho '[{{\"avg_ts\": 2.0}}]'\n");
    let other = files.add("other", script.as_bytes());
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("'{other}' --extra 'a b'");
    let arguments = [
        "bench",
        "-p",
        "0",
        "-n",
        "4",
        "-r",
        "3",
        "--no-ceilings",
        "--json",
        "--versus",
        &line,
        "-m",
        STORYTELLER,
    ];
    let document = leyden(&arguments).json();
    let versus = &document["tests"][0]["versus"];
    assert_eq!(versus["samples_ts"], serde_json::json!([2.0, 2.0, 2.0]));
    let ours = document["tests"][0]["samples_ts"].as_array().unwrap();
    let mut ours: Vec<f64> = ours.iter().map(|v| v.as_f64().unwrap()).collect();
    ours.sort_by(f64::total_cmp);
    // A number read back from JSON may differ in its last bit.
    let (ratio, expected) = (versus["ratio"].as_f64().unwrap(), ours[1] / 2.0);
    assert!((ratio / expected - 1.0).abs() < 1e-12, "{ratio} is not {expected}");
    let calls = std::fs::read_to_string(log).unwrap();
    assert_eq!(calls.lines().count(), 3);
    assert!(calls.starts_with("--extra a b -m "), "{calls}");
    let broken =
        ["bench", "-p", "4", "-n", "0", "--no-ceilings", "--versus", "/bin/false", "-m", STORYTELLER];
    assert!(leyden(&broken).failed(1).contains("/bin/false"));
}
