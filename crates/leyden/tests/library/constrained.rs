//! Answers of the embedded model that follow real schemas: they must parse and validate.

use leyden::{GenerateOptions, Grammar, LoadOptions, Model, SessionOptions};
use serde_json::{Value, json};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Validates lines of `{"schema": …, "text": …}` from standard input; prints what fails.
const VALIDATE: &str = r#"
import json, sys
import jsonschema
wrong = 0
for line in sys.stdin:
    row = json.loads(line)
    schema = row["schema"]
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind(schema).validate(json.loads(row["text"]))
    except Exception as error:
        wrong += 1
        print(row["name"], row["text"][:500], str(error)[:500])
sys.exit(wrong > 0)
"#;

/// Checks that all texts follow their schemas; `None`, with the reason printed, if Python cannot check them.
fn validate(rows: &[Value]) -> Option<()> {
    let there = Command::new("python3").args(["-c", "import jsonschema"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "Python's jsonschema must exist in CI");
        let _ = writeln!(std::io::stderr(), "skipped: python3 with jsonschema is absent");
        return None;
    }
    let mut python = Command::new("python3")
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = python.stdin.take().unwrap();
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(())
}

/// Returns the quantile `share` of sorted times.
fn at(times: &[Duration], share: f64) -> Duration {
    times[((times.len() - 1) as f64 * share) as usize]
}

/// Real schemas, one a line; `None`, with the reason printed, where the file is absent.
fn schemas() -> Option<String> {
    const FILE: &str = "shared/data/schemas/jsonschemabench-sample.jsonl";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(FILE);
    if path.exists() {
        return Some(std::fs::read_to_string(path).unwrap());
    }
    assert!(std::env::var_os("LEYDEN_CI").is_none(), "{FILE} must exist in CI");
    // Not `eprintln!`, whose output is captured in a passing test.
    let _ = writeln!(std::io::stderr(), "skipped: ../{FILE} is absent");
    None
}

/// Generates after every `step`-th schema with each of these seeds. Returns the finished answers, and the number of
/// unfinished ones.
fn generate(step: usize, seeds: std::ops::Range<u64>) -> Option<(Vec<Value>, usize)> {
    let text = schemas()?;
    let model = Model::embedded(&LoadOptions::default()).unwrap();
    let mut session = model.session(&SessionOptions::default()).unwrap();
    let prompt = model.tokenize("Once").unwrap();
    let (mut rows, mut unfinished, mut times) = (Vec::new(), 0, Vec::new());
    for line in text.lines().step_by(step) {
        let row: Value = serde_json::from_str(line).unwrap();
        let Ok(grammar) = Grammar::json_schema(&row["json"]) else { continue };
        let start = Instant::now();
        let Ok(compiled) = model.compile(&grammar) else { continue };
        times.push(start.elapsed());
        for seed in seeds.clone() {
            let options = GenerateOptions::new().follow(&compiled).seed(seed);
            let answer = session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap();
            if answer.finish == leyden::Finish::Stop {
                rows.push(json!({ "name": row["name"], "schema": row["json"], "text": answer.text }));
            } else {
                unfinished += 1;
            }
        }
    }
    times.sort();
    // For docs/constrained.md; nothing depends on it.
    eprintln!(
        "{} schemas compiled: p50 {:?}, p99 {:?}",
        times.len(),
        at(&times[1..], 0.5),
        at(&times[1..], 0.99)
    );
    eprintln!("{} answers finished, {unfinished} did not fit the context", rows.len());
    Some((rows, unfinished))
}

#[test]
fn answers_follow_real_schemas() {
    let Some((rows, _)) = generate(8, 0..1) else { return };
    assert!(rows.len() >= 10, "{}", rows.len());
    validate(&rows);
}

#[test]
#[ignore = "takes minutes: every schema with three seeds"]
fn answers_follow_all_real_schemas() {
    let Some((rows, _)) = generate(1, 0..3) else { return };
    assert!(rows.len() >= 200, "{}", rows.len());
    validate(&rows).unwrap();
}
