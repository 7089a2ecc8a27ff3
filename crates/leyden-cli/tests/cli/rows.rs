//! Rows in files: `leyden classify`, `embed`, `extract` and `rerank` over tables, with outputs, errors and resumption.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::encoders::model;
use super::program::{Files, command, leyden, leyden_with_input};

/// Lines of JSON.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const TABLE: &str = "id,words,label\n7,w5 w6,gold\n8,\"w7, w8\nw9\",silver\n";

#[test]
fn rows_keep_their_fields_in_every_output() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let table = files.add("rows.csv", TABLE.as_bytes());
    let ask = ["classify", &folder, "-q", "--file", &table, "--column", "words"];
    let printed = objects(&leyden(&[&ask[..], &["--json"]].concat()).ok());
    assert_eq!(
        (printed.len(), &printed[1]["id"], &printed[1]["words"]),
        (2, &"8".into(), &"w7, w8\nw9".into())
    );
    // The table's own label stays, under another name.
    assert_eq!(printed[0]["input_label"], "gold");
    assert!(printed[0]["label"].is_string() && printed[0]["score"].is_f64(), "{printed:?}");
    for name in ["out.jsonl", "out.json", "out.csv", "out.tsv", "out.parquet", "out.txt"] {
        let out = files.path(name);
        leyden(&[&ask[..], &["-o", &out]].concat()).ok();
        assert!(!Path::new(&format!("{out}.unfinished")).exists());
        if name == "out.txt" {
            assert_eq!(fs::read_to_string(&out).unwrap(), leyden(&ask).ok());
            continue;
        }
        // What is written is read again.
        let again = ["classify", &folder, "-q", "--file", &out, "--column", "words", "--json"];
        let again = objects(&leyden(&again).ok());
        assert_eq!(
            (&again[1]["words"], &again[1]["label"]),
            (&"w7, w8\nw9".into(), &printed[1]["label"]),
            "{name}"
        );
        assert_eq!(again[1]["input_label"], "silver", "{name}");
        assert_eq!(again[1]["input_input_label"], printed[1]["label"], "{name}");
    }
    let vectors = files.path("out.npy");
    leyden(&["embed", &folder, "-q", "--file", &table, "--column", "words", "-o", &vectors]).ok();
    let npy = fs::read(&vectors).unwrap();
    assert!(npy.starts_with(b"\x93NUMPY") && npy.len() == 128 + 2 * 32 * 4, "{}", npy.len());
    // Several texts, and standard input in a format.
    let two = leyden(&["classify", &folder, "w1", "w2"]).ok();
    assert_eq!(two.lines().count(), 2);
    let piped = ["classify", &folder, "--format", "csv", "--column", "words", "--json"];
    assert_eq!(objects(&leyden_with_input(&piped, TABLE.as_bytes()).ok()), printed);
}

#[test]
fn a_bad_row_becomes_a_row_with_an_error() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let long = "w5 ".repeat(200);
    let table = files.add("rows.csv", format!("id,text\n1,w5\n2,{long}\n3,w6,w7\n4,w8\n").as_bytes());
    let out = files.path("out.jsonl");
    let run = leyden(&["classify", &folder, "--file", &table, "-o", &out]);
    assert!(run.code == Some(1) && run.err.contains("rows without a result: 2 of 4"), "{run:?}");
    assert!(run.err.contains("rows.csv: line 3: 200 tokens, but the model takes 128"), "{run:?}");
    let rows = objects(&fs::read_to_string(&out).unwrap());
    let errors: Vec<Option<&str>> = rows.iter().map(|row| row["error"].as_str()).collect();
    assert!(rows.len() == 4 && rows[3]["label"].is_string() && rows[1]["id"] == "2", "{rows:?}");
    assert_eq!(errors.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true, false]);
    assert!(errors[2].unwrap().contains("3 fields, but the header has 2"), "{errors:?}");
    // The label of the input is not taken for a result.
    let gold = files.add("gold.csv", format!("label,text\ngold,w5\ngold,{long}\n").as_bytes());
    let rows = objects(&leyden(&["classify", &folder, "--file", &gold, "--json"]).out);
    assert!(
        rows[1].get("label").is_none() && rows.iter().all(|row| row["input_label"] == "gold"),
        "{rows:?}"
    );
    let printed = leyden(&["classify", &folder, "--file", &table]);
    assert!(printed.code == Some(1) && printed.out.lines().count() == 4, "{printed:?}");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_computed() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let table = files.add("rows.csv", TABLE.as_bytes());
    let sheet = files.add("rows.xlsx", b"PK");
    let (npy, odd) = (files.path("out.npy"), files.path("out.xlsx"));
    for (arguments, words) in [
        (
            vec!["--file", &table],
            "no column `text`\nhint: choose the column of the texts with --column; columns: id, words, label",
        ),
        (vec!["--file", &sheet], "rows are not read from .xlsx\nhint: known endings"),
        (vec!["--file", &table, "--column", "words", "-o", &odd], "does not tell its format"),
        (vec!["--file", &table, "--column", "words", "-o", &table], "this is the input"),
        (vec!["--file", &table, "--column", "words", "-o", &npy, "--json"], "asks for another format"),
        (vec!["--file", &table, "w1"], "cannot be used with"),
    ] {
        let told = leyden(&[vec!["embed", &folder], arguments.clone()].concat()).failed(2);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    let told = leyden(&["embed", &folder, "w1", "--tokens", "-o", &npy]).failed(2);
    assert!(told.contains("cannot have --sparse or --tokens"), "{told}");
}

/// A run that is killed goes on where it was, and its output is that of a run that was not.
#[test]
fn a_killed_run_goes_on_without_losing_or_doubling_rows() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, labels");
    let rows: Vec<String> =
        (0..90).map(|i| format!("{{\"n\":{i},\"text\":\"w{} w{}\"}}\n", i % 40 + 3, i)).collect();
    let all = files.add("rows.jsonl", rows.concat().as_bytes());
    let (whole, out) = (files.path("whole.csv"), files.path("out.csv"));
    let unfinished = format!("{out}.unfinished");
    leyden(&["classify", &folder, "-q", "--file", &all, "-o", &whole]).ok();
    // The first rows come, and then the program waits for more.
    let ask = ["classify", &folder, "--format", "jsonl", "-o", &out];
    let mut child = command(&ask).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(rows[..60].concat().as_bytes()).unwrap();
    input.flush().unwrap();
    let begin = Instant::now();
    let kept = || fs::read_to_string(&unfinished).map_or(0, |text| text.lines().count());
    // The first line, the mark of the begin, and the rows.
    while kept() < 34 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{} rows are kept", kept());
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(input);
    assert!(!Path::new(&out).exists());
    // The kill hit a line.
    let mut journal = fs::OpenOptions::new().append(true).open(&unfinished).unwrap();
    journal.write_all(b"0123456789abcdef - 0000").unwrap();
    drop(journal);
    let other = leyden(&["classify", &folder, "--top", "2", "--file", &all, "-o", &out]).failed(1);
    assert!(other.contains("another model, another input or other options"), "{other}");
    let changed = files.add("changed.jsonl", rows.concat().replace("\"n\":1,", "\"n\":-1,").as_bytes());
    let told = leyden(&["classify", &folder, "--file", &changed, "-o", &out]);
    assert!(told.code == Some(1) && told.err.contains("line 2 of the input differs"), "{told:?}");
    let run = leyden(&["classify", &folder, "--file", &all, "-o", &out]);
    assert!(run.code == Some(0) && run.err.contains("continuing after 32 rows"), "{run:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), fs::read_to_string(&whole).unwrap());
    assert!(!Path::new(&unfinished).exists());
}

#[test]
fn documents_are_written_best_first() {
    let files = Files::new();
    let (folder, _) = model(&files, "bert, rank");
    let table = files.add("docs.tsv", b"id\ttext\n1\tw1 w2 w3\n2\tw46 w57 w68 w79\n3\tw5\n");
    let out = files.path("out.jsonl");
    let printed = objects(&leyden(&["rerank", &folder, "w13 w24", "--file", &table, "--json"]).ok());
    leyden(&["rerank", &folder, "w13 w24", "-q", "--file", &table, "-o", &out]).ok();
    assert_eq!(objects(&fs::read_to_string(&out).unwrap()), printed);
    assert!(printed.windows(2).all(|pair| pair[0]["score"].as_f64() >= pair[1]["score"].as_f64()));
    let place = |row: &Value| (row["index"].as_u64().unwrap() + 1).to_string();
    assert!(printed.iter().all(|row| row["id"] == place(row).as_str()), "{printed:?}");
    let best =
        leyden(&["rerank", &folder, "w13 w24", "w1 w2 w3", "w46 w57 w68 w79", "w5", "--top", "1"]).ok();
    assert_eq!(best.split('\t').nth(1), printed[0]["index"].as_u64().map(|i| i.to_string()).as_deref());
}
