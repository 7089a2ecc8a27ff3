//! `leyden doctor`.

use crate::program::{command, finish, leyden};

#[test]
fn prints_every_fact() {
    let out = leyden(&["doctor"]).ok();
    for label in [
        "leyden",
        "processor",
        "extensions",
        "kernels",
        "cores",
        "may use",
        "threads",
        "caches",
        "NUMA",
        "memory",
    ] {
        assert!(out.lines().any(|line| line.starts_with(label)), "{label}\n{out}");
    }
}

#[test]
fn json_agrees_with_the_machine() {
    let report = leyden(&["doctor", "--json"]).json();
    let threads = report["threads"]["threads"].as_u64().unwrap();
    let parallelism = std::thread::available_parallelism().unwrap().get() as u64;
    assert!((1..=parallelism).contains(&threads), "{threads} of {parallelism}");
    assert!(!report["threads"]["reason"].as_str().unwrap().is_empty());
    assert!(report["topology"]["page_bytes"].as_u64().unwrap() >= 4096);
    let tiers = report["tier"]["available"].as_array().unwrap();
    assert_eq!(tiers[0], "scalar");
    assert_eq!(tiers.last().unwrap(), &report["tier"]["name"], "the best tier is chosen");
}

#[test]
fn tier_can_be_limited() {
    let report = finish(command(&["doctor", "--json"]).env("LEYDEN_MAX_ISA", "scalar"), b"").json();
    assert_eq!(report["tier"]["name"], "scalar");
    assert_eq!(report["settings"][0]["value"], "scalar");
    let notes = report["notes"].to_string();
    assert!(notes.contains("no SIMD"), "{notes}");
}

#[test]
fn unknown_tier_is_wrong_usage() {
    let err = finish(command(&["doctor"]).env("LEYDEN_MAX_ISA", "mmx"), b"").failed(2);
    assert!(err.contains("LEYDEN_MAX_ISA=mmx") && err.contains("known: scalar"), "{err}");
    let foreign = if std::env::consts::ARCH == "x86_64" { "neon" } else { "avx2" };
    let err = finish(command(&["doctor"]).env("LEYDEN_MAX_ISA", foreign), b"").failed(2);
    assert!(err.contains(&format!("LEYDEN_MAX_ISA={foreign}: no such tier on")), "{err}");
}
