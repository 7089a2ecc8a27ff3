//! Times a graph: `measure MODEL IO.onnx [RUNS] [THREADS]`. IO.onnx has the inputs in0, in1, ... as initialisers, as
//! `tests/data/model_cases.py` writes them. Prints the median of the runs, and the time of each operator.

use leyden_graph::{Model, Options, Value, constants};
use leyden_kernels::Cpu;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, io, rest @ ..] = args.as_slice() else {
        return Err("usage: measure MODEL IO.onnx [RUNS] [THREADS]".into());
    };
    let number = |i: usize, default: usize| rest.get(i).map_or(Ok(default), |text| text.parse());
    let (runs, threads): (usize, usize) = (number(0, 20)?.max(1), number(1, 1)?);
    let cpu = Cpu::new(Cpu::default_tier()?, threads)?;
    let start = Instant::now();
    let model = Model::load(Path::new(model), &cpu, Options::default())?;
    let loaded = start.elapsed();
    let all = constants(Path::new(io))?;
    let find = |i: usize| all.iter().find(|(name, _)| *name == format!("in{i}"));
    let names = model.inputs().into_iter().enumerate();
    let inputs: Vec<(String, Value)> =
        names.filter_map(|(i, input)| Some((input.name, find(i)?.1.clone().into()))).collect();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..runs + 1 {
        let start = Instant::now();
        model.run(&cpu, inputs.clone())?;
        times.push(start.elapsed());
    }
    // The first run allocates.
    times.remove(0);
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let out = &mut std::io::stdout();
    writeln!(
        out,
        "load {:.1} ms, median {:.3} ms, least {:.3} ms",
        ms(loaded),
        ms(times[runs / 2]),
        ms(times[0])
    )?;
    let (_, nodes) = model.run_traced(&cpu, inputs)?;
    let mut kinds: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
    for node in &nodes {
        let kind = kinds.entry(&node.operator).or_default();
        *kind = (kind.0 + 1, kind.1 + node.time);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (_, time))| std::cmp::Reverse(*time));
    for (name, (count, time)) in kinds.into_iter().take(12) {
        writeln!(out, "{name:32} {count:6} {:10.3} ms", ms(time))?;
    }
    Ok(())
}
