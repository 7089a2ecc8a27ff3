//! `leyden plan`: what is in its report, and wrong inputs. Predicted rates are tested in leyden-plan.

use serde_json::{Value, json};

use crate::models::server::{Hub, Repository};
use crate::program::{Files, STORYTELLER, command, finish, leyden};

const LLAMA: &str = include_str!("../../../leyden-plan/data/shapes/llama-3.1-8b.json");
const BERT: &str = include_str!("../../../leyden-plan/data/shapes/bert-base.json");

fn config(files: &Files, text: &str) -> String {
    files.add("config.json", text.as_bytes())
}

/// Returns whether a value of the document has three ascending limits.
fn is_interval(value: &Value) -> bool {
    let [low, middle, high] = ["low", "value", "high"].map(|key| value[key].as_f64().unwrap_or(f64::NAN));
    low > 0.0 && low <= middle && middle <= high
}

#[test]
fn a_configuration_is_planned_on_a_machine_of_the_table() {
    let files = Files::new();
    let path = config(&files, LLAMA);
    let on = ["plan", &path, "--type", "Q4_K_M", "--on", "c7g.metal", "--users", "4"];
    let more = ["--ttft", "5", "--user-tps", "2", "--api-price", "0.1,0.4", "--watts", "200", "--json"];
    let document = leyden(&[&on[..], &more].concat()).json();
    for key in
        ["prefill_tps", "decode_tps", "decode_tps_all", "ttft_s", "memory_bytes", "user_tps", "output_tps"]
    {
        assert!(is_interval(&document[key]), "{key}: {}", document[key]);
    }
    assert_eq!(document["costs"]["per_hour"], 2.32);
    assert!(is_interval(&document["costs"]["per_million_output"]));
    assert!(is_interval(&document["costs"]["joules_per_output_token"]));
    assert!(is_interval(&document["costs"]["tco"]["rival"]));
    assert_eq!(document["slo"]["ttft_s"], 5.0);
    assert_eq!((&document["fits"], &document["machine"]["cores"]), (&json!(true), &json!(64)));
    assert_eq!(document["model"]["types"], "Q4_K_M");
    assert_eq!(document["errors"]["decode"]["same_class"], false);
    let text = leyden(&on).ok();
    for part in [
        "8.03 B parameters, Q4_K_M",
        "c7g.metal: 64 cores, NEON with matrix products",
        "KV cache",
        "fits the 128 GiB of memory",
        "decode, t/s per user",
        "Q8_0",
        "$2.3200 an hour",
        "at a utilisation of 50 %",
        "nothing was measured on this kind",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn an_encoder_has_documents() {
    let files = Files::new();
    let path = config(&files, BERT);
    let on =
        ["plan", &path, "--type", "INT8", "--on", "epyc-9334", "--prompt", "128", "--price-per-hour", "1"];
    let document = leyden(&[&on[..], &["--json"]].concat()).json();
    assert!(
        is_interval(&document["documents_per_hour"])
            && is_interval(&document["costs"]["per_million_documents"])
    );
    assert!(document.get("prefill_tps").is_none());
    let text = leyden(&on).ok();
    assert!(text.contains("documents per hour") && text.contains("a million, at a utilisation"), "{text}");
}

#[test]
fn machines_and_types_are_ranked() {
    let files = Files::new();
    let path = config(&files, LLAMA);
    let document = leyden(&["plan", &path, "--compare", "machines", "--json"]).json();
    let machines = document["machines"].as_array().unwrap();
    let missing = document["not_compared"].as_array().unwrap();
    assert!(machines.len() > 5 && !missing.is_empty());
    assert!(missing.iter().all(|m| m["error"].as_str().unwrap().contains("--")), "{missing:?}");
    let two = leyden(&["plan", &path, "--compare", "c7g.metal,c7i.4xlarge"]).ok();
    assert!(two.contains("c7i.4xlarge") && two.contains("$/M out"), "{two}");
    let types = ["plan", &path, "--on", "c7g.metal", "--compare", "types", "--json"];
    let rows = leyden(&types).json()["types"].as_array().unwrap().clone();
    let names: Vec<&str> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16"]);
    let bytes = |i: usize| rows[i]["memory_bytes"].as_u64().unwrap();
    assert!((1..5).all(|i| bytes(i) > bytes(i - 1)));
    let table = leyden(&["plan", "--machines"]).ok();
    assert!(table.contains("epyc-9334") && table.contains("https://"), "{table}");
}

/// This machine is measured; the program's own model is small enough for a check.
#[test]
fn this_machine_is_measured_and_checked() {
    let stated = ["--bandwidth", "20", "--cores", "1", "--prompt", "32", "--output", "16"];
    let document = leyden(&[&["plan", STORYTELLER, "--json"], &stated[..]].concat()).json();
    assert_eq!(document["machine"]["read_bytes"]["value"], 20e9);
    assert!(document["machine"]["peaks"]["int8"].as_f64().unwrap() > 1e8);
    assert_eq!(document["machine"]["measured"], true);
    let checked = leyden(&[&["plan", STORYTELLER, "--check", "--json"], &stated[..]].concat());
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let document: Value = serde_json::from_str(&checked.out).unwrap();
    let tests: Vec<&str> =
        document["check"].as_array().unwrap().iter().map(|t| t["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["pp32", "tg32"]);
    assert!(is_interval(&document["check"][0]["measured"]));
}

#[test]
fn of_a_model_on_the_hub_the_header_alone_is_fetched() {
    let model = std::fs::read(STORYTELLER).unwrap();
    let hub = Hub::start(&Repository::new(&[("Tiny-Q4_K_M.gguf", &model)]));
    let (files, url) = (Files::new(), hub.api.url());
    let home = files.folder();
    let run = |more: &[&str]| {
        let args = [&["plan", "hf:org/repo", "--on", "c7g.metal", "--prompt", "16", "--output", "16"], more]
            .concat();
        let mut command = command(&args);
        finish(command.env("HF_ENDPOINT", &url).env("LEYDEN_MODELS", home), b"")
    };
    let document = run(&["--json"]).json();
    assert_eq!(document["model"]["file"], "hf:org/repo");
    let parameters = leyden(&["inspect", STORYTELLER, "--json"]).json()["parameters"].clone();
    assert_eq!(document["model"]["parameters"], parameters);
    let error = run(&["--offline"]).failed(1);
    assert!(error.contains("hf:org/repo"), "{error}");
}

#[test]
fn wrong_inputs_are_named() {
    let files = Files::new();
    let path = config(&files, LLAMA);
    let of = |args: &[&str], code: i32| leyden(&[&["plan"], args].concat()).failed(code);
    let on = |more: &[&str]| of(&[&[path.as_str(), "--on", "c7g.metal"], more].concat(), 2);
    assert!(of(&["/no/such.gguf"], 1).contains("/no/such.gguf: cannot open"));
    assert!(of(&["/no/config.json"], 1).contains("/no/config.json: cannot read"));
    assert!(of(&[], 2).contains("MODEL"));
    assert!(of(&[&path, "--on", "pdp-11"], 2).contains("no machine of the table has this name"));
    assert!(of(&[&path, "--on", "oci-a2-16"], 2).contains("--bandwidth states it"));
    for (option, value, part) in [
        ("--context", "0", "takes 1 to"),
        ("--users", "0", "takes 1 to"),
        ("--users", "-1", "unexpected argument"),
        ("--prompt", "0", "takes 1 to"),
        ("--output", "0", "takes 1 to"),
        ("--prompt", "200000", "was made for at most"),
        ("--context", "100", "prompt and answer have 768 tokens"),
        ("--context", "1000000", "was made for at most 131072 tokens"),
        ("--price-per-hour", "x", "a price of 0 or more"),
        ("--price-per-hour=-1", "", "a price of 0 or more"),
        ("--utilisation", "0", "a share above 0"),
        ("--utilisation", "1.1", "a share above 0"),
        ("--ttft", "NaN", "a number above 0"),
        ("--cores", "0", "takes 1 to 4096 cores"),
        ("--type", "Q9", "no such type"),
        ("--api-price", "1", "two prices"),
        ("--gpu-tps", "5", "--gpu-price-per-hour"),
        ("--compare", "pdp-11", "no machine of the table"),
        ("--check", "", "--on"),
    ] {
        let args: Vec<&str> = [option, value].into_iter().filter(|arg| !arg.is_empty()).collect();
        let error = on(&args);
        assert!(error.contains(part), "{option} {value}: {error}");
    }
    for text in ["", "{", "[]", "{}", "{\"model_type\": \"warp\"}", "{\"model_type\": \"llama\"}"] {
        let error = of(&[&config(&files, text), "--on", "c7g.metal"], 1);
        assert!(error.contains("config.json"), "{text}: {error}");
    }
}
