//! Recorded traces: input lines, each followed by the scheduler's decisions after `>`.
//!
//! ```text
//! options step=32 beside=8 running=4 blocks=8
//! submit 1 key=1 prompt=40 max=3 text=1 priority=0 deadline=9 speculate=1
//! cancel 1
//! step 2
//! ```
//! `text` is the number of the text that the prompt is taken from. A step takes a second.

use super::sim::*;
use crate::schedule::*;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Returns the numbers of a line: those without a name under "".
fn numbers(words: &str) -> HashMap<&str, u64> {
    words
        .split_whitespace()
        .map(|w| w.split_once('=').map_or(("", w), |(name, value)| (name, value)))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

fn describe(step: &Step, out: &mut String) {
    for d in &step.decisions {
        decision(d, out);
    }
    for s in &step.scheduled {
        let _ = write!(out, "> run {} {}..{}", s.request.0, s.position, s.position + s.tokens);
        if s.drafted > 0 {
            let _ = write!(out, " of which {} drafted", s.drafted);
        }
        out.push_str(if s.samples { " samples\n" } else { "\n" });
    }
    if step.scheduled.is_empty() {
        out.push_str("> nothing to run\n");
    }
}

fn decision(d: &Decision, out: &mut String) {
    let _ = match d {
        Decision::Admitted { request, cached_tokens } => {
            writeln!(out, "> admit {} cached {cached_tokens}", request.0)
        }
        Decision::Preempted { request } => writeln!(out, "> preempt {}", request.0),
        Decision::Refused { request, why } => writeln!(out, "> refuse {} as {why}", request.0),
        Decision::Finished { request, finish, generated } => {
            writeln!(out, "> end {} {finish:?} after {generated}", request.0)
        }
    };
}

/// Runs the input lines and returns all lines with the actual decisions.
fn play(text: &str) -> String {
    let mut sim = Sim::new(SchedulerOptions::default(), 0);
    let mut out = String::new();
    for line in text.lines().filter(|l| !l.starts_with('>')) {
        out.push_str(line);
        out.push('\n');
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        if command.is_empty() || command == "#" {
            continue;
        }
        let n = numbers(rest);
        let get = |name: &str, default: u64| n.get(name).copied().unwrap_or(default);
        match command {
            "options" => {
                let options = SchedulerOptions {
                    step_tokens: n["step"] as usize,
                    prompt_tokens_beside_decode: n["beside"] as usize,
                    running: n["running"] as usize,
                    waiting: get("waiting", 100) as usize,
                    ..SchedulerOptions::default()
                };
                sim = Sim::new(options, n["blocks"] as u32);
            }
            "submit" => {
                let text = prompt(get("text", n[""]) as u32, n["prompt"] as usize);
                let mut r = request(n[""], get("key", 1) as u32, text, n["max"] as usize);
                r.priority = get("priority", 0) as i32;
                r.deadline = n.get("deadline").map(|d| Duration::from_secs(*d));
                r.speculate = n.contains_key("speculate");
                let id = r.id;
                if let Err(e) = sim.scheduler.submit(r, sim.now) {
                    let _ = writeln!(out, "> refused: {e}");
                } else {
                    sim.answers.insert(id, Vec::new());
                }
            }
            "cancel" => {
                let found = sim.cancel(n[""]);
                out.push_str(if found { "" } else { "> no such request\n" });
            }
            "step" => {
                for _ in 0..get("", 1) {
                    let step = sim.plan();
                    describe(&step, &mut out);
                    let before = sim.ends.clone();
                    sim.finish(&step);
                    for (id, finish) in sim.ends.iter().filter(|(id, _)| !before.contains_key(id)) {
                        let generated = sim.answers[id].len();
                        decision(&Decision::Finished { request: *id, finish: *finish, generated }, &mut out);
                    }
                }
            }
            other => panic!("{other}"),
        }
    }
    out
}

#[test]
fn recorded_traces_give_the_same_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5);
    let mut wrong = String::new();
    for file in files {
        let want = fs::read_to_string(&file).unwrap();
        let got = play(&want);
        if got != want {
            let _ = writeln!(wrong, "=== {}\n{got}", file.display());
        }
    }
    assert!(wrong.is_empty(), "these plans differ from those recorded; now they are:\n{wrong}");
}
