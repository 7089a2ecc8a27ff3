//! Checks of an adapter's matrices and their conversion to an [`Adapter`], common to all formats.

use super::adapter::{Adapter, Factors};
use super::targets::{Target, Targets, layer_of};
use crate::error::Error;
use crate::hf_class::HfClass;
use crate::stored::QkvRows;
use leyden_kernels::Cpu;
use leyden_kernels::gemm::PackedWeights;
use leyden_tensor::{DType, TensorView, quant};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Maximum rank of an adapter.
const MAX_RANK: usize = 1024;

/// Matrices A and B of a projection as stored in a file.
pub(super) struct Pair<'a> {
    /// Name of the projection in GGUF, without `.weight`.
    pub(super) target: String,
    /// Matrix A `[rank, k]`.
    pub(super) down: TensorView<'a>,
    /// Matrix B `[rows, rank]`.
    pub(super) up: TensorView<'a>,
    /// Factor of the product: alpha divided by the rank, or by its square root (rsLoRA).
    pub(super) scale: f32,
    /// Class in transformers whose module names the file uses, for a PEFT folder.
    pub(super) class: Option<&'static HfClass>,
    /// True if rows have the order of folders, false for that of GGUF.
    pub(super) of_folder: bool,
}

/// Matrices A and B found so far, by the name of their module.
#[derive(Default)]
pub(super) struct Matrices<'a>(BTreeMap<String, [Option<TensorView<'a>>; 2]>);

impl<'a> Matrices<'a> {
    /// Adds matrix A (0) or B (1) of a module.
    pub(super) fn put(&mut self, module: &str, which: usize, tensor: TensorView<'a>) {
        self.0.entry(module.to_owned()).or_default()[which] = Some(tensor);
    }

    /// Returns both matrices of every module.
    ///
    /// # Errors
    /// There are no matrices, or one of a module is missing.
    pub(super) fn complete(
        self,
        file: &str,
        names: [&str; 2],
    ) -> Result<Vec<(String, [TensorView<'a>; 2])>, Error> {
        if self.0.is_empty() {
            return Err(Error::invalid(file, "", "has no matrices of a LoRA adapter"));
        }
        let both = |(module, found): (String, [Option<TensorView<'a>>; 2])| match found {
            [Some(down), Some(up)] => Ok((module, [down, up])),
            [Some(down), None] => Err(Error::invalid(file, down.name(), format!("{} is missing", names[1]))),
            [None, Some(up)] => Err(Error::invalid(file, up.name(), format!("{} is missing", names[0]))),
            [None, None] => Err(Error::invalid(file, &module, "has no matrices")),
        };
        self.0.into_iter().map(both).collect()
    }
}

/// Checks the matrices of a file against the model, all of them before memory is allocated for any, and packs them.
pub(super) fn pack(
    targets: &Arc<Targets>,
    cpu: &Cpu,
    path: &Path,
    file: &str,
    pairs: &[Pair<'_>],
) -> Result<Adapter, Error> {
    let mut taken: HashMap<&str, &str> = HashMap::new();
    let mut orders = Vec::new();
    for pair in pairs {
        if let Some(other) = taken.insert(&pair.target, pair.down.name()) {
            let what = format!("is for the same projection as {other}");
            return Err(Error::invalid(file, pair.down.name(), what));
        }
        orders.push(check(targets, file, pair)?);
    }
    let mut factors: Vec<Option<Factors>> = targets.list.iter().map(|_| None).collect();
    let mut rank = 0;
    for (pair, order) in pairs.iter().zip(orders) {
        rank = rank.max(pair.down.rows());
        let down = Arc::new(packed(cpu, file, &pair.down, &decoded(file, &pair.down)?, pair.down.rows())?);
        let up = decoded(file, &pair.up)?;
        for (number, target) in targets.named(&pair.target) {
            let rows = rows_of(target, &up, pair.up.cols(), order.as_deref());
            let up = packed(cpu, file, &pair.up, &rows, rows.len() / pair.up.cols())?;
            let factor = Factors { down: Arc::clone(&down), up, scale: pair.scale };
            factors[number] = Some(factor);
        }
    }
    Ok(Adapter { path: path.to_owned(), targets: Arc::clone(targets), factors, rank })
}

/// Checks that a pair fits the model, and returns the order of its rows, see [`row_order`].
fn check(targets: &Targets, file: &str, pair: &Pair<'_>) -> Result<Option<Vec<usize>>, Error> {
    let (down, up) = (&pair.down, &pair.up);
    let Some((_, target)) = targets.named(&pair.target).next() else {
        let what = unsupported(targets, &pair.target);
        return Err(Error::invalid(file, down.name(), what));
    };
    for tensor in [down, up] {
        if tensor.shape().len() != 2 {
            let what = format!("shape {:?} is not that of a matrix", tensor.shape());
            return Err(Error::invalid(file, tensor.name(), what));
        }
    }
    let rank = down.rows();
    if rank == 0 || rank > MAX_RANK {
        let what = format!("rank {rank} is not between 1 and {MAX_RANK}");
        return Err(Error::invalid(file, down.name(), what));
    }
    let wanted = |tensor: &TensorView<'_>, wanted: [usize; 2]| {
        if tensor.shape() == wanted {
            return Ok(());
        }
        let found = tensor.shape();
        let what = format!("shape {found:?} does not match the model's projection, which wants {wanted:?}");
        Err(Error::invalid(file, tensor.name(), what))
    };
    wanted(down, [rank, target.k])?;
    wanted(up, [target.rows, rank])?;
    if !pair.scale.is_finite() {
        return Err(Error::invalid(file, down.name(), "its scale is not a finite number"));
    }
    row_order(targets, pair, target.rows).map_err(|what| Error::invalid(file, down.name(), what))
}

/// Returns the adapter's row for each row of the model's matrix, or `None` if both have the same order. The error says
/// why an adapter of this format cannot be used.
fn row_order(targets: &Targets, pair: &Pair<'_>, rows: usize) -> Result<Option<Vec<usize>>, String> {
    if pair.of_folder == targets.of_folder {
        return Ok(None);
    }
    let (layer, part) = layer_of(&pair.target).unwrap_or_default();
    let class = pair.class.or(targets.classes.first().copied());
    let Some(class) = class else { return Ok(None) };
    let elsewhere = match part {
        "attn_qkv" => class.stored.qkv != QkvRows::Stacked,
        "ffn_up" => class.stored.gate_last,
        _ => false,
    };
    if elsewhere {
        return Err(
            "its rows lie in another order in GGUF files than in the model's folder; use an adapter of the \
                    model's own format"
                .to_owned(),
        );
    }
    let [queries, keys, dim] = targets.heads.get(layer).copied().unwrap_or_default();
    let heads = match part {
        "attn_q" => queries,
        "attn_k" => keys,
        _ => return Ok(None),
    };
    if !class.interleaved || heads * dim != rows {
        return Ok(None);
    }
    // GGUF interleaves the rows of the first and the second half of a head.
    let in_head = |i: usize| match targets.of_folder {
        false => i / 2 + i % 2 * (dim / 2),
        true => i % (dim / 2) * 2 + i / (dim / 2),
    };
    Ok(Some((0..rows).map(|row| row / dim * dim + in_head(row % dim)).collect()))
}

/// Returns the message for a GGUF name that is no projection an adapter can change.
pub(super) fn unsupported(targets: &Targets, name: &str) -> String {
    let part = layer_of(name).map_or(name, |(_, part)| part);
    let architecture = targets.architecture.name;
    match part {
        "token_embd" => "adapters of the embedding are not supported".to_owned(),
        "output" => "adapters of the output head are not supported".to_owned(),
        _ if part.ends_with("_exps") || part.contains("_exps.") => {
            "adapters of a mixture's experts are not supported".to_owned()
        }
        "ffn_gate_inp" | "ffn_gate_inp_shexp" => {
            "adapters of a mixture's router are not supported".to_owned()
        }
        _ if part.ends_with("norm") => "adapters of a norm are not supported".to_owned(),
        _ => format!(
            "this model of architecture `{architecture}` has no projection {name} that an adapter can change"
        ),
    }
}

/// Decodes a matrix to F32, and checks that all values are finite.
fn decoded(file: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, Error> {
    let mut out = vec![0.0; tensor.rows() * tensor.cols()];
    for (i, row) in out.chunks_exact_mut(tensor.cols()).enumerate() {
        quant::decode_row(tensor.dtype(), tensor.row(i), row);
    }
    match out.iter().all(|x| x.is_finite()) {
        true => Ok(out),
        false => Err(Error::invalid(file, tensor.name(), "has values that are not finite numbers")),
    }
}

/// Returns the rows of matrix B that belong to a target, in the model's order.
fn rows_of(target: &Target, up: &[f32], rank: usize, order: Option<&[usize]>) -> Vec<f32> {
    let row = |row: usize| {
        let row = order.map_or(row, |order| order[row]);
        &up[row * rank..(row + 1) * rank]
    };
    target.part.iter().flat_map(|part| part.clone().flat_map(row)).copied().collect()
}

fn packed(
    cpu: &Cpu,
    file: &str,
    tensor: &TensorView<'_>,
    values: &[f32],
    rows: usize,
) -> Result<PackedWeights, Error> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = [rows, values.len() / rows.max(1)];
    let view = TensorView::new(tensor.name(), DType::F32, &shape, &bytes)?;
    PackedWeights::pack(cpu, &view).map_err(|e| Error::resources(file, e))
}
