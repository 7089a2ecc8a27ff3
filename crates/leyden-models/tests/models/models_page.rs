//! `docs/models.md`: supported architectures, their checks, and models to pull, generated from the registry of
//! architectures, the goldens and the table of short names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use leyden_models::ARCHITECTURES;
use leyden_tensor::Json;
use serde_json::Value;

/// Context length of the memory column in tokens, and the maximum further memory of a cache block, workspace and
/// program.
const CONTEXT: u64 = 4096;
const BESIDES: u64 = 256 << 20;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the rows of the hub's table: names, repository and file, megabytes, architecture, sizes of keys in the cache
/// or the command.
fn short_names() -> Vec<[String; 5]> {
    let table = fs::read_to_string(repository("crates/leyden-hub/src/short_names.txt")).unwrap();
    let row = |line: &str| {
        let mut cells = line.split_whitespace().map(str::to_owned);
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    };
    table.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// Architectures by the kind of their check.
#[derive(Default)]
struct Checked {
    /// Architectures and types of folders compared with transformers.
    folders: BTreeSet<(String, String)>,
    /// Architectures compared with a description, for those that transformers lacks.
    described: BTreeSet<String>,
    /// Architectures whose GGUF files are compared with llama.cpp.
    files: BTreeSet<String>,
    /// Architectures whose published weights are compared.
    published: BTreeSet<String>,
}

fn checked() -> Checked {
    let mut checked = Checked::default();
    let goldens = repository("crates/leyden-engine/tests/golden");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(goldens.join("decoders")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.extend(["hf_logits.json", "gemma3.json", "encoders.json"].map(|name| goldens.join(name)));
    for path in paths {
        for model in json(&path)["models"].as_array().unwrap() {
            let json = Json::parse(model["config"].to_string().as_bytes(), "config.json").unwrap();
            let architecture = leyden_models::config_of_json(&json).unwrap().architecture.to_owned();
            if model.get("described").is_some() {
                checked.described.insert(architecture.clone());
            }
            let kind = model["config"]["model_type"].as_str().unwrap().to_owned();
            checked.folders.insert((architecture, kind));
            if let Some(kind) = model["gguf"]["meta"]["general.architecture"][1].as_str() {
                checked.files.insert(kind.to_owned());
            }
        }
    }
    for model in json(&goldens.join("encoder_gguf.json"))["models"].as_array().unwrap() {
        checked.files.insert(model["meta"]["general.architecture"][1].as_str().unwrap().to_owned());
    }
    for model in json(&goldens.join("architectures.json"))["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap().split(' ').next().unwrap();
        checked.files.insert(name.to_owned());
    }
    for model in json(&goldens.join("real_weights.json"))["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let of_name = |row: &&[String; 5]| row[0].starts_with(name);
        let architecture = short_names().iter().find(of_name).unwrap()[3].clone();
        checked.files.insert(architecture.clone());
        checked.published.insert(architecture);
    }
    checked
}

fn gigabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000_000);
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

fn page() -> String {
    let checked = checked();
    let mut page = "<!-- Written by a test of leyden-models, which says how. Do not edit. -->\n# Models\n\n\
        GGUF files of these architectures run (`general.architecture`), and folders from the hub with `config.json` and \
        weights of these types (`model_type`). Anything else is refused by name before weights are read, and so is an \
        option that would change the result and is not computed.\n\n\
        Checked against *transformers*: logits, or an encoder's states and scores, of tiny folders in several configurations, within \
        1e-4, for all chunk sizes and with other sequences in the batch. Against *llama.cpp*: logits and greedy tokens of GGUF files, \
        or an encoder's states. \
        *Published weights*: greedy text and perplexity of a published file, within 0.5 % of llama.cpp's.\n\n\
        | GGUF | folders | models | checked against |\n|---|---|---|---|\n"
        .to_owned();
    for architecture in ARCHITECTURES {
        let mut types: Vec<&str> = architecture.model_types().collect();
        types.dedup();
        let mut against = Vec::new();
        let compared =
            |kind: &str| checked.folders.contains(&(architecture.name.to_owned(), kind.to_owned()));
        if checked.described.contains(architecture.name) {
            against.push("its description in PyTorch");
        } else if types.iter().any(|kind| compared(kind)) {
            against.push("transformers");
        }
        if checked.files.contains(architecture.name) {
            against.push("llama.cpp");
        }
        if checked.published.contains(architecture.name) {
            against.push("published weights");
        }
        if against.is_empty() {
            against.push("nothing yet");
        }
        let named = |kind: &&str| match compared(kind) {
            true => format!("`{kind}`"),
            false => format!("`{kind}` (not compared)"),
        };
        let types = match types[..] {
            [] => "-".to_owned(),
            _ => types.iter().map(named).collect::<Vec<_>>().join(", "),
        };
        let (name, models, against) = (architecture.name, architecture.models, against.join(", "));
        writeln!(page, "| `{name}` | {types} | {models} | {against} |").unwrap();
    }
    page.push_str(
        "\n## Models with short names\n\n`leyden run NAME` pulls and runs them, and of encoders the command that stands in their row; `leyden models WORD` lists those \
         that have the word. Any other repository is `hf:ORG/REPO`. Sizes are \
         those of the file, rounded. Memory is for one conversation of 4,096 tokens with keys and values in F16; layers with a \
         window take less.\n\n| name | other names | for | repository and file | architecture | size | memory |\n|---|---|---|---|---|---|---|\n",
    );
    for [names, reference, megabytes, architecture, keys] in short_names() {
        let bytes = megabytes.parse::<u64>().unwrap() * 1_000_000;
        let supported = ARCHITECTURES.iter().any(|a| a.name == architecture);
        // A key and a value in two bytes each.
        let each = keys.split('x').map(|n| n.parse::<u64>().ok()).product::<Option<u64>>().map(|n| 4 * n);
        let memory = match each {
            _ if !supported => "not supported yet".to_owned(),
            Some(each) => gigabytes(bytes + each * CONTEXT + BESIDES),
            None => "-".to_owned(),
        };
        let (name, others) = names.split_once(',').unwrap_or((&names, ""));
        let others: Vec<String> =
            others.split(',').filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect();
        let others = if others.is_empty() { "-".to_owned() } else { others.join(", ") };
        let command = if keys.starts_with(|c: char| c.is_ascii_lowercase()) { &keys } else { "run" };
        let size = gigabytes(bytes);
        writeln!(
            page,
            "| `{name}` | {others} | {command} | `hf:{reference}` | `{architecture}` | {size} | {memory} |"
        )
        .unwrap();
    }
    page
}

#[test]
fn the_page_of_models_is_up_to_date() {
    let found = fs::read_to_string(repository("docs/models.md")).unwrap_or_default();
    let how = "cargo test --release -p leyden-models --test models -- --ignored write_the_page_of_models";
    assert!(found == page(), "docs/models.md is not up to date; write it: {how}");
}

#[test]
#[ignore = "writes docs/models.md: cargo test --release -p leyden-models --test models -- --ignored write_the_page_of_models"]
fn write_the_page_of_models() {
    fs::write(repository("docs/models.md"), page()).unwrap();
}
