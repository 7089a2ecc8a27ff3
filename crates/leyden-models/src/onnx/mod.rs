//! [`OnnxTensors`]: weights of an encoder from an ONNX graph.
//!
//! Names in a graph are unreliable: exporters rename, fold, share and quantise matrices. So the graph is traced once on
//! sample texts of which sizes, ids and mask are known ([`eval`]): shapes, positions and masks are folded to constants,
//! and values that depend on weights and text become an expression of an encoder's operations. The expression is
//! matched against the configuration from the output back ([`encoder`]), which identifies the tensor of each weight. A
//! difference is an error that names the node, so that no graph is computed as another model.
//!
//! Quantised weights are dequantised: `(q - zero point) * scale`. The rounding of activations in quantised graphs is
//! not reproduced.

mod attention;
mod encoder;
mod eval;
mod known;
mod layout;
mod moves;
mod nums;
mod quantised;
mod tensors;
mod texts;
mod value;
mod weight;

use crate::config::{HeadConfig, ModelConfig, PositionBias};
use crate::error::Error;
use encoder::{Matcher, Probe};
use eval::{Eval, Refused};
use leyden_tensor::{Json, Onnx, OnnxDim, OnnxValue, WeightSource};
use nums::Nums;
use std::collections::HashMap;
use value::Value;
use weight::Weight;

pub(crate) use tensors::OnnxTensors;

/// Names of an encoder's inputs.
const IDS: &str = "input_ids";
const MASK: &str = "attention_mask";
const TYPES: &str = "token_type_ids";
const POSITIONS: &str = "position_ids";

/// Candidates for the number of texts to trace. The first is used that is no layer's number of heads or head dimension,
/// so that a graph with exchanged axes does not match.
const TEXTS: [usize; 3] = [3, 2, 5];
/// Candidates for the number of tokens of a text.
const TOKENS: [usize; 3] = [7, 11, 13];
/// Number of tokens for models with bucketed distances, enough for every bucket.
const TOKENS_FOR_BUCKETS: usize = 140;
/// Maximum number of tokens of a graph with a fixed text length.
const MAX_TOKENS: usize = 4096;

/// Returns the weights of a graph that computes the encoder of `config`, by their names in GGUF.
fn recognise(onnx: &Onnx, config: &ModelConfig, json: &Json) -> Result<Vec<(String, Weight)>, Error> {
    let file = onnx.path().display().to_string();
    let invalid = |(at, what): Refused| Error::invalid(&file, &at, what);
    encoder::check(config).map_err(|what| invalid((config.architecture.to_owned(), what)))?;
    let probe = probe(onnx, config, json).map_err(invalid)?;
    let [texts, tokens] = probe.size;
    let first = config.learned_positions.unwrap_or(0);
    let ints = |data: Vec<usize>| Nums::ints(&probe.size, data);
    let inputs = HashMap::from([
        (IDS, ints(probe.ids.clone())),
        (MASK, ints(vec![1; texts * tokens])),
        (TYPES, ints(probe.types.clone())),
        (POSITIONS, ints((0..texts * tokens).map(|i| first + i % tokens).collect())),
    ]);
    let output = output(onnx, config).map_err(invalid)?;
    let mut eval = Eval::new(onnx, inputs);
    let text = match eval.output(output).map_err(invalid)? {
        Value::Text(text) => text,
        _ => return Err(invalid((output.to_owned(), "does not depend on the text".to_owned()))),
    };
    let mut matcher = Matcher { eval: &eval, config, probe: &probe, found: Vec::new(), output };
    matcher.output(&text).map_err(invalid)?;
    Ok(matcher.found)
}

/// Returns sample texts of a size that the graph takes, with ids that are neither padding nor positions.
fn probe(onnx: &Onnx, config: &ModelConfig, json: &Json) -> Result<Probe, Refused> {
    let refused = |at: &str, what: String| Err((at.to_owned(), what));
    let find = |name: &str| onnx.graph().inputs.iter().find(|input| input.name == name);
    let Some(ids) = find(IDS) else {
        return refused(IDS, "there is no such input: the graph is no encoder of texts".to_owned());
    };
    let buckets =
        config.layers.iter().any(|layer| matches!(layer.position_bias, Some(PositionBias::Buckets { .. })));
    let other = |n: &&usize| config.layers.iter().all(|layer| layer.heads != **n && layer.head_dim != **n);
    let first = |of: &[usize; 3]| of.iter().find(other).copied().unwrap_or(of[0]);
    let tokens = if buckets { TOKENS_FOR_BUCKETS } else { first(&TOKENS) };
    let free = [first(&TEXTS), tokens.min(config.context)];
    let mut size = free;
    match ids.shape.as_deref() {
        None => {}
        Some([texts, tokens]) => {
            for (size, dim) in size.iter_mut().zip([texts, tokens]) {
                if let OnnxDim::Size(n) = dim {
                    *size = *n;
                }
            }
        }
        Some(shape) => return refused(IDS, format!("has {} dimensions, not two", shape.len())),
    }
    let [texts, tokens] = size;
    if texts == 0 || tokens == 0 || texts > 64 || tokens > MAX_TOKENS.min(config.context) {
        return refused(IDS, format!("takes {texts} texts of {tokens} tokens, which are not followed"));
    }
    let vocabulary = json.opt_usize("vocab_size").ok().flatten().unwrap_or(0);
    let padding = json.opt_usize("pad_token_id").ok().flatten();
    let rows = vocabulary.clamp(2, 1 << 24);
    let id = |i: usize| {
        let id = rows - 1 - (i % (rows / 2).max(1));
        if Some(id) == padding { rows / 2 - 1 } else { id }
    };
    let kinds = json.opt_usize("type_vocab_size").ok().flatten().unwrap_or(2).clamp(1, 2);
    let types = (0..texts * tokens).map(|i| i % tokens % kinds).collect();
    Ok(Probe { size, ids: (0..texts * tokens).map(id).collect(), types })
}

/// Returns the name of the output with hidden states of all tokens, or with logits of labels.
fn output<'a>(onnx: &'a Onnx, config: &ModelConfig) -> Result<&'a str, Refused> {
    let outputs = &onnx.graph().outputs;
    let names: &[&str] = match config.head {
        HeadConfig::Classifier(_) => &["logits"],
        _ => &["last_hidden_state", "token_embeddings", "hidden_states"],
    };
    let named = names.iter().find_map(|name| outputs.iter().find(|output| output.name == *name));
    let found = named.or(match &outputs[..] {
        [one] => Some(one),
        _ => None,
    });
    found.map(|output| output.name.as_str()).ok_or_else(|| {
        let all: Vec<&str> = outputs.iter().map(|output: &OnnxValue| output.name.as_str()).collect();
        ("outputs".to_owned(), format!("none of {} is {}", all.join(", "), names.join(" or ")))
    })
}
