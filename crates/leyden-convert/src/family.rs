//! [`Family`]: which architectures are converted, and how they differ in the two layouts.

use leyden_tensor::TensorView;

/// Models that have the same tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// `model_type` and the class of a folder that is written.
    pub(crate) model_type: &'static str,
    pub(crate) class: &'static str,
    /// Whether rows of queries and keys lie so in GGUF that those that rotate together are neighbours.
    pub(crate) interleaved: bool,
    /// Keys of `config.json` that say whether there are biases, and a tensor that tells; where there is no key, the class
    /// has them or not.
    pub(crate) biases: &'static [(&'static str, &'static str)],
}

const ATTENTION_BIAS: (&str, &str) = ("attention_bias", "blk.0.attn_q.bias");

static FAMILIES: [Family; 3] = [
    Family {
        architecture: "llama",
        model_type: "llama",
        class: "LlamaForCausalLM",
        interleaved: true,
        biases: &[ATTENTION_BIAS, ("mlp_bias", "blk.0.ffn_up.bias")],
    },
    Family {
        architecture: "qwen2",
        model_type: "qwen2",
        class: "Qwen2ForCausalLM",
        interleaved: false,
        biases: &[],
    },
    Family {
        architecture: "qwen3",
        model_type: "qwen3",
        class: "Qwen3ForCausalLM",
        interleaved: false,
        biases: &[ATTENTION_BIAS],
    },
];

/// The parts of a layer: GGUF's name, the hub's.
pub(crate) const PARTS: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The others.
pub(crate) const ENDS: [(&str, &str); 3] =
    [("token_embd", "model.embed_tokens"), ("output_norm", "model.norm"), ("output", "lm_head")];

impl Family {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Family> {
        FAMILIES.iter().copied()
    }

    pub(crate) fn named(architecture: &str) -> Result<Family, String> {
        Family::all().find(|family| family.architecture == architecture).ok_or_else(|| {
            let known: Vec<&str> = Family::all().map(|family| family.architecture).collect();
            format!(
                "models of the architecture {architecture} are not converted yet; {} are",
                known.join(", ")
            )
        })
    }
}

/// GGUF's names of all tensors that such a model may have, with the hub's.
pub(crate) fn names(layers: usize) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for kind in ["weight", "bias"] {
        all.extend(ENDS.iter().map(|(a, b)| (format!("{a}.{kind}"), format!("{b}.{kind}"))));
        for i in 0..layers {
            let part = |(a, b): &(&str, &str)| {
                (format!("blk.{i}.{a}.{kind}"), format!("model.layers.{i}.{b}.{kind}"))
            };
            all.extend(PARTS.iter().map(part));
        }
    }
    all
}

/// Rows of queries or keys of so many heads in the other order ([`reordered`]), from `bytes`, which are those of `view` in
/// whatever type.
pub(crate) fn heads_reordered(
    view: &TensorView<'_>,
    bytes: &[u8],
    [heads, head]: [usize; 2],
    to_gguf: bool,
) -> Result<Vec<u8>, String> {
    let rows = heads.saturating_mul(head);
    if view.shape().first() != Some(&rows) {
        return Err(format!("{}: not {heads} heads of {head} rows", view.name()));
    }
    Ok(reordered(bytes, rows, head, to_gguf))
}

/// Rows of queries or keys in the other order: of each head's first and second half one row after the other, or back.
fn reordered(bytes: &[u8], rows: usize, head: usize, to_gguf: bool) -> Vec<u8> {
    let row = bytes.len() / rows.max(1);
    let mut out = Vec::with_capacity(bytes.len());
    for first in (0..rows).step_by(head.max(1)) {
        for i in 0..head {
            let from = match to_gguf {
                true => i / 2 + i % 2 * (head / 2),
                false => i % (head / 2) * 2 + i / (head / 2),
            };
            out.extend_from_slice(&bytes[(first + from) * row..][..row]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_in_order_and_back() {
        let rows: Vec<u8> = (0..8).collect();
        let gguf = reordered(&rows, 8, 4, true);
        assert_eq!(gguf, [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(reordered(&gguf, 8, 4, false), rows);
        let wide: Vec<u8> = (0..32).collect();
        assert_eq!(reordered(&reordered(&wide, 16, 8, true), 16, 8, false), wide);
    }
}
