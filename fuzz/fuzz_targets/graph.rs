//! Any bytes as an ONNX graph are refused, or loaded and computed on small inputs, within limits.
#![no_main]

use leyden_graph::{Limits, Model, Options};
use leyden_kernels::{Cpu, Tier};
use std::sync::OnceLock;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    let cpu = CPU.get_or_init(|| Cpu::new(Tier::best(), 1).unwrap());
    let limits = Limits { tensor_bytes: 1 << 22, nodes: 10_000 };
    let options = Options { limits, ..Options::default() };
    let Ok(model) = Model::from_vec(bytes.to_vec(), "fuzz.onnx", cpu, options) else { return };
    let inputs = model.inputs().into_iter().filter_map(|input| {
        let dims = input.shape.clone().unwrap_or_default();
        let shape: Vec<usize> = dims.iter().map(|d| d.parse().unwrap_or(2).min(8)).collect();
        let zeros = leyden_graph::zeros(&shape, input.ty?).ok()?;
        Some((input.name, zeros.into()))
    });
    let _ = model.run(cpu, inputs.collect());
});
