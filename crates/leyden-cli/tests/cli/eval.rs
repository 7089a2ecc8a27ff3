//! `leyden eval`: perplexity beside llama.cpp's.

use crate::program::{Files, STORYTELLER, leyden};
use leyden_testkit::shared;

/// `llama-perplexity -m storyteller-f16.gguf -f heldout.txt -c 256 --chunks 8` says 91.7807 (llama.cpp of llama-cpp-python
/// 0.3.36).
#[test]
fn perplexity_is_llama_cpps() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text) = (model.display().to_string(), text.display().to_string());
    let eval = ["eval", &model, "--perplexity", &text, "--ctx", "256", "--chunks", "8", "--json"];
    let report = leyden(&eval).json();
    let perplexity = report["perplexity"].as_f64().unwrap();
    assert!((perplexity / 91.7807 - 1.0).abs() < 0.005, "{report}");
    assert_eq!((report["windows"].as_u64(), report["tokens"].as_u64()), (Some(8), Some(8 * 127)));
    assert!(report["standard_error"].as_f64().unwrap() > 1.0);
}

/// `llama-perplexity --kl-divergence` prints 0.064761 ± 0.001785, 4.278 % and 82.776 % for the same file.
#[test]
fn divergence_is_llama_cpps_side_by_side_and_from_a_file() {
    let (Some(model), Some(text)) =
        (shared("demo-model/storyteller-f16.gguf"), shared("demo-model/heldout.txt"))
    else {
        return;
    };
    let (model, text, files) = (model.display().to_string(), text.display().to_string(), Files::new());
    let (small, kept) = (files.path("q4.gguf"), files.path("f16.kld"));
    leyden(&["quantize", &model, &small, "Q4_K_M"]).ok();
    let on = ["--perplexity", &text, "--ctx", "256", "--chunks", "8"];
    let beside =
        leyden(&[&["eval", &small, "--kld", "--reference", &model, "--json"], &on[..]].concat()).json();
    let near = |key: &str, wanted: f64| {
        let found = beside[key]["value"].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 0.05, "{key}: {found} {wanted}");
    };
    near("mean_kld", 0.064761);
    near("p_diff_rms", 0.04278);
    near("same_top", 0.82776);
    near("perplexity_reference", 91.780638);
    assert_eq!(beside["tokens"].as_u64(), Some(8 * 127));
    leyden(&[&["eval", &model, "--save-logits", &kept], &on[..]].concat()).ok();
    let stored = leyden(&["eval", &small, "--kld", "--reference", &kept, "--json"]).json();
    for key in ["mean_kld", "same_top", "perplexity_ratio", "kld_percentiles"] {
        assert_eq!(stored[key], beside[key], "{key}");
    }
    let told = leyden(&["eval", &small, "--kld", "--reference", &kept, "--ctx", "512"]).failed(2);
    assert!(told.contains("has windows of 256 tokens"), "{told}");
    let told = leyden(&["eval", &small, "--kld", "--reference", &model]).failed(2);
    assert!(told.contains("--kld needs a text"), "{told}");
    let told =
        leyden(&[&["eval", STORYTELLER, "--kld", "--reference", &files.path("none")], &on[..]].concat());
    assert!(told.code == Some(1), "{told:?}");
}

#[test]
fn what_cannot_be_measured_is_named() {
    let files = Files::new();
    let short = files.add("short.txt", b"Once upon a time");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &short]).failed(1);
    assert!(told.contains("tokens do not fill a window of 512"), "{told}");
    let binary = files.add("binary.txt", b"\xff\xfe");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &binary]).failed(1);
    assert!(told.contains("binary.txt: cannot read"), "{told}");
    let told = leyden(&["eval", STORYTELLER, "--perplexity", &short, "--ctx", "2"]).failed(2);
    assert!(told.contains("at least 4 tokens"), "{told}");
}

const QUESTIONS: &[u8] = br#"{"id": "likely", "prompt": "Once upon a", "choices": [" time there was", " zebra quantum"], "answer": 0}
{"id": "unlikely", "prompt": "Once upon a", "choices": [" time there was", " zebra quantum"], "answer": " zebra quantum"}
{"prompt": "Once upon a", "contains": ["time"], "max_tokens": 4}
{"prompt": "Once upon a", "regex": "^ ?time", "max_tokens": 4}
{"prompt": "Once upon a", "exact": "no such answer", "max_tokens": 4}
{"messages": [{"role": "user", "content": "Once"}], "json": {"a.b": 1}, "max_tokens": 4}
"#;

#[test]
fn questions_are_answered_kept_and_judged() {
    let files = Files::new();
    let (data, state) = (files.add("own.jsonl", QUESTIONS), files.path("state.json"));
    let report = files.path("report.html");
    let ask = ["eval", STORYTELLER, "--data", &data, "--state", &state, "--json"];
    let of = |document: &serde_json::Value| {
        let score = &document["tasks"][0]["scores"][0];
        (score["hits"].as_u64(), score["items"].as_u64(), score["interval"][0].as_f64().unwrap() > 0.1)
    };
    let first = leyden(&[&ask[..], &["--floor", "0.1", "--report", &report]].concat()).json();
    assert_eq!((of(&first), &first["verdict"]), ((Some(3), Some(6), true), &"reached".into()));
    assert!(std::fs::read_to_string(&report).unwrap().contains("Floor of 10.00 % reached."));
    // What was kept is not asked again: a state that says otherwise is believed.
    let kept = std::fs::read_to_string(&state).unwrap();
    let all_right = kept.replace("\"hits\":[false", "\"hits\":[true");
    std::fs::write(&state, all_right).unwrap();
    assert_eq!(of(&leyden(&ask).json()).0, Some(6));
    // Cut off after the third question.
    let mut cut: serde_json::Value = serde_json::from_str(&kept).unwrap();
    for outcomes in cut["outcomes"].as_object_mut().unwrap().values_mut() {
        outcomes.as_array_mut().unwrap().truncate(3);
    }
    std::fs::write(&state, cut.to_string()).unwrap();
    assert_eq!(of(&leyden(&ask).json()), of(&first));
    assert_eq!(std::fs::read_to_string(&state).unwrap(), kept);
    let told = leyden(&["eval", STORYTELLER, "--data", &data, "--state", &state, "--limit", "2"]).failed(1);
    assert!(told.contains("of another evaluation") && told.contains("--limit none"), "{told}");
    let missed = leyden(&["eval", STORYTELLER, "--data", &data, "--floor", "0.95"]);
    assert!(missed.code == Some(1) && missed.err.contains("floor of 95.00 % missed"), "{missed:?}");
    // 3 of 6 say nothing about half or 60 %.
    for floor in ["0.5", "0.6"] {
        let open = leyden(&["eval", STORYTELLER, "--data", &data, "--floor", floor]);
        assert!(open.code == Some(3) && open.err.contains("too few questions for a verdict"), "{open:?}");
    }
    let said = leyden(&["eval", STORYTELLER, "--data", &data]).out;
    assert!(
        said.contains(
            "3 of 6 questions were answered right; of 100 similar questions it would be about 19 to 81"
        ),
        "{said}"
    );
}

/// A table has the same questions as JSON lines; outcomes stand beside the fields; a bad row is one row.
#[test]
fn questions_of_a_table_are_answered_row_by_row() {
    let files = Files::new();
    let table = "n,question,choices,answer\n1,Once upon a,\"[\"\" time there was\"\", \"\" zebra quantum\"\"]\",0\n\
                 2,Once upon a,\"[\"\" time\"\"]\",7\n";
    let data = files.add("own.csv", table.as_bytes());
    let out = files.path("out.jsonl");
    let run = leyden(&["eval", STORYTELLER, "--data", &data, "--column", "question", "-o", &out]);
    assert!(run.code == Some(1) && run.err.contains("1 of 2 rows are not valid questions"), "{run:?}");
    assert!(run.err.contains("own.csv: line 3: answer 7 of 1 choices"), "{run:?}");
    let rows = std::fs::read_to_string(&out).unwrap();
    let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["n"], &rows[0]["acc"], rows.len()), (&"1".into(), &true.into(), 2));
    assert!(rows[0]["logprobs"].as_array().unwrap().len() == 2 && rows[1]["error"].is_string(), "{rows:?}");
    assert!(!std::path::Path::new(&format!("{out}.unfinished")).exists());
    let told = leyden(&["eval", STORYTELLER, "--data", &files.add("own.xlsx", b"x")]).failed(2);
    assert!(told.contains("--format"), "{told}");
}

#[test]
fn tasks_are_found_and_compared_with_a_reference() {
    let files = Files::new();
    let item = |goal: &str, gold: u8| {
        format!(
            "{{\"goal\": \"{goal}\", \"sol1\": \"there was a king\", \"sol2\": \"xylophone\", \"label\": {gold}}}\n"
        )
    };
    files.add("piqa.jsonl", [item("a", 0), item("b", 1), item("c", 0)].concat().as_bytes());
    let folder = files.path("");
    let ask = ["eval", STORYTELLER, "--task", "piqa", "--task-data", &folder, "--reference", STORYTELLER];
    let report = leyden(&[&ask[..], &["--json"]].concat()).json();
    let task = &report["tasks"][0];
    assert_eq!(
        (&task["task"], task["scores"].as_array().map(Vec::len)),
        (&"piqa".into(), Some(2)),
        "{report}"
    );
    assert_eq!(task["scores"][1]["hits"], task["reference"][1]["hits"]);
    assert_eq!((&task["paired"][0]["difference"], &task["paired"][0]["p"]), (&0.0.into(), &1.0.into()));
    let table = leyden(&ask).ok();
    assert!(table.contains("acc_norm") && table.contains("reference %"), "{table}");
    for (arguments, words) in [
        (vec!["--task", "piqua"], "known tasks: hellaswag"),
        (vec!["--task", "piqa"], "its data file is missing"),
        (vec!["--task", "piqa", "--perplexity", "x"], "cannot be used with"),
        (vec!["--floor", "2"], "between 0 and 1"),
    ] {
        let told = leyden(&[vec!["eval", STORYTELLER], arguments.clone()].concat()).failed(2);
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}
