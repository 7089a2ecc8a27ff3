//! Recorded measurements: the results under `bench/results`, and the machines that they were measured on.

use crate::error::Error;
use crate::interval::{Band, Interval};
use crate::kernels::KernelClass;
use crate::machine::{Machine, Peaks};
use crate::model::ModelFacts;
use leyden_compress::Target;
use leyden_tensor::{DType, Json};
use serde::Deserialize;

/// Folder and newest results of every machine under `bench/results`.
pub(crate) const RESULTS: [(&str, &str); 7] = [
    ("xeon-amx-16", include_str!("../../../bench/results/xeon-amx-16/2026-11-26.json")),
    ("xeon-amx-2", include_str!("../../../bench/results/xeon-amx-2/2026-11-26.json")),
    ("xeon-amx-shapes", include_str!("../../../bench/results/xeon-amx-shapes/2026-11-27.json")),
    ("xeon-avx512-2", include_str!("../../../bench/results/xeon-avx512-2/2026-11-23.json")),
    ("zen3-2", include_str!("../../../bench/results/zen3-2/2026-11-26.json")),
    ("zen4-2", include_str!("../../../bench/results/zen4-2/2026-11-25.json")),
    ("zen5-2", include_str!("../../../bench/results/zen5-2/2026-11-24.json")),
];

/// Results of encoders, and the folder of the machine.
const ENCODERS: (&str, &str) = ("zen5-2", include_str!("../../../bench/encoders/zen5-2-2026-11-28.json"));

const MACHINES: &str = include_str!("../data/recorded_machines.tsv");
const NAME: &str = "data/recorded_machines.tsv";

/// Name of a model in the results, and its `config.json`.
const SHAPES: [(&str, &str); 8] = [
    ("1B", include_str!("../data/shapes/llama-3.2-1b.json")),
    ("8B", include_str!("../data/shapes/llama-3.1-8b.json")),
    ("Gemma 3 1B", include_str!("../data/shapes/gemma-3-1b.json")),
    ("Gemma 3 4B", include_str!("../data/shapes/gemma-3-4b.json")),
    ("Phi-4-mini", include_str!("../data/shapes/phi-4-mini.json")),
    ("gpt-oss-20b", include_str!("../data/shapes/gpt-oss-20b.json")),
    ("minilm", include_str!("../data/shapes/minilm.json")),
    ("bert-base", include_str!("../data/shapes/bert-base.json")),
];

/// Results of one machine.
#[derive(Debug, Deserialize)]
struct Results {
    tests: Vec<Test>,
}

/// Measured rate of a model.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Test {
    pub(crate) model: String,
    #[serde(rename = "type")]
    pub(crate) types: String,
    pub(crate) test: String,
    pub(crate) leyden_ts: f64,
    pub(crate) share: Option<f64>,
    pub(crate) share_of: Option<String>,
}

#[derive(Debug, Deserialize)]
struct EncoderResults {
    runs: Vec<EncoderRun>,
    floats: Vec<EncoderRun>,
}

#[derive(Debug, Deserialize)]
struct EncoderRun {
    shape: String,
    threads: usize,
    load: String,
    median: serde_json::Map<String, serde_json::Value>,
}

/// Measured documents per second of an encoder.
#[derive(Clone, Debug)]
pub(crate) struct EncoderTest {
    pub(crate) model: String,
    pub(crate) types: &'static str,
    pub(crate) threads: usize,
    pub(crate) sequences: usize,
    pub(crate) tokens: usize,
    pub(crate) per_second: f64,
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::Table { table: NAME, what: what.to_string() }
}

/// Returns the tests of a machine.
pub(crate) fn tests(json: &str) -> Result<Vec<Test>, Error> {
    let results: Results = serde_json::from_str(json).map_err(wrong)?;
    Ok(results.tests)
}

/// Returns the folder of the machine, and the tests of encoders on it with texts of one length.
pub(crate) fn encoder_tests() -> Result<(&'static str, Vec<EncoderTest>), Error> {
    let results: EncoderResults = serde_json::from_str(ENCODERS.1).map_err(wrong)?;
    let mut tests = Vec::new();
    for run in results.runs.iter().chain(&results.floats) {
        let Some((sequences, tokens)) = run.load.split_once(" x ") else { continue };
        let numbers = sequences.parse().ok().zip(tokens.parse().ok());
        let (sequences, tokens) = numbers.ok_or_else(|| wrong(format!("load `{}`", run.load)))?;
        for (key, types) in [("leyden int8", "INT8"), ("leyden f32", "F32")] {
            let Some(per_second) = run.median.get(key).and_then(serde_json::Value::as_f64) else { continue };
            let (model, threads) = (run.shape.clone(), run.threads);
            tests.push(EncoderTest { model, types, threads, sequences, tokens, per_second });
        }
    }
    Ok((ENCODERS.0, tests))
}

/// Returns the machine of a folder of results, with `cores` of its cores.
pub(crate) fn machine(folder: &str, cores: Option<usize>) -> Result<Machine, Error> {
    let line = MACHINES.lines().find(|line| line.split('\t').next() == Some(folder));
    let line = line.ok_or_else(|| wrong(format!("no row of {folder}")))?;
    let cells: Vec<&str> = line.split('\t').collect();
    let &[_, class, ref numbers @ .., _] = &cells[..] else { return Err(wrong(format!("{folder}: cells"))) };
    let class = KernelClass::from_name(class).ok_or_else(|| wrong(format!("{folder}: class `{class}`")))?;
    let numbers: Vec<f64> = numbers.iter().map(|n| n.parse()).collect::<Result<_, _>>().map_err(wrong)?;
    let &[all, read, int8, f32, bf16] = &numbers[..] else { return Err(wrong(format!("{folder}: numbers"))) };
    let used = cores.map_or(all, |n| n as f64);
    let part = |peak: f64| peak * 1e9 * used / all;
    Ok(Machine {
        name: folder.to_owned(),
        class,
        cores: used as usize,
        read_bytes: Interval::exact(part(read)),
        peaks: Peaks { int8: part(int8), f32: part(f32), bf16: part(bf16) },
        products: Band::EXACT,
        measured: true,
        memory_bytes: None,
        cache_bytes: 0,
        price_per_hour: None,
        watts: None,
    })
}

/// Returns the model of this name in the results, with types of this name.
pub(crate) fn model(name: &str, types: &str) -> Result<ModelFacts, Error> {
    let found = SHAPES.iter().find(|shape| shape.0 == name);
    let (_, text) = found.ok_or_else(|| wrong(format!("no shape of {name}")))?;
    let json = Json::parse(text.as_bytes(), name)?;
    let target = Target::from_name(types).ok_or_else(|| wrong(format!("types `{types}`")))?;
    Ok(ModelFacts::of_json(&json, DType::F16)?.with_types(target))
}
