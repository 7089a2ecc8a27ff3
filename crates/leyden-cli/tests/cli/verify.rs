//! `leyden verify`: verdicts, signed evidence, its check, and `leyden serve --require-evidence`.

use std::fs;
use std::path::Path;
use std::process::Command;

use leyden_verify::{Evidence, Key, Signed, Time, days};
use serde_json::Value;

use crate::program::{Files, Run, STORYTELLER, command, finish, storyteller_with};
use crate::serve::Server;

/// A folder with a model, and the user's configuration.
struct Place {
    files: Files,
    model: String,
}

impl Place {
    fn new() -> Place {
        let files = Files::new();
        let model = files.add("m.gguf", &fs::read(STORYTELLER).unwrap());
        Place { files, model }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("XDG_CONFIG_HOME", self.files.folder()).env_remove("LEYDEN_API_KEY");
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        let run = finish(&mut self.command(args), b"");
        assert!(!run.err.contains("panicked"), "{run:?}");
        run
    }

    /// Verifies the model; `right` of `all` questions have the likely answer.
    fn verify(&self, (right, all): (usize, usize), floor: &str, more: &[&str]) -> Run {
        let row = |i| {
            let answer = usize::from(i >= right);
            format!(
                "{{\"prompt\":\"Once upon a\",\"choices\":[\" time there was\",\" zebra quantum\"],\"answer\":{answer}}}\n"
            )
        };
        let rows: String = (0..all).map(row).collect();
        let data = self.files.add("rows.jsonl", rows.as_bytes());
        let args = [
            "verify",
            &self.model,
            "--reference",
            STORYTELLER,
            "--data",
            &data,
            "--floor",
            floor,
            "--threads",
            "1",
        ];
        self.run(&[&args[..], more].concat())
    }

    fn evidence(&self) -> String {
        self.files.path("m.gguf.evidence.json")
    }

    fn key(&self) -> String {
        self.files.path("leyden/verify.key")
    }

    /// Changes the evidence and signs it again.
    fn signed_again(&self, change: impl FnOnce(&mut Evidence)) {
        let key = Key::read(Path::new(&self.key())).unwrap();
        let path = self.evidence();
        let mut evidence = Signed::read(Path::new(&path)).unwrap().open(&key).unwrap();
        change(&mut evidence);
        Signed::new(&evidence, &key).unwrap().write(Path::new(&path)).unwrap();
    }

    /// Returns the kinds of problems that a check finds, and its exit code.
    fn problems(&self, more: &[&str]) -> (Vec<String>, Option<i32>) {
        let run = self.run(&[&["verify", "--check", &self.evidence(), "--json"], more].concat());
        let document: Value =
            serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
        let problems = document["problems"].as_array().unwrap();
        let kinds = problems.iter().map(|problem| problem["kind"].as_str().unwrap().to_owned()).collect();
        assert_eq!(document["holds"], problems.is_empty());
        (kinds, run.code)
    }
}

#[test]
fn verdicts_pass_fail_and_are_too_early() {
    let place = Place::new();
    let report = place.files.path("report.html");
    let run = place.verify((60, 60), "accuracy>=0.9*ref", &["--report", &report]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for wanted in
        ["PASS", "accuracy>=0.9*ref on rows.jsonl", "60 questions", "verdict", "m.gguf.evidence.json"]
    {
        assert!(run.out.contains(wanted), "{wanted}: {}", run.out);
    }
    assert!(run.err.contains("a new key"), "{run:?}");
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.contains("<strong>PASS</strong>") && page.contains("Verification of m.gguf"), "{page}");
    let run = place.verify((30, 60), "accuracy>=0.9", &[]);
    assert!(run.code == Some(1) && run.err.contains("FAIL: accuracy>=0.9 on rows.jsonl"), "{run:?}");
    let run = place.verify((5, 5), "accuracy>=0.9*ref", &[]);
    assert!(run.code == Some(3) && run.err.contains("INCONCLUSIVE: accuracy>=0.9*ref"), "{run:?}");
    assert!(run.err.contains("questions would decide"), "{run:?}");
    // One floor that fails makes the verdict, whatever the others are.
    let run = place.verify((30, 60), "accuracy>=0.9,rows.jsonl.accuracy>=0.3", &["--json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(document["evidence"]["verdict"], "fail");
    assert_eq!(document["evidence"]["floors"].as_array().unwrap().len(), 2);
    assert_eq!(fs::read_to_string(place.evidence()).unwrap().parse::<Value>().unwrap(), document);
}

#[test]
fn texts_have_floors() {
    let place = Place::new();
    let text: String =
        (0..400).map(|i| format!("Once upon a time there were {i} frogs in a pond. ")).collect();
    let text = place.files.add("frogs.txt", text.as_bytes());
    let verify = [
        "verify",
        &place.model,
        "--reference",
        STORYTELLER,
        "--data",
        &text,
        "--ctx",
        "64",
        "--threads",
        "1",
    ];
    let run = place.run(
        &[&verify[..], &["--chunks", "12", "--floor", "kld<=0.01, same_top>=0.9, ppl<=1.01*ref"]].concat(),
    );
    assert!(run.code == Some(0) && run.out.contains("12 windows"), "{run:?}");
    let run = place.run(&[&verify[..], &["--chunks", "4", "--floor", "kld<=0.01"]].concat());
    assert!(run.code == Some(3) && run.err.contains("about 10 windows"), "{run:?}");
}

#[test]
fn changes_after_the_signature_are_named() {
    let place = Place::new();
    assert_eq!(place.verify((60, 60), "accuracy>=0.9*ref", &[]).code, Some(0));
    assert_eq!(place.problems(&[]), (vec![], Some(0)));
    let run = place.run(&["verify", "--check", &place.evidence()]);
    assert!(
        run.code == Some(0) && run.out.contains("signature  holds") && run.out.contains("as verified"),
        "{run:?}"
    );
    // A tampered document.
    let good = fs::read_to_string(place.evidence()).unwrap();
    fs::write(place.evidence(), good.replace("\"both\": 60", "\"both\": 61")).unwrap();
    assert_eq!(place.problems(&[]), (vec!["forged".to_owned()], Some(1)));
    fs::write(place.evidence(), &good[..100]).unwrap();
    let run = place.run(&["verify", "--check", &place.evidence()]);
    assert!(run.code == Some(1) && run.err.contains("not evidence of leyden verify"), "{run:?}");
    fs::write(place.evidence(), &good).unwrap();
    // A swapped model, at its place and elsewhere; a renamed one is the same.
    let other = place.files.add("other.gguf", &storyteller_with("general.name", "other"));
    assert_eq!(place.problems(&["--model", &other]), (vec!["files".to_owned()], Some(1)));
    let renamed = place.files.add("renamed.gguf", &fs::read(&place.model).unwrap());
    assert_eq!(place.problems(&["--model", &renamed]), (vec![], Some(0)));
    fs::remove_file(&place.model).unwrap();
    assert_eq!(place.problems(&[]), (vec!["missing".to_owned()], Some(1)));
    fs::copy(&other, &place.model).unwrap();
    assert_eq!(place.problems(&[]), (vec!["files".to_owned()], Some(1)));
    fs::copy(&renamed, &place.model).unwrap();
    // Changed data.
    place.files.add("rows.jsonl", b"{}");
    assert_eq!(place.problems(&[]), (vec!["files".to_owned()], Some(1)));
    fs::remove_file(place.files.path("rows.jsonl")).unwrap();
    assert_eq!(place.problems(&[]), (vec![], Some(0)));
    // The public part is enough; one that has expired is not, nor is another key.
    let public = fs::read_to_string(place.key() + ".pub").unwrap();
    let mut expired: Value = serde_json::from_str(&public).unwrap();
    expired["expires"] = "2026-01-01T00:00:00Z".into();
    let expired = place.files.add("expired.pub", expired.to_string().as_bytes());
    assert_eq!(place.problems(&["--key", &(place.key() + ".pub")]), (vec![], Some(0)));
    assert_eq!(place.problems(&["--key", &expired]), (vec!["expired".to_owned()], Some(1)));
    let another = place.files.path("another.key");
    Key::generate(Time::now(), 1).unwrap().write(Path::new(&another)).unwrap();
    assert_eq!(place.problems(&["--key", &another]), (vec!["forged".to_owned()], Some(1)));
    // Another processor, and another program.
    place.signed_again(|evidence| evidence.machine.processor = "Processor of another".to_owned());
    assert_eq!(place.problems(&[]), (vec!["processor".to_owned()], Some(1)));
    place.signed_again(|evidence| evidence.program.sha256 = "0".repeat(64));
    assert_eq!(place.problems(&[]), (vec!["program".to_owned(), "processor".to_owned()], Some(1)));
    // Genuine evidence of too few data.
    assert_eq!(place.verify((5, 5), "accuracy>=0.9*ref", &[]).code, Some(3));
    assert_eq!(place.problems(&[]), (vec!["inconclusive".to_owned()], Some(3)));
}

#[test]
fn a_server_asks_for_evidence() {
    let place = Place::new();
    let serve = |more: &[&str]| {
        let args = ["serve", &place.model, "--port", "0", "--threads", "1", "--require-evidence"];
        let run = place.run(&[&args[..], more].concat());
        assert_eq!(run.code, Some(1), "{run:?}");
        run.err
    };
    let told = serve(&[]);
    assert!(told.contains("there is no key to check"), "{told}");
    assert_eq!(place.verify((60, 60), "accuracy>=0.9*ref", &[]).code, Some(0));
    let good = fs::read_to_string(place.evidence()).unwrap();
    let started = |more: &[&str]| {
        let args = [
            "serve",
            &place.model,
            "--port",
            "0",
            "--threads",
            "1",
            "--lame-duck",
            "0",
            "--require-evidence",
        ];
        drop(Server::of(&mut place.command(&[&args[..], more].concat())));
    };
    started(&[]);
    started(&["--on-demand"]);
    started(&["--evidence-days", "1"]);
    let told = serve(&["--kv-type", "q8_0"]);
    assert!(told.contains("--kv-type is q8_0, and was verified as f16"), "{told}");
    fs::write(place.evidence(), good.replace("\"both\": 60", "\"both\": 61")).unwrap();
    for more in [&[][..], &["--on-demand"]] {
        let told = serve(more);
        assert!(told.contains("changed after it was signed") && told.contains("leyden verify"), "{told}");
    }
    fs::write(place.evidence(), &good).unwrap();
    place.signed_again(|evidence| evidence.made = Time(evidence.made.0 - days(3)));
    let told = serve(&["--evidence-days", "2"]);
    assert!(told.contains("more than 2 days ago"), "{told}");
    assert_eq!(place.verify((30, 60), "accuracy>=0.9", &[]).code, Some(1));
    let told = serve(&[]);
    assert!(told.contains("the verdict is FAIL"), "{told}");
    fs::write(place.evidence(), &good).unwrap();
    fs::write(&place.model, storyteller_with("general.name", "other")).unwrap();
    let told = serve(&[]);
    assert!(told.contains("is not the verified file"), "{told}");
    fs::remove_file(place.evidence()).unwrap();
    let told = serve(&[]);
    assert!(told.contains("there is no ") && told.contains("m.gguf.evidence.json"), "{told}");
    let run = place.run(&["serve", "--port", "0", "--require-evidence"]);
    assert!(run.code == Some(2) && run.err.contains("no model is named"), "{run:?}");
}

#[test]
fn a_load_has_limits() {
    let place = Place::new();
    let load = |limits: &str| {
        let load = format!("users=2,requests=30,warmup=0s,prompt=8,output=24,{limits}");
        place.run(&["verify", &place.model, "--load", &load, "--threads", "1"])
    };
    let run = load("ttft_p95=10m,user_tps>=0.0001");
    assert!(run.code == Some(0) && run.out.contains("30 complete, 0 failed"), "{run:?}");
    let run = load("ttft_p95=0.0001ms");
    assert!(run.code == Some(1) && run.err.contains("FAIL: ttft_p95"), "{run:?}");
    let run = load("ttft_p99=10m");
    assert!(run.code == Some(3) && run.err.contains("INCONCLUSIVE: ttft_p99"), "{run:?}");
}

#[test]
fn wrong_usage_is_named() {
    let place = Place::new();
    let rows = place.files.add("q.jsonl", b"{\"prompt\":\"a\",\"exact\":\"b\"}\n{\"prompt\":\"a\"}\n");
    let text = place.files.add("t.txt", b"Once upon a time");
    let model = place.model.clone();
    for (args, code, words) in [
        (&["verify"][..], 2, "MODEL is missing"),
        (&["verify", &model], 2, "neither --floor nor --load"),
        (&["verify", &model, "--floor", "accuracy>=0.9"], 2, "--data"),
        (&["verify", &model, "--data", &rows, "--floor", "speed>=0.9"], 2, "`speed` is no metric"),
        (&["verify", &model, "--data", &text, "--floor", "kld<=0.9"], 2, "compares with a reference"),
        (
            &["verify", &model, "--data", &text, "--floor", "accuracy>=0.9"],
            2,
            "no questions with this metric",
        ),
        (&["verify", &model, "--data", &rows, "--floor", "accuracy>=0.9"], 1, "1 of 2 rows are no questions"),
        (&["verify", &model, "--data", &text, "--load", "users=2,ttft_p95=1s"], 2, "no floor is about it"),
        (&["verify", &model, "--data", &text, "--floor", "ppl<=9"], 1, "do not fill a window"),
        (&["verify", &model, "--load", "users=2"], 2, "lacks a limit"),
        (&["verify", &model, "--check", "x"], 2, "cannot be used with"),
        (&["verify", "--check", "none.json"], 1, "none.json: cannot read"),
        (&["verify", &model, "--data", "gsm8k=x", "--floor", "strict>=0.9"], 2, "needs examples"),
        (
            &["verify", &model, "--data", &text, "--floor", "ppl<=9", "--evidence", &model],
            2,
            "this is the input",
        ),
    ] {
        let run = place.run(args);
        assert!(run.code == Some(code) && run.err.contains(words), "{args:?}: {run:?}");
    }
}
