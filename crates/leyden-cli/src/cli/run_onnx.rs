//! `leyden run-onnx`: computes the outputs of an ONNX graph.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use leyden_graph::{Model, NodeTime, Options, Value, read_input, to_json};
use leyden_kernels::Cpu;
use serde_json::{Map, Value as Json, json};

use super::failure::Failure;
use super::text::{Table, printable};

/// Computes the outputs of an ONNX model: vision, recommenders, trees, speech, anything exported from PyTorch,
/// TensorFlow or scikit-learn. Each input is a file: NumPy's .npy, nested lists in .json, or a picture (.png, .jpg), RGB
/// from 0 to 255. `leyden inspect MODEL` shows inputs, outputs and operators.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: an .onnx file
    model: PathBuf,
    /// Input and its file; once for each input
    #[arg(long = "input", short = 'i', value_name = "NAME=FILE")]
    inputs: Vec<String>,
    /// Threads; by default one for each core
    #[arg(long, short = 't', value_name = "N")]
    threads: Option<usize>,
    /// Compute the graph as it is in the file, without changes that make it faster
    #[arg(long)]
    plain: bool,
    /// Seed of operators that make random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the time of each operator to standard error
    #[arg(long)]
    trace: bool,
    /// Print one JSON object: {"outputs": {NAME: {"shape": [...], "data": [...]}}}
    #[arg(long)]
    json: bool,
}

/// Number of values of an output that are printed for people.
const SHOWN: usize = 8;

/// Computes and prints the outputs.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let tier = Cpu::default_tier().map_err(Failure::usage)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.unwrap_or_else(cores);
    if threads == 0 || threads > 1024 {
        return Err(Failure::usage(format!("--threads {threads}: between 1 and 1024 threads are supported")));
    }
    let cpu = Cpu::new(tier, threads).map_err(Failure::new)?;
    let options = Options { seed: args.seed, plain: args.plain, ..Options::default() };
    let model = Model::load(&args.model, &cpu, options).map_err(Failure::new)?;
    let inputs = inputs(args, &model)?;
    let (outputs, times) = if args.trace {
        model.run_traced(&cpu, inputs).map_err(Failure::new)?
    } else {
        (model.run(&cpu, inputs).map_err(Failure::new)?, Vec::new())
    };
    if args.trace {
        print_times(&times)?;
    }
    let names = model.outputs();
    if args.json {
        let all: Map<String, Json> = names.iter().cloned().zip(outputs.iter().map(to_json)).collect();
        serde_json::to_writer(&mut *out, &json!({ "outputs": all }))?;
        writeln!(out)?;
        return Ok(());
    }
    for (name, value) in names.iter().zip(&outputs) {
        writeln!(out, "{}: {}", printable(name, 80), described(value))?;
    }
    Ok(())
}

/// Reads the inputs' files.
fn inputs(args: &Args, model: &Model) -> Result<Vec<(String, Value)>, Failure> {
    let declared = model.inputs();
    let names = || declared.iter().map(|input| input.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    for given in &args.inputs {
        let Some((name, file)) = given.split_once('=') else {
            return Err(Failure::usage(format!("--input {given}: NAME=FILE is expected")));
        };
        let input = declared.iter().find(|input| input.name == name).ok_or_else(|| {
            Failure::usage(format!("--input {given}: the model has no such input"))
                .hint(format!("inputs: {}", names()))
        })?;
        let value = read_input(&PathBuf::from(file), input).map_err(Failure::new)?;
        found.push((name.to_owned(), value));
    }
    if let Some(missing) = declared.iter().find(|input| !found.iter().any(|(name, _)| *name == input.name)) {
        let what = format!("input `{}` is not given", missing.name);
        return Err(Failure::usage(what).hint(format!("add --input NAME=FILE for each of: {}", names())));
    }
    Ok(found)
}

/// Returns type, shape and first values of an output.
fn described(value: &Value) -> String {
    let json = to_json(value);
    let (Some(data), Some(shape)) = (json.get("data").and_then(Json::as_array), json.get("shape")) else {
        return printable(&json.to_string(), 200);
    };
    let first: Vec<String> = data.iter().take(SHOWN).map(|v| printable(&v.to_string(), 40)).collect();
    let more = if data.len() > SHOWN { ", ..." } else { "" };
    let ty = json.get("type").and_then(Json::as_str).unwrap_or_default();
    format!("{ty} {shape}: {}{more}", first.join(", "))
}

/// Prints the time of each kind of operator, and of the slowest nodes.
fn print_times(times: &[NodeTime]) -> Result<(), Failure> {
    let mut kinds: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for node in times {
        let kind = kinds.entry(&node.operator).or_default();
        *kind = (kind.0 + 1, kind.1 + node.time);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    let ms = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let mut table = Table::new(&["operator", "nodes", "ms"], &[1, 2]);
    for (name, (count, time)) in kinds {
        table.add(vec![printable(name, 40), count.to_string(), ms(time)]);
    }
    let mut err = std::io::stderr();
    table.write(&mut err)?;
    let mut slowest: Vec<&NodeTime> = times.iter().collect();
    slowest.sort_by_key(|node| std::cmp::Reverse(node.time));
    writeln!(err)?;
    let mut table = Table::new(&["node", "operator", "inputs", "ms"], &[3]);
    for node in slowest.into_iter().take(10) {
        let shapes = node.shapes.iter().map(|shape| format!("{shape:?}")).collect::<Vec<_>>().join(" ");
        table.add(vec![
            printable(&node.node, 40),
            printable(&node.operator, 30),
            printable(&shapes, 60),
            ms(node.time),
        ]);
    }
    table.write(&mut err)?;
    Ok(())
}
