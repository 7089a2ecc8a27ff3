//! `leyden calibrate`, `leyden classify --calibration` and the server's decisions, on the tiny classifier of the encoders'
//! tests; its labelled texts have labels drawn from its own probabilities.

use std::fs;

use serde_json::{Value, json};

use super::encoders::{ask, model};
use super::program::{Files, leyden};
use super::serve::Server;

const LABELS: [&str; 3] = ["lost card", "card arrival", "top up"];

/// A model, and labelled texts.
struct Place {
    files: Files,
    folder: String,
    rows: Vec<(String, String)>,
}

impl Place {
    fn new(count: usize) -> Place {
        let files = Files::new();
        let (folder, _) = model(&files, "bert, labels");
        // Texts of three words each.
        let texts: Vec<String> = (0..count)
            .map(|i| format!("w{} w{} w{}", 3 + i % 87, 3 + (7 * i + i / 87) % 89, 3 + (31 * i) % 83))
            .collect();
        let lines = texts.iter().map(|text| json!({ "text": text }).to_string() + "\n").collect::<String>();
        let plain = files.add("plain.jsonl", lines.as_bytes());
        let out = leyden(&["classify", &folder, "-q", "--json", "--top", "3", "--file", &plain]).ok();
        let mut state = 1_u64;
        let mut unit = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let drawn = |row: &str| {
            let row: Value = serde_json::from_str(row).unwrap();
            let (mut left, mut label) = (unit(), "");
            for one in row["labels"].as_array().unwrap() {
                label = one["label"].as_str().unwrap();
                left -= one["score"].as_f64().unwrap();
                if left < 0.0 {
                    break;
                }
            }
            (row["text"].as_str().unwrap().to_owned(), label.to_owned())
        };
        let rows = out.lines().map(drawn).collect();
        Place { files, folder, rows }
    }

    fn table(&self, name: &str, rows: &[(String, String)]) -> String {
        let lines: String = rows.iter().map(|(text, label)| format!("{text},{label}\n")).collect();
        self.files.add(name, format!("words,gold\n{lines}").as_bytes())
    }

    fn calibrate<'a>(&'a self, data: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let args = ["calibrate", &self.folder, "--data", data, "--column", "words", "--label", "gold", "-q"];
        [&args[..], more].concat()
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_classifier_is_calibrated_and_decides() {
    let place = Place::new(800);
    let (known, new) = place.rows.split_at(400);
    let data = place.table("known.csv", known);
    let file = place.files.path("c.json");
    let more = ["-o", &file, "--json", "--coverage", "0.8,0.9", "--max-error", "0.6", "--resamples", "50"];
    let report = leyden(&place.calibrate(&data, &more)).json();
    assert_eq!((&report["rows"]["tuning"], &report["rows"]["thresholds"]), (&80.into(), &320.into()));
    let temperature = report["temperature"].as_f64().unwrap();
    assert!((0.6..1.6).contains(&temperature), "{report}");
    let promises = report["promises"].as_array().unwrap();
    assert_eq!(promises.len(), 3);
    for (promise, coverage) in promises.iter().zip([0.8, 0.9]) {
        let held_out = &promise["held_out"];
        let found = held_out["coverage"].as_f64().unwrap();
        assert!((found - coverage).abs() < 0.03, "{promise}");
        assert!(held_out["inside"].as_u64().unwrap() >= 40, "{promise}");
        assert!(promise["basis"]["interval"][0].as_f64().unwrap() < coverage, "{promise}");
    }
    // The report as text, and the same data with another score and without a file.
    let text = leyden(&place.calibrate(&data, &["--resamples", "0", "--score", "aps"])).ok();
    for word in ["accuracy", "temperature", "coverage  ", "95 % of such calibrations cover"] {
        assert!(text.contains(word), "{text}");
    }

    // New texts: the right label is in the set about as often as promised.
    let fresh = place.table("new.csv", new);
    let ask =
        ["classify", &place.folder, "--file", &fresh, "--column", "words", "-q", "--calibration", &file];
    let rows = lines(&leyden(&[&ask[..], &["--coverage", "0.9", "--json"]].concat()).ok());
    let has =
        |row: &&Value| row["labels"].as_array().unwrap().iter().any(|label| label["label"] == row["gold"]);
    let hits = rows.iter().filter(has).count();
    assert!(rows.len() == 400 && (330..=390).contains(&hits), "{hits} of {}", rows.len());
    for row in &rows {
        let n = row["labels"].as_array().unwrap().len();
        let wanted = ["abstain", "label", "set", "set"][n];
        assert!(row["answer"] == wanted && row.get("label").is_some() == (n == 1), "{row}");
    }
    let narrow = [&ask[..], &["--coverage", "0.9", "--max-set", "1", "--json"]].concat();
    let narrow = lines(&leyden(&narrow).ok());
    assert!(narrow.iter().all(|row| row["answer"] != "set"));
    let errors = [&ask[..], &["--max-error", "0.6", "--json"]].concat();
    let answered = lines(&leyden(&errors).ok());
    let wrong = answered.iter().filter(|row| row["answer"] == "label" && row["label"] != row["gold"]).count();
    let all = answered.iter().filter(|row| row["answer"] == "label").count();
    assert!(all > 50 && wrong * 10 <= all * 6, "{wrong} of {all}");
    // Plain lines, the statement and the counts; output files have the same rows.
    let one = leyden(&["classify", &place.folder, "w5 w6", "--calibration", &file, "--coverage", "0.9"]);
    assert!(
        one.code == Some(0) && one.err.starts_with("coverage 90 %: the right label is in the set"),
        "{one:?}"
    );
    let table = place.files.path("out.csv");
    leyden(&[&ask[..], &["--coverage", "0.9", "-o", &table]].concat()).ok();
    assert_eq!(fs::read_to_string(&table).unwrap().lines().count(), 401);
    // The other model answers what is left.
    let routed =
        [&ask[..], &["--coverage", "0.9", "--max-set", "1", "--fallback", &place.folder, "--json"]].concat();
    let routed = lines(&leyden(&routed).ok());
    assert!(routed.iter().all(|row| row["answer"] == "label" && row["model"].is_string()));
    let plain = lines(
        &leyden(&["classify", &place.folder, "-q", "--file", &fresh, "--column", "words", "--json"]).ok(),
    );
    for ((row, before), plain) in routed.iter().zip(&narrow).zip(&plain) {
        if before["answer"] == "abstain" {
            assert_eq!((&row["label"], &row["score"]), (&plain["label"], &plain["score"]));
        }
    }
}

#[test]
fn what_a_calibration_is_not_for_is_refused() {
    let place = Place::new(120);
    let data = place.table("known.csv", &place.rows);
    let file = place.files.path("c.json");
    // A class that no row has shares the threshold of the others.
    let two: Vec<(String, String)> = place.rows.iter().filter(|row| row.1 != LABELS[2]).cloned().collect();
    let unseen = place.table("two.csv", &two);
    let text = leyden(&place.calibrate(&unseen, &["--coverage", "0.8", "--resamples", "2"])).ok();
    assert!(text.contains("1 label without a threshold row"), "{text}");
    leyden(&place.calibrate(&data, &["-o", &file, "--resamples", "0"])).ok();

    let few = place.table("few.csv", &place.rows[..49]);
    let wrong = place.files.add("wrong.csv", b"words,gold\nw1,x\n");
    let nothing = place.files.add("nothing.csv", b"words,gold\n");
    for (data, more, code, words) in [
        (&few, vec![], 1, "a calibration needs at least 50 labelled rows, and there are 49"),
        (
            &data,
            vec!["--coverage", "0.999"],
            1,
            "coverage 99.9 % needs at least 1249 labelled rows, and there are 120",
        ),
        (
            &data,
            vec!["--max-error", "0.01"],
            1,
            "max-error 1 % with 95 % confidence needs at least 374 labelled rows",
        ),
        (&data, vec!["--max-error", "0.05"], 1, "no threshold keeps an error rate of at most 5 %"),
        (&data, vec!["--coverage", "1.5"], 2, "coverage: 1.5 is not between 0 and 1"),
        (
            &wrong,
            vec![],
            1,
            "line 2: field `gold`: the model has no label \"x\"; it has `lost card`, `card arrival`",
        ),
        (&nothing, vec![], 1, "no rows in it"),
        (&data, vec!["-o", &data], 2, "this is the input"),
        (&data, vec!["--score", "best"], 2, "known scores: lac, aps, raps"),
    ] {
        let told = leyden(&place.calibrate(data, &more)).failed(code);
        assert!(told.contains(words), "{more:?}: {told}");
    }
    let told = leyden(&["calibrate", &place.folder, "--data", &data]).failed(2);
    assert!(told.contains("no column `text`; name another with --column"), "{told}");

    let ask = |more: &[&str]| {
        leyden(&[&["classify", &place.folder, "w5 w6", "--calibration", &file], more].concat())
    };
    for (more, code, words) in [
        (vec![], 2, "neither --coverage nor --max-error"),
        (
            vec!["--coverage", "0.99"],
            1,
            "coverage 99 % needs at least 124 labelled rows, and the calibration has 120",
        ),
        (vec!["--coverage", "0.9", "--int8"], 1, "a model without --int8, and this is a model with --int8"),
        (
            vec!["--coverage", "0.9", "--truncate"],
            1,
            "this is texts truncated to 128 tokens\nhint: leave out --truncate",
        ),
        (vec!["--coverage", "2"], 2, "coverage: 2 is not between 0 and 1"),
        (vec!["--coverage", "0.9", "--max-error", "0.1"], 2, "cannot be used with"),
        (vec!["--coverage", "0.9", "--labels", "a,b"], 2, "cannot be used with"),
    ] {
        let told = ask(&more).failed(code);
        assert!(told.contains(words), "{more:?}: {told}");
    }
    // Another model, damaged and hostile files.
    let good = fs::read_to_string(&file).unwrap();
    let config = place.files.path("config.json");
    let before = fs::read_to_string(&config).unwrap();
    for (from, to, words) in [
        ("top up", "topup", "labels: the calibration is for 3 labels, number 2 of them `top up`"),
        ("{", "{ ", "model: the calibration is for SHA-256 "),
    ] {
        fs::write(&config, before.replacen(from, to, 1)).unwrap();
        let told = ask(&["--coverage", "0.9"]).failed(1);
        assert!(told.contains(words), "{told}");
    }
    fs::write(&config, &before).unwrap();
    for (text, words) in [
        ("", "no calibration of leyden calibrate"),
        ("{}", "format: not `leyden-calibration`"),
        (&good.replace("\"version\":1", "\"version\":7"), "version: this program reads version 1"),
        (&good[..good.len() / 2], "EOF while parsing"),
        (&good.replacen("\"temperature\":", "\"temperature\":-", 1), "temperature: -"),
        (&"[".repeat(100_000), "no calibration"),
    ] {
        fs::write(&file, text).unwrap();
        let told = ask(&["--coverage", "0.9"]).failed(1);
        assert!(told.contains(words), "{told}");
    }
    // Heads without probabilities of labels.
    for (name, words) in [("bert, rank", ""), ("bert", "the model has no head that gives texts labels")] {
        let files = Files::new();
        let (folder, _) = model(&files, name);
        let told = leyden(&["calibrate", &folder, "--data", &data]);
        assert!(told.code != Some(0) && told.err.contains(words), "{told:?}");
    }
    let regression = before.replacen('{', "{\"problem_type\": \"regression\", ", 1);
    fs::write(&config, regression).unwrap();
    let told = leyden(&place.calibrate(&data, &[])).failed(1);
    assert!(told.contains("a regression"), "{told}");
}

#[test]
fn warnings_name_texts_that_occur_twice() {
    let place = Place::new(60);
    let mut rows = place.rows.clone();
    rows[1] = (rows[0].0.to_uppercase(), rows[1].1.clone());
    let data = place.table("known.csv", &rows);
    let train = place.table("train.csv", &place.rows[50..]);
    let args = [
        "calibrate",
        &place.folder,
        "--data",
        &data,
        "--column",
        "words",
        "--label",
        "gold",
        "--resamples",
        "0",
    ];
    let run = leyden(&[&args[..], &["--coverage", "0.8", "--against", &train]].concat());
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("rows with a text that occurs before: 1"), "{run:?}");
    assert!(run.err.contains("train.csv: 10;"), "{run:?}");
}

/// A model whose texts have any number of labels.
#[test]
fn several_labels_have_thresholds_of_their_own() {
    let place = Place::new(400);
    let config = place.files.path("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replacen('{', "{\"problem_type\": \"multi_label_classification\", ", 1)).unwrap();
    let row = |(i, (text, label)): (usize, &(String, String))| {
        let labels: Vec<&str> = match i % 7 {
            0 => vec![],
            1 => LABELS.to_vec(),
            _ => vec![label],
        };
        json!({ "text": text, "label": labels }).to_string() + "\n"
    };
    let rows: String = place.rows.iter().enumerate().map(row).collect();
    let data = place.files.add("any.jsonl", rows.as_bytes());
    let file = place.files.path("c.json");
    let args =
        ["calibrate", &place.folder, "--data", &data, "-q", "--json", "-o", &file, "--coverage", "0.8"];
    let report = leyden(&[&args[..], &["--resamples", "20"]].concat()).json();
    assert_eq!(report["kind"], "any");
    let coverage = report["promises"][0]["held_out"]["coverage"].as_f64().unwrap();
    assert!((0.76..0.9).contains(&coverage), "{report}");
    let ask = ["classify", &place.folder, "--file", &data, "-q", "--json", "--calibration", &file];
    let found = lines(&leyden(&[&ask[..], &["--coverage", "0.8"]].concat()).ok());
    assert!(found.iter().all(|row| row["answer"] == "set"), "{:?}", found[0]);
    // One label a text is not enough for this head.
    let told = leyden(&[
        "calibrate",
        &place.folder,
        "--data",
        &place.table("t.csv", &place.rows[..60]),
        "--column",
        "words",
    ]);
    assert!(told.code == Some(2) && told.err.contains("no column `label`"), "{told:?}");
}

#[test]
fn the_server_decides_and_asks_the_other_model() {
    let place = Place::new(200);
    let data = place.table("known.csv", &place.rows);
    let file = place.files.path("c.json");
    leyden(&place.calibrate(&data, &["-o", &file, "--resamples", "0"])).ok();
    let large = Files::new();
    let (other, _) = model(&large, "bert, labels");
    let config = format!(
        "[models.small]\nmodel = \"{}\"\ncalibration = \"{file}\"\ncoverage = 0.9\nmax_set = 1\nfallback = \"big\"\n\
         [models.large]\nmodel = \"{other}\"\naliases = [\"big\"]\n",
        place.folder
    );
    let config = place.files.add("models.toml", config.as_bytes());
    let server = Server::start(&["--config", &config, "--memory", "1GiB"]);
    let texts: Vec<&str> = place.rows[..40].iter().map(|row| &row.0[..]).collect();
    let of_server = |more: Value| {
        let mut body = json!({ "model": "small", "input": texts });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask(&server, "/classify", body)
    };
    // The decisions are those of the program.
    let (status, answer) = of_server(json!({ "coverage": 0.9 }));
    assert_eq!(status, 200, "{answer}");
    let lines_of = texts.iter().map(|text| format!("{text}\n")).collect::<String>();
    let plain = place.files.add("plain.txt", lines_of.as_bytes());
    let args = [
        "classify",
        &place.folder,
        "--file",
        &plain,
        "--calibration",
        &file,
        "--coverage",
        "0.9",
        "-q",
        "--json",
    ];
    let rows = lines(&leyden(&args).ok());
    assert_eq!(answer["data"].as_array().unwrap().len(), 40);
    for (item, row) in answer["data"].as_array().unwrap().iter().zip(&rows) {
        let decision = &item["decision"];
        if row["answer"] == "abstain" {
            assert_eq!((&decision["answer"], &decision["model"]), (&"label".into(), &"big".into()), "{item}");
            continue;
        }
        assert_eq!((&decision["answer"], &decision["labels"]), (&row["answer"], &row["labels"]), "{item}");
        assert_eq!(decision["promise"], json!({ "coverage": 0.9, "per_class": false }));
        assert_eq!(item["probs"].as_array().unwrap().len(), 3);
    }
    // By the settings, sets of more than one label go to the other model.
    let (_, answer) = of_server(json!({}));
    let decisions: Vec<&Value> =
        answer["data"].as_array().unwrap().iter().map(|item| &item["decision"]).collect();
    assert!(decisions.iter().all(|d| d["answer"] == "label"), "{answer}");
    let routed = decisions.iter().filter(|d| d["model"] == "big" && d["promise"].is_null()).count();
    assert!(routed > 0 && routed < 40, "{routed}");
    let (_, answer) = of_server(json!({ "fallback": false }));
    let left =
        answer["data"].as_array().unwrap().iter().filter(|i| i["decision"]["answer"] == "abstain").count();
    assert_eq!(left, routed, "{answer}");
    // Fields that cannot be meant.
    for (more, words) in [
        (json!({ "coverage": 0.9, "max_error": 0.1 }), "`coverage` and `max_error` exclude each other"),
        (json!({ "coverage": 0.9999 }), "`coverage`: coverage 99.99 % needs at least 12499 labelled rows"),
        (json!({ "coverage": 1 }), "`coverage`: coverage: 1 is not between 0 and 1"),
        (json!({ "coverage": 2 }), "`coverage` is not between 0 and 1"),
        (json!({ "per_class": true }), "`per_class` is of use with `coverage` alone"),
        (json!({ "coverage": 0.9, "confidence": 0.9 }), "`confidence` is of use with `max_error` alone"),
        (json!({ "max_error": 0.1, "max_set": 2 }), "`max_set` is of use with `coverage` alone"),
        (
            json!({ "coverage": 0.9, "truncate": true }),
            "`truncate`: truncation: the calibration is for texts that are not",
        ),
        (json!({ "model": "large", "coverage": 0.9 }), "`coverage`: the model has no calibration"),
        (json!({ "model": "large", "fallback": true }), "`fallback`: the model has no calibration"),
    ] {
        let (status, answer) = of_server(more);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(status == 400 && message.contains(words), "{status} {message}");
    }
    let body = json!({ "model": "small", "inputs": texts[0], "coverage": 0.9, "fallback": false });
    let (status, answer) = ask(&server, "/predict", body);
    assert!(
        status == 200 && answer["decision"]["answer"].is_string() && answer["scores"].is_array(),
        "{answer}"
    );
    let (_, answer) = ask(&server, "/predict", json!({ "model": "small", "inputs": texts[0] }));
    assert!(answer[0]["label"].is_string(), "without a field the answer has TEI's form: {answer}");
    let body = json!({ "model": "small", "inputs": [["w1", "w2"]], "coverage": 0.9 });
    let (status, answer) = ask(&server, "/predict", body);
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("not about pairs"), "{answer}");
    assert_eq!(server.end().0, Some(0));
    // A calibration of another model is refused at the start or at the load.
    fs::write(place.files.path("extra.json"), b"{").unwrap();
    for (keys, words) in [
        (format!("calibration = \"{}\"", place.files.path("none.json")), "none.json: cannot read"),
        (
            format!("calibration = \"{}\"", place.files.path("extra.json")),
            "no calibration of leyden calibrate",
        ),
        (format!("calibration = \"{file}\"\ncoverage = 0.9999"), "needs at least 12499 labelled rows"),
    ] {
        let text = format!("[models.small]\nmodel = \"{}\"\n{keys}\n", place.folder);
        let config = place.files.add("wrong.toml", text.as_bytes());
        let told = leyden(&["serve", "--config", &config]).failed(1);
        assert!(told.contains(words), "{told}");
    }
}
