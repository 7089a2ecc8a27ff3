//! Matrices of a model, from its configuration alone, under GGUF's names.

use crate::matrix::{EMBEDDING, HEAD, Matrix, Role, is_stored};
use leyden_models::{DeltaNetConfig, LayerConfig, Mamba2Config, ModelConfig, RecurrentConfig, Values};
use leyden_tensor::DType;

/// Returns the matrices of a model with `vocabulary` tokens, all of one type. Norms and biases, which are below a
/// thousandth of the weights, are left out, and so are the heads of classifiers.
pub(crate) fn of_config(c: &ModelConfig, vocabulary: usize, tied: bool, dtype: DType) -> Vec<Matrix> {
    let mut list = List { dtype, all: Vec::new() };
    let table = if tied { Role::Head } else { Role::Lookup };
    list.add(EMBEDDING, None, table, [1, vocabulary, c.embedding_width.unwrap_or(c.width)]);
    if let Some(first) = c.learned_positions {
        list.add("position_embd.weight", None, Role::Lookup, [1, c.context + first, c.width]);
    }
    if let Some(dim) = c.per_layer_input {
        let all = dim * c.layers.len();
        list.add("per_layer_token_embd.weight", None, Role::Lookup, [1, vocabulary, all]);
        list.add("per_layer_model_proj.weight", None, Role::Layer, [1, all, c.width]);
    }
    if c.generates() && !tied {
        list.add(HEAD, None, Role::Head, [1, vocabulary, c.width]);
    }
    for (i, layer) in c.layers.iter().enumerate() {
        mixer(&mut list, c, i, layer);
        feed_forward(&mut list, c.width, i, layer);
        if let Some(dim) = c.per_layer_input {
            list.layer(i, "inp_gate", dim, c.width);
            list.layer(i, "proj", c.width, dim);
        }
    }
    list.all
}

/// Matrices in the order of their addition.
struct List {
    dtype: DType,
    all: Vec<Matrix>,
}

impl List {
    fn add(&mut self, name: &str, layer: Option<usize>, role: Role, [count, rows, columns]: [usize; 3]) {
        let (name, dtype) = (name.to_owned(), self.dtype);
        self.all.push(Matrix { name, layer, role, dtype, count, rows, columns });
    }

    /// Adds the matrix `blk.I.NAME.weight` of a layer.
    fn layer(&mut self, i: usize, name: &str, rows: usize, columns: usize) {
        let name = format!("blk.{i}.{name}.weight");
        let role = if is_stored(&name) { Role::Stored } else { Role::Layer };
        self.add(&name, Some(i), role, [1, rows, columns]);
    }

    fn experts(&mut self, i: usize, name: &str, shape: [usize; 3]) {
        self.add(&format!("blk.{i}.{name}.weight"), Some(i), Role::Experts, shape);
    }
}

/// Adds the matrices of attention, or of the recurrent layer in its place.
fn mixer(list: &mut List, c: &ModelConfig, i: usize, l: &LayerConfig) {
    let width = c.width;
    match l.recurrent {
        Some(RecurrentConfig::ShortConv { .. }) => {
            list.layer(i, "shortconv.in_proj", 3 * width, width);
            list.layer(i, "shortconv.out_proj", width, width);
            return;
        }
        Some(RecurrentConfig::DeltaNet(DeltaNetConfig { heads, key_heads, key_dim, value_dim, .. })) => {
            list.layer(i, "attn_qkv", 2 * key_heads * key_dim + heads * value_dim, width);
            list.layer(i, "attn_gate", heads * value_dim, width);
            list.layer(i, "ssm_ba", 2 * heads, width);
            list.layer(i, "ssm_out", width, heads * value_dim);
            return;
        }
        Some(RecurrentConfig::Mamba2(Mamba2Config { heads, head_dim, state, groups, .. })) => {
            list.layer(i, "ssm_in", 2 * heads * head_dim + 2 * groups * state + heads, width);
            list.layer(i, "ssm_out", width, heads * head_dim);
            return;
        }
        None => {}
    }
    let queries = l.heads * l.head_dim;
    if let Some(latent) = l.latent {
        match latent.query_rank {
            Some(rank) => {
                list.layer(i, "attn_q_a", rank, width);
                list.layer(i, "attn_q_b", queries, rank);
            }
            None => list.layer(i, "attn_q", queries, width),
        }
        list.layer(i, "attn_kv_a_mqa", latent.rank + latent.qk_rope, width);
        list.layer(i, "attn_kv_b", l.heads * (latent.qk_nope + l.value_dim), latent.rank);
    } else {
        list.layer(i, "attn_q", queries * if l.output_gate { 2 } else { 1 }, width);
        if l.kv_of.is_none() {
            list.layer(i, "attn_k", l.kv_heads * l.head_dim, width);
            if l.values != Values::Keys {
                list.layer(i, "attn_v", l.kv_heads * l.value_dim, width);
            }
        }
    }
    list.layer(i, "attn_output", width, l.heads * l.value_dim);
}

/// Adds the matrices of the feed-forward layer, or of the experts.
fn feed_forward(list: &mut List, width: usize, i: usize, l: &LayerConfig) {
    let gated = |list: &mut List, suffix: &str, ffn: usize, gated: bool| {
        if gated {
            list.layer(i, &format!("ffn_gate{suffix}"), ffn, width);
        }
        list.layer(i, &format!("ffn_up{suffix}"), ffn, width);
        list.layer(i, &format!("ffn_down{suffix}"), width, ffn);
    };
    match l.experts {
        Some(experts) => {
            list.layer(i, "ffn_gate_inp", experts.count, width);
            for name in ["ffn_gate_exps", "ffn_up_exps"] {
                list.experts(i, name, [experts.count, l.ffn, width]);
            }
            list.experts(i, "ffn_down_exps", [experts.count, width, l.ffn]);
            if let Some(shared) = experts.shared {
                gated(list, "_shexp", shared.ffn, true);
            }
            if let Some(dense) = l.dense {
                gated(list, "", dense, l.gated);
            }
        }
        None if l.ffn > 0 => gated(list, "", l.ffn, l.gated),
        None => {}
    }
}
