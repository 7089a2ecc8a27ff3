//! Small complete models, the originals of damaged files.

use leyden_tensor::{Array, DType, GgufWriter, Value, quant};

/// Model file in parts, each of which can be changed before it is written.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) entries: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
}

#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    /// Creates a tensor of small values; `None` if the type cannot have this shape.
    pub(crate) fn new(name: &str, dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let (cols, rows) = (*shape.last()?, shape[..shape.len() - 1].iter().product::<usize>());
        let row_bytes = dtype.row_bytes(cols)?;
        let mut bytes = vec![0; rows * row_bytes];
        // A norm is one row, and its values are near 1 as in a trained model.
        let base = if shape.len() == 1 { 1.0 } else { 0.0 };
        let mut values = vec![0.0; cols];
        for (r, row) in bytes.chunks_exact_mut(row_bytes).enumerate() {
            for (c, value) in values.iter_mut().enumerate() {
                *value = base + ((r * 31 + c * 17 + name.len()) % 61) as f32 / 200.0 - 0.15;
            }
            quant::encode_row(dtype, &values, row);
        }
        Some(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes })
    }
}

impl Parts {
    /// Returns the bytes of the file; `None` if it cannot be written.
    pub(crate) fn file(&self) -> Option<Vec<u8>> {
        let mut writer = GgufWriter::new();
        for (key, value) in &self.entries {
            writer.set(key, value.clone());
        }
        for t in &self.tensors {
            writer.add_tensor(&t.name, t.dtype, &t.shape, t.bytes.as_slice()).ok()?;
        }
        writer.to_vec().ok()
    }

    /// Replaces or adds a value.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        match self.entries.iter_mut().find(|e| e.0 == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key.to_owned(), value)),
        }
    }

    /// Returns the model with another number of layers, each like the first.
    pub(crate) fn with_layers(mut self, layers: usize) -> Parts {
        let first: Vec<Tensor> =
            self.tensors.iter().filter(|t| t.name.starts_with("blk.0.")).cloned().collect();
        for i in 1..layers {
            self.tensors.extend(
                first
                    .iter()
                    .map(|t| Tensor { name: t.name.replace("blk.0.", &format!("blk.{i}.")), ..t.clone() }),
            );
        }
        self.set("llama.block_count", Value::U32(layers as u32));
        self
    }
}

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}\
                        {% if add_generation_prompt %}assistant:{% endif %}";

/// Returns a llama of one layer. The `wide` one has types with blocks of 256 values, YaRN and an output
/// matrix of its own; the other is as narrow as possible.
pub(crate) fn llama(wide: bool) -> Parts {
    let mut tokens: Vec<String> =
        (b'!'..=b'~').chain(0xa1..=0xac).chain(0xae..=0xff).map(|b| char::from(b).to_string()).collect();
    tokens.extend(('\u{100}'..='\u{143}').map(String::from));
    tokens.extend(["he", "ll", "hell", "hello", "<|begin|>", "<|end|>"].map(String::from));
    let vocabulary = tokens.len();
    let mut types = vec![1; vocabulary];
    types[vocabulary - 2..].fill(3);
    let (width, heads, kv_heads, head_dim, ffn) =
        if wide { (256, 4, 2, 64, 256) } else { (32, 2, 1, 16, 32) };
    let mut parts = Parts { entries: Vec::new(), tensors: Vec::new() };
    let sizes = [
        ("context_length", 256),
        ("embedding_length", width),
        ("block_count", 1),
        ("feed_forward_length", ffn),
        ("attention.head_count", heads),
        ("attention.head_count_kv", kv_heads),
        ("rope.dimension_count", head_dim),
    ];
    parts.set("general.architecture", Value::from("llama"));
    for (key, size) in sizes {
        parts.set(&format!("llama.{key}"), Value::U32(size as u32));
    }
    parts.set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    parts.set("llama.rope.freq_base", Value::F32(1e4));
    if wide {
        parts.set("llama.rope.scaling.type", Value::from("yarn"));
        parts.set("llama.rope.scaling.factor", Value::F32(4.0));
        parts.set("llama.rope.scaling.original_context_length", Value::U32(64));
    }
    parts.set("tokenizer.ggml.model", Value::from("gpt2"));
    parts.set("tokenizer.ggml.pre", Value::from(if wide { "llama-bpe" } else { "gpt-2" }));
    parts.set("tokenizer.ggml.tokens", Value::Array(Array::from_strs(&tokens)));
    parts.set("tokenizer.ggml.token_type", Value::Array(Array::from_i32(&types)));
    parts.set("tokenizer.ggml.merges", Value::Array(Array::from_strs(["h e", "l l", "he ll", "hell o"])));
    parts.set("tokenizer.ggml.bos_token_id", Value::U32(vocabulary as u32 - 2));
    parts.set("tokenizer.ggml.eos_token_id", Value::U32(vocabulary as u32 - 1));
    parts.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    parts.set("tokenizer.chat_template", Value::from(TEMPLATE));
    let (q, kv) = (heads * head_dim, kv_heads * head_dim);
    let block = |narrow, k| if wide { k } else { narrow };
    let mut add = |name: &str, dtype, shape: &[usize]| parts.tensors.extend(Tensor::new(name, dtype, shape));
    add("token_embd.weight", block(DType::Q8_0, DType::Q6K), &[vocabulary, width]);
    add("blk.0.attn_norm.weight", DType::F32, &[width]);
    // Narrow heads have 16 values, less than a block, so the matrix they are multiplied with has a type without blocks.
    add("blk.0.attn_q.weight", block(DType::Q8_0, DType::Q4K), &[q, width]);
    add("blk.0.attn_q.bias", DType::F32, &[q]);
    add("blk.0.attn_k.weight", block(DType::Q4_0, DType::Q6K), &[kv, width]);
    add("blk.0.attn_v.weight", DType::F16, &[kv, width]);
    add("blk.0.attn_output.weight", DType::BF16, &[width, q]);
    add("blk.0.ffn_norm.weight", DType::F32, &[width]);
    add("blk.0.ffn_gate.weight", block(DType::Q8_0, DType::Q4K), &[ffn, width]);
    add("blk.0.ffn_up.weight", block(DType::F32, DType::Q4K), &[ffn, width]);
    add("blk.0.ffn_down.weight", DType::Q8_0, &[width, ffn]);
    add("output_norm.weight", DType::F32, &[width]);
    if wide {
        add("rope_freqs.weight", DType::F32, &[head_dim / 2]);
        add("output.weight", DType::Q4_0, &[vocabulary, width]);
    }
    parts
}
