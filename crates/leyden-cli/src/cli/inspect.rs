//! `leyden inspect`: metadata and tensors of a model file.

mod description;
mod folder;
mod gguf;
mod graph;
mod layouts;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use leyden::ModelFile;
use leyden_tensor::{TensorInfo, WeightSource};
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::growth;
use super::model_file;
use super::terminal;
use super::text::{Facts, Table, bytes, count, plural, printable};
use description::{Format, TokenizerReport};

/// Prints shape, types, tokenizer and metadata of a model without loading it. The model is a GGUF file, which may be a
/// vocabulary without weights, or a folder with config.json and safetensors. Of an ONNX graph (.onnx) it prints inputs,
/// outputs and operators.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model file or folder
    model: PathBuf,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Load the model with floats in 8-bit integers, and list the layouts of its matrices with the times measured to
    /// choose them; for encoders
    #[arg(long)]
    layouts: bool,
    /// Print only the chat template, unchanged
    #[arg(long, conflicts_with_all = ["tensors", "layouts", "json"])]
    template: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    /// True if leyden supports architecture, tokenizer and types of the tensors; `None` for a vocabulary without
    /// weights.
    supported: Option<bool>,
    file: String,
    bytes: u64,
    format: Format,
    architecture: Option<String>,
    name: Option<String>,
    /// Number of elements in all tensors.
    parameters: u64,
    tensor_bytes: u64,
    /// Bytes of the weights in memory; for quantised folders the maximum.
    memory_bytes: u64,
    /// Average bits per parameter in the file.
    bits_per_parameter: Option<f64>,
    context_length: Option<u32>,
    /// Description of the labels, if requests name them.
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<String>,
    types: Vec<TypeShare>,
    /// Keys under the architecture's name, without this prefix; for a folder, the numbers in config.json.
    hyperparameters: Map<String, Value>,
    tokenizer: Option<TokenizerReport>,
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<TensorInfo>>,
    /// Layouts of matrices in 8-bit integers, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    layouts: Option<Vec<layouts::Layout>>,
    /// Unknown keys about the model with a value, which are ignored.
    unknown_keys: Vec<String>,
    /// Errors in the file, and features that are not supported.
    problems: Vec<String>,
}

/// Tensors of one type.
#[derive(Debug, Serialize)]
struct TypeShare {
    #[serde(rename = "type")]
    name: &'static str,
    supported: bool,
    tensors: usize,
    parameters: u64,
    bytes: u64,
}

/// Prints the report, or the chat template.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if graph::is_graph(&args.model) {
        return graph::write(&args.model, args.json, out);
    }
    let path = model_file::locate(&args.model)?;
    let file = ModelFile::open(&path)?;
    if args.template {
        let source = match &file {
            // Only the template is read, so the tokenizer may be unsupported.
            ModelFile::Gguf(file) => file.metadata().opt_str(gguf::TEMPLATE)?.map(str::to_owned),
            ModelFile::Hf(_) => {
                file.chat_template(file.tokenizer()?.as_ref())?.map(|template| template.source().to_owned())
            }
        };
        let source = source.ok_or_else(|| {
            let path = args.model.display();
            Failure::new(format!("{path}: {}: the model has no chat template", gguf::TEMPLATE))
        })?;
        writeln!(out, "{}", source.trim_end_matches('\n'))?;
        return model_file::still_whole(&file);
    }
    let mut report = report(args, &path, &file);
    if args.layouts {
        report.layouts = Some(layouts::layouts(&path)?);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        write_human(&report, out)?;
    }
    model_file::still_whole(&file)
}

fn report(args: &Args, path: &Path, file: &ModelFile) -> Report {
    let source = file.weights();
    let types = types(source.tensor_info(), growth::is_read(file));
    let description = match file {
        ModelFile::Hf(folder) => folder::describe(file, folder),
        ModelFile::Gguf(gguf) => gguf::describe(gguf, &path.display().to_string()),
    };
    let unsupported = types.iter().filter(|share| !share.supported).map(|share| {
        let n = plural(share.tensors, "tensor");
        format!("{n} of type {}, which is not supported", share.name)
    });
    let supported =
        description.supported.map(|supported| supported && types.iter().all(|share| share.supported));
    let problems = description.problems.into_iter().chain(unsupported).collect();
    let length = |path: &&Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    let parameters = types.iter().fold(0u64, |sum, share| sum.saturating_add(share.parameters));
    let tensor_bytes = types.iter().fold(0u64, |sum, share| sum.saturating_add(share.bytes));
    Report {
        supported,
        file: args.model.display().to_string(),
        bytes: source.paths().iter().map(length).fold(0, u64::saturating_add),
        format: description.format,
        architecture: description.architecture,
        name: description.name,
        parameters,
        tensor_bytes,
        memory_bytes: growth::memory_bytes(file),
        bits_per_parameter: (parameters > 0).then(|| tensor_bytes as f64 * 8.0 / parameters as f64),
        context_length: description.context_length,
        labels: description.labels,
        types,
        hyperparameters: description.hyperparameters,
        tokenizer: description.tokenizer,
        metadata: description.metadata,
        tensors: args.tensors.then(|| source.tensor_info().to_vec()),
        layouts: None,
        unknown_keys: unknown_keys(file),
        problems,
    }
}

fn unknown_keys(file: &ModelFile) -> Vec<String> {
    match file {
        ModelFile::Gguf(file) => leyden_models::unknown_keys(file),
        // Files with weights only have no description.
        ModelFile::Hf(folder) => leyden_models::unknown_keys_of_json(folder.config()),
    }
}

/// Returns the share of each type, the largest first.
fn types(tensors: &[TensorInfo], is_read: impl Fn(&TensorInfo) -> bool) -> Vec<TypeShare> {
    let mut shares: BTreeMap<u32, TypeShare> = BTreeMap::new();
    for tensor in tensors {
        let share = shares.entry(tensor.type_id).or_insert(TypeShare {
            name: tensor.type_name,
            supported: is_read(tensor),
            tensors: 0,
            parameters: 0,
            bytes: 0,
        });
        share.tensors += 1;
        share.parameters = share.parameters.saturating_add(elements(tensor));
        share.bytes = share.bytes.saturating_add(tensor.bytes as u64);
    }
    let mut shares: Vec<TypeShare> = shares.into_values().collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

fn elements(tensor: &TensorInfo) -> u64 {
    tensor.shape.iter().fold(1u64, |product, &n| product.saturating_mul(n as u64))
}

/// Formats a JSON value on one line for a terminal.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text, 100),
        Value::Object(object) => match (object.get("length"), object.get("array").and_then(Value::as_str)) {
            (Some(length), Some(array)) => format!("[{length} x {array}]"),
            _ => printable(&value.to_string(), 100),
        },
        Value::Null => "not a number".to_owned(),
        other => printable(&other.to_string(), 100),
    }
}

fn write_human(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    if report.supported == Some(false) {
        let why = report.problems.first().map_or("", |problem| problem);
        writeln!(out, "not supported: {}\n", printable(why, 400))?;
    }
    let mut facts = Facts::default();
    let unknown = || "not stated".to_owned();
    let stated = |text: &Option<String>| text.as_deref().map_or_else(unknown, |text| printable(text, 100));
    facts.add("file", format!("{}, {}", report.file, bytes(report.bytes)));
    let version = report.format.version.map_or_else(String::new, |version| format!(" version {version}"));
    facts.add("format", format!("{}{version}", report.format.name));
    facts.add("name", stated(&report.name));
    facts.add("architecture", stated(&report.architecture));
    match report.bits_per_parameter {
        Some(bits) => {
            let n = report.parameters;
            facts.add("parameters", format!("{} ({n}), {bits:.2} bits each", count(n)));
        }
        None => facts.add("parameters", "none: no tensors in this file"),
    }
    facts.add("context", report.context_length.map_or_else(unknown, |n| format!("{n} tokens")));
    if let Some(labels) = &report.labels {
        facts.add("labels", labels.as_str());
    }
    match &report.tokenizer {
        None => facts.add("tokenizer", "none"),
        Some(tokenizer) => describe_tokenizer(tokenizer, &mut facts),
    }
    facts.write(out)?;

    if !report.types.is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&["type", "tensors", "parameters", "size"], &[1, 2, 3]);
        for share in &report.types {
            let parameters = count(share.parameters);
            table.add(vec![share.name.to_owned(), share.tensors.to_string(), parameters, bytes(share.bytes)]);
        }
        table.write(out)?;
        // Differences below 5 % are not reported.
        if report.memory_bytes > report.tensor_bytes / 20 * 21 {
            writeln!(out, "in memory the weights take up to {}", bytes(report.memory_bytes))?;
        }
    }

    writeln!(out, "\nmetadata, {}", plural(report.metadata.len(), "key"))?;
    let mut facts = Facts::default();
    for (key, value) in &report.metadata {
        facts.add(&format!("  {}", printable(key, 80)), shown(value));
    }
    facts.write(out)?;

    if let Some(tensors) = &report.tensors {
        writeln!(out, "\n{}, shapes with the contiguous dimension last", plural(tensors.len(), "tensor"))?;
        let mut table = Table::new(&["  name", "type", "shape", "size", "offset"], &[3, 4]);
        for tensor in tensors {
            table.add(vec![
                format!("  {}", printable(&tensor.name, 80)),
                tensor.type_name.to_owned(),
                format!("{:?}", tensor.shape),
                bytes(tensor.bytes as u64),
                tensor.offset.to_string(),
            ]);
        }
        table.write(out)?;
    }
    if let Some(layouts) = &report.layouts {
        layouts::write(layouts, out)?;
    }
    if !report.unknown_keys.is_empty() {
        let line = format!("unknown keys, ignored: {}", printable(&report.unknown_keys.join(", "), 400));
        writeln!(out, "\n{}", terminal::folded(&line, terminal::columns_of_output(), 0))?;
    }
    for problem in &report.problems {
        let line = format!("problem: {}", printable(problem, 400));
        writeln!(out, "\n{}", terminal::folded(&line, terminal::columns_of_output(), 0))?;
    }
    Ok(())
}

fn describe_tokenizer(tokenizer: &TokenizerReport, facts: &mut Facts) {
    let mut text = printable(&tokenizer.model, 40);
    if let Some(pre) = &tokenizer.pre_tokenizer {
        text += &format!(" with pre-tokenizer {}", printable(pre, 40));
    }
    text += &format!(", {}", plural(tokenizer.vocabulary, "token"));
    if !tokenizer.supported {
        text += ", not supported";
    }
    facts.add("tokenizer", text);
    for (label, token, added) in
        [("begin", &tokenizer.bos, tokenizer.add_bos), ("end", &tokenizer.eos, tokenizer.add_eos)]
    {
        if let Some(token) = token {
            let rule = match added {
                Some(true) => ", added to every text",
                Some(false) => ", not added to texts",
                None => "",
            };
            facts.add(label, format!("{} {}{rule}", token.id, printable(&token.text, 40)));
        }
    }
    facts.add(
        "chat template",
        match tokenizer.chat_template_bytes {
            Some(n) => format!("{}, shown by --template", bytes(n as u64)),
            None => "none".to_owned(),
        },
    );
}
