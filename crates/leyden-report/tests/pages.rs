//! Pages of documents that the commands wrote, and of documents that are not as they should be.
#![allow(clippy::unwrap_used, reason = "tests")]

use leyden_report::{Error, read, side_by_side};
use serde_json::{Value, json};

/// Documents of `tests/data`, and texts that their pages have.
const DOCUMENTS: [(&str, &[&str]); 8] = [
    (
        "bench",
        &["Speed of SmolLM2", "pp256 @ d512", "Answers by number of sequences", "speed, t/s", "G/s at most"],
    ),
    ("load", &["PASS.", "ttft_p95&lt;=20s →", "Percentiles", "first token, p95"]),
    ("find_users", &["users within the SLO.", "Steps of the search", "Time to first token by users"]),
    ("compare", &["A divided by B", "equal", "(less is better)"]),
    ("tasks", &["Floor of 45.00 % undecided.", "arc_easy acc_norm", "Difference from the reference"]),
    (
        "divergence",
        &[
            "mean KL divergence from the reference is 0.28",
            "Ratio of perplexities",
            "KL divergence of positions",
        ],
    ),
    (
        "verify",
        &[
            "<strong>PASS</strong>",
            "accuracy&gt;=0.95*ref on arc_easy",
            "--data arc_easy=/m/arc_easy.jsonl",
            "Ed25519",
        ],
    ),
    ("plan", &["It fits.", "Roofline", "memory of the machine →", "Check: answers", "measured"]),
];

fn document(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks that a page needs nothing else, closes what it opens, and has no number that is none.
fn check(name: &str, html: &str) {
    for absent in
        ["<script", "<link", "url(", "src=", "href=", "@import", "NaN", "inf\"", "infV", "infH", ">inf"]
    {
        assert!(!html.contains(absent), "{name}: {absent}");
    }
    for tag in
        ["svg", "figure", "table", "div", "tr", "td", "dl", "text", "p", "h2", "h3", "section", "span", "g"]
    {
        let open = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{name}: {tag}");
    }
}

#[test]
fn every_kind_has_a_page_with_its_circumstances() {
    for (name, wanted) in DOCUMENTS {
        let html = read(&document(name)).unwrap().page().html();
        check(name, &html);
        for text in
            ["<h2>To repeat</h2>", "leyden 0.1.0", "Intel(R) Xeon(R) Processor", "2026-11-29T0", "<svg"]
        {
            assert!(html.contains(text), "{name}: {text}");
        }
        for text in wanted {
            assert!(html.contains(text), "{name}: {text}: {html}");
        }
    }
}

#[test]
fn runs_of_one_command_stand_beside_each_other() {
    for (name, _) in DOCUMENTS {
        let mut other = read(&document(name)).unwrap();
        other.file = "second.json".to_owned();
        let html = side_by_side(&[read(&document(name)).unwrap(), other]).unwrap().html();
        check(name, &html);
        assert!(html.contains("(second.json)") && html.contains(">B</"), "{name}");
    }
    // Ten times the divergence, beyond both intervals.
    let mut worse = document("divergence");
    let kld = &mut worse["mean_kld"];
    *kld = json!({ "value": 2.8, "standard_error": 0.1, "interval": [2.6, 3.0] });
    let html = side_by_side(&[read(&document("divergence")).unwrap(), read(&worse).unwrap()]).unwrap().html();
    assert!(html.contains("<td class=\"n bad\">+887."), "{html}");

    let (bench, load) = (read(&document("bench")).unwrap(), read(&document("load")).unwrap());
    let told = side_by_side(&[bench.clone(), load]).unwrap_err();
    assert!(
        matches!(&told, Error::Runs(text) if text.contains("leyden bench") && text.contains("leyden load")),
        "{told}"
    );
    assert!(side_by_side(std::slice::from_ref(&bench)).is_err() && side_by_side(&vec![bench; 9]).is_err());
}

/// The command of evidence follows from its settings; a path may be that of the file behind a link.
#[test]
fn evidence_has_its_command() {
    let mut document = document("verify");
    document["evidence"]["data"][2]["path"] = "/x/behind.txt".into();
    let command = read(&document).unwrap().about.command;
    for wanted in [
        "leyden verify /m/SmolLM2-135M-Instruct.Q4_1.gguf --reference /m/smollm2-f16.gguf",
        "--data arc_easy=/m/arc_easy.jsonl --data piqa=/m/piqa.jsonl --data /x/behind.txt",
        "--floor 'accuracy>=0.95*ref, kld<=0.05' --load 'users=4, ttft_p95=2s, user_tps>=5' --limit 500 --chunks 40",
    ] {
        assert!(command.contains(wanted), "{command}");
    }
}

/// Returns the paths of all values.
fn paths(value: &Value, path: &str, all: &mut Vec<String>) {
    let mut deeper = |key: String, value: &Value| {
        let path = format!("{path}/{key}");
        paths(value, &path, all);
        all.push(path);
    };
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| deeper(key.replace('~', "~0").replace('/', "~1"), value))
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| deeper(i.to_string(), value)),
        _ => {}
    }
}

/// Any value in the place of any other gives a page or an error that names a field, and nothing else.
#[test]
fn damaged_documents_give_a_page_or_an_error() {
    let (mut pages, mut errors) = (0, 0);
    for (name, _) in DOCUMENTS {
        let whole = document(name);
        let mut all = Vec::new();
        paths(&whole, "", &mut all);
        for path in all {
            for other in [
                Value::Null,
                json!("<x>"),
                json!([]),
                json!({}),
                json!(-1e300),
                json!(1e300),
                json!(0),
                json!([[1, -1e308]]),
            ] {
                let mut damaged = whole.clone();
                *damaged.pointer_mut(&path).unwrap() = other;
                match read(&damaged) {
                    Ok(run) => {
                        check(&format!("{name}{path}"), &run.page().html());
                        pages += 1;
                    }
                    Err(Error::Field { field, .. }) => {
                        assert!(!field.is_empty());
                        errors += 1;
                    }
                    Err(Error::Runs(_)) => errors += 1,
                    Err(other) => panic!("{name}{path}: {other}"),
                }
            }
        }
    }
    assert!(pages > 1000 && errors > 500, "{pages} pages, {errors} errors");
}
