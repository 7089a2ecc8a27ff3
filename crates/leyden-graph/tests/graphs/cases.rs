//! A model with inputs and expected outputs, which are the initialisers of a second model.

use leyden_graph::{Data, Model, Options, Tensor, Value};
use leyden_kernels::Cpu;
use std::collections::BTreeMap;
use std::path::Path;

/// Inputs and outputs of one run, by position.
#[derive(Debug, Default)]
pub(crate) struct Case {
    pub(crate) inputs: Vec<Value>,
    pub(crate) outputs: Vec<Value>,
}

/// Largest differences that a comparison allows: absolute, and relative to the expected value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    pub(crate) absolute: f64,
    pub(crate) relative: f64,
}

/// Reads the constants of a model as a case: a graph without nodes gives its outputs.
pub(crate) fn read(path: &Path) -> Result<Case, String> {
    let constants = leyden_graph::constants(path).map_err(|e| e.to_string())?;
    let map: BTreeMap<&str, &Tensor> = constants.iter().map(|(name, t)| (name.as_str(), t)).collect();
    let value = |name: &str| -> Option<Value> {
        if let Some(len) = map.get(format!("{name}.len").as_str()) {
            let Data::I64(n) = len.data() else { return None };
            let parts =
                (0..n[0]).map(|i| map.get(format!("{name}.{i}").as_str()).map(|t| (*t).clone().into()));
            return parts.collect::<Option<Vec<Value>>>().map(|v| Value::Sequence(v.into()));
        }
        map.get(name).map(|t| (*t).clone().into())
    };
    let all = |prefix: &str| (0..).map_while(|i| value(&format!("{prefix}{i}"))).collect();
    Ok(Case { inputs: all("in"), outputs: all("out") })
}

/// Runs a model on the inputs of a case and compares.
pub(crate) fn check(model: &Model, cpu: &Cpu, case: Case, tolerance: Tolerance) -> Result<(), String> {
    let names = model.inputs().into_iter().map(|input| input.name);
    let inputs = names.zip(case.inputs).collect();
    let outputs = model.run(cpu, inputs).map_err(|e| e.to_string())?;
    for (i, (got, want)) in outputs.iter().zip(&case.outputs).enumerate() {
        compare(got, want, tolerance).map_err(|e| format!("output {i}: {e}"))?;
    }
    Ok(())
}

fn compare(got: &Value, want: &Value, tolerance: Tolerance) -> Result<(), String> {
    match (got, want) {
        (Value::Tensor(got), Value::Tensor(want)) => tensors(got, want, tolerance),
        (Value::Sequence(got), Value::Sequence(want)) if got.len() == want.len() => {
            got.iter().zip(want.iter()).try_for_each(|(g, w)| compare(g, w, tolerance))
        }
        _ => Err(format!("{got:?} where {want:?} should be")),
    }
}

/// Returns numbers as 64-bit floats, or `None` for texts.
pub(crate) fn numbers(x: &Tensor) -> Option<Vec<f64>> {
    Some(match x.data() {
        Data::F32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::F64(v) => v.to_vec(),
        Data::F16(v) => v.iter().map(|v| f64::from(leyden_tensor::quant::f16_to_f32(*v))).collect(),
        Data::BF16(v) => v.iter().map(|v| f64::from(f32::from_bits(u32::from(*v) << 16))).collect(),
        Data::I64(v) => v.iter().map(|v| *v as f64).collect(),
        Data::I32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::I16(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::I8(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U64(v) => v.iter().map(|v| *v as f64).collect(),
        Data::U32(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U16(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::U8(v) | Data::Bool(v) => v.iter().map(|v| f64::from(*v)).collect(),
        Data::Text(_) => return None,
    })
}

fn tensors(got: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if got.shape() != want.shape() {
        return Err(format!("shape {:?} where {:?} should be", got.shape(), want.shape()));
    }
    if got.ty() != want.ty() {
        return Err(format!("type {} where {} should be", got.ty().name(), want.ty().name()));
    }
    if let (Data::Text(got), Data::Text(want)) = (got.data(), want.data()) {
        return if got == want { Ok(()) } else { Err(format!("{got:?} where {want:?} should be")) };
    }
    let (g, w) = (numbers(got).unwrap(), numbers(want).unwrap());
    let exact = !want.ty().is_float();
    for (i, (g, w)) in g.iter().zip(&w).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan();
        let near = !exact && (g - w).abs() <= tolerance.absolute + tolerance.relative * w.abs();
        if !same && !near {
            return Err(format!("element {i} is {g} where {w} should be"));
        }
    }
    Ok(())
}

/// Loads a model for one thread.
pub(crate) fn load(path: &Path, cpu: &Cpu) -> Result<Model, String> {
    Model::load(path, cpu, Options::default()).map_err(|e| e.to_string())
}
