//! `leyden inspect`: what is in a model file.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use leyden_tensor::{Gguf, Metadata, TensorInfo, Value as Entry, WeightSource};
use leyden_text::Tokenizer;
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;
use super::model_file;
use super::text::{Facts, Table, bytes, count, plural, printable};

/// Prints shape, types, tokenizer and metadata of a GGUF file without loading it; a file with a vocabulary and no
/// weights is as good as a model.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model file
    model: PathBuf,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
    /// Print the chat template alone, as it stands in the file
    #[arg(long, conflicts_with_all = ["tensors", "json"])]
    template: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arrays up to this length are shown whole; vocabularies run to hundreds of thousands.
const SHORT_ARRAY: usize = 16;

const TEMPLATE: &str = "tokenizer.chat_template";

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    bytes: u64,
    format: Format,
    architecture: Option<String>,
    name: Option<String>,
    /// Elements of all tensors.
    parameters: u64,
    tensor_bytes: u64,
    /// Bits of file per parameter, over all tensors.
    bits_per_parameter: Option<f64>,
    context_length: Option<u32>,
    types: Vec<TypeShare>,
    /// The keys under the architecture's name, without it.
    hyperparameters: Map<String, Value>,
    tokenizer: Option<TokenizerReport>,
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<TensorInfo>>,
    /// What in the file is wrong or beyond this program.
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Format {
    name: &'static str,
    version: u32,
}

/// What one tensor type contributes.
#[derive(Debug, Serialize)]
struct TypeShare {
    #[serde(rename = "type")]
    name: &'static str,
    supported: bool,
    tensors: usize,
    parameters: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct TokenizerReport {
    model: String,
    pre_tokenizer: Option<String>,
    vocabulary: usize,
    /// Whether this program can tokenise with it.
    supported: bool,
    bos: Option<Token>,
    eos: Option<Token>,
    /// Whether texts get it; where the tokenizer is not supported, what the file says.
    add_bos: Option<bool>,
    add_eos: Option<bool>,
    chat_template_bytes: Option<usize>,
}

#[derive(Debug, Serialize)]
struct Token {
    id: u32,
    text: String,
}

/// Prints the report, or the chat template.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let file = model_file::open(&args.model)?;
    if args.template {
        let template = file.metadata().opt_str(TEMPLATE)?;
        let template = template.ok_or_else(|| {
            let path = args.model.display();
            Failure::new(format!("{path}: {TEMPLATE}: the file has no chat template"))
        })?;
        writeln!(out, "{}", template.trim_end_matches('\n'))?;
        return model_file::still_whole(&file);
    }
    let length = std::fs::metadata(&args.model).map_or(0, |metadata| metadata.len());
    let report = report(args, &file, length);
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        write_human(&report, out)?;
    }
    model_file::still_whole(&file)
}

fn report(args: &Args, file: &Gguf, length: u64) -> Report {
    let metadata = file.metadata();
    let mut problems = Vec::new();
    let mut note = |error: leyden_tensor::Error| problems.push(error.to_string());
    let architecture = metadata.opt_str("general.architecture").unwrap_or_else(|error| {
        note(error);
        None
    });
    let name = metadata.opt_str("general.name").unwrap_or_else(|error| {
        note(error);
        None
    });
    let prefix = architecture.map(|name| format!("{name}."));
    let hyperparameters = metadata
        .iter()
        .filter_map(|(key, entry)| Some((key.strip_prefix(prefix.as_deref()?)?.to_owned(), json(entry))))
        .collect();
    let context_length = prefix.as_ref().and_then(|prefix| {
        metadata.opt_u32(&format!("{prefix}context_length")).unwrap_or_else(|error| {
            note(error);
            None
        })
    });
    let types = types(file.tensor_info());
    for share in types.iter().filter(|share| !share.supported) {
        problems.push(format!(
            "{} of type {}, which leyden does not compute with yet",
            plural(share.tensors, "tensor"),
            share.name
        ));
    }
    // A vocabulary needs no architecture.
    if !types.is_empty()
        && let Err(error) = leyden_models::config_of(file)
    {
        problems.push(error.to_string());
    }
    let parameters = types.iter().fold(0u64, |sum, share| sum.saturating_add(share.parameters));
    let tensor_bytes = types.iter().fold(0u64, |sum, share| sum.saturating_add(share.bytes));
    let tokenizer = tokenizer(metadata, &args.model.display().to_string(), &mut problems);
    Report {
        file: args.model.display().to_string(),
        bytes: length,
        format: Format { name: "GGUF", version: file.version() },
        architecture: architecture.map(str::to_owned),
        name: name.map(str::to_owned),
        parameters,
        tensor_bytes,
        bits_per_parameter: (parameters > 0).then(|| tensor_bytes as f64 * 8.0 / parameters as f64),
        context_length,
        types,
        hyperparameters,
        tokenizer,
        metadata: metadata.iter().map(|(key, entry)| (key.to_owned(), json(entry))).collect(),
        tensors: args.tensors.then(|| file.tensor_info().to_vec()),
        problems,
    }
}

/// The share of each type, the largest first.
fn types(tensors: &[TensorInfo]) -> Vec<TypeShare> {
    let mut shares: BTreeMap<u32, TypeShare> = BTreeMap::new();
    for tensor in tensors {
        let share = shares.entry(tensor.type_id).or_insert(TypeShare {
            name: tensor.type_name,
            supported: tensor.dtype.is_some(),
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

/// Reads what the metadata says of the tokenizer, and tries whether it can be built.
fn tokenizer(metadata: &Metadata, file: &str, problems: &mut Vec<String>) -> Option<TokenizerReport> {
    let model = match metadata.opt_str("tokenizer.ggml.model") {
        Ok(model) => model?.to_owned(),
        Err(error) => {
            problems.push(error.to_string());
            return None;
        }
    };
    let built = leyden_text::from_gguf(metadata, file).map_err(|error| problems.push(error.to_string())).ok();
    // A value of the wrong type was reported above, or matters to nobody.
    let tokens = metadata.opt_array_str("tokenizer.ggml.tokens").ok().flatten();
    let token = |key: &str| {
        let id = metadata.opt_u32(key).ok().flatten()?;
        let text =
            tokens.as_ref().and_then(|tokens| tokens.get(usize::try_from(id).ok()?)).unwrap_or_default();
        Some(Token { id, text: String::from_utf8_lossy(text).into_owned() })
    };
    // The tokenizer knows the rule that holds where the file is silent.
    let rule = |ask: fn(&dyn Tokenizer) -> bool, key: &str| match &built {
        Some(tokenizer) => Some(ask(tokenizer.as_ref())),
        None => metadata.opt_bool(key).ok().flatten(),
    };
    Some(TokenizerReport {
        model,
        pre_tokenizer: metadata.opt_str("tokenizer.ggml.pre").ok().flatten().map(str::to_owned),
        vocabulary: tokens.as_ref().map_or(0, |tokens| tokens.len()),
        supported: built.is_some(),
        bos: token("tokenizer.ggml.bos_token_id"),
        eos: token("tokenizer.ggml.eos_token_id"),
        add_bos: rule(|tokenizer| tokenizer.add_bos(), "tokenizer.ggml.add_bos_token"),
        add_eos: rule(|tokenizer| tokenizer.add_eos(), "tokenizer.ggml.add_eos_token"),
        chat_template_bytes: metadata.opt_str(TEMPLATE).ok().flatten().map(str::len),
    })
}

/// A metadata value in JSON. Long arrays become their type and length.
fn json(entry: &Entry) -> Value {
    match entry {
        Entry::Bool(value) => Value::from(*value),
        Entry::String(value) => Value::from(value.as_str()),
        // Through the shortest decimal form, so that 0.00001 does not become 9.999999747378752e-6.
        Entry::F32(value) => value.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        Entry::F64(value) => Value::from(*value),
        Entry::Array(array) if array.len() > SHORT_ARRAY => {
            serde_json::json!({ "array": array.elem_type().to_string(), "length": array.len() })
        }
        Entry::Array(array) => match array.strings() {
            Some(strings) => strings.iter().map(|text| Value::from(String::from_utf8_lossy(text))).collect(),
            None => array.iter().map(|element| json(&element)).collect(),
        },
        integer => integer
            .as_integer()
            .and_then(|n| {
                i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).ok()
            })
            .unwrap_or(Value::Null),
    }
}

/// A JSON value on one line of a terminal.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => printable(text, 100),
        Value::Object(array) => {
            let text = |key: &str| array.get(key).map(|v| v.to_string().replace('"', "")).unwrap_or_default();
            format!("[{} x {}]", text("length"), text("array"))
        }
        Value::Null => "not a number".to_owned(),
        other => printable(&other.to_string(), 100),
    }
}

fn write_human(report: &Report, out: &mut dyn Write) -> Result<(), Failure> {
    let mut facts = Facts::default();
    let unknown = || "not stated".to_owned();
    let stated = |text: &Option<String>| text.as_deref().map_or_else(unknown, |text| printable(text, 100));
    facts.add("file", format!("{}, {}", report.file, bytes(report.bytes)));
    facts.add("format", format!("{} version {}", report.format.name, report.format.version));
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
    for problem in &report.problems {
        writeln!(out, "\nproblem: {}", printable(problem, 400))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::Array;

    #[test]
    fn json_keeps_values() {
        let cases = [
            (Entry::F32(1e-5), "0.00001"),
            (Entry::F32(f32::NAN), "null"),
            (Entry::U64(u64::MAX), "18446744073709551615"),
            (Entry::I8(-3), "-3"),
            (Entry::Array(Array::from_strs(["a", "b"])), r#"["a","b"]"#),
            (Entry::Array(Array::from_strs(["a"; 17])), r#"{"array":"string","length":17}"#),
        ];
        for (entry, wanted) in cases {
            let got = json(&entry);
            let wanted: Value = serde_json::from_str(wanted).unwrap();
            assert_eq!(got, wanted, "{entry:?}");
        }
        assert_eq!(shown(&json(&Entry::Array(Array::from_strs(["a"; 17])))), "[17 x string]");
    }
}
