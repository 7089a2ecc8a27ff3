//! Damage to contents: well-formed files with senseless values, types, shapes and weights.

use crate::judge::Tally;
use crate::model::{Parts, Tensor};
use leyden_tensor::{Array, DType, Value};
use leyden_testkit::random;

/// Returns values of types and sizes that keys do not expect.
fn values() -> Vec<Value> {
    let mut values = vec![
        Value::U8(0),
        Value::U8(1),
        Value::I8(-1),
        Value::U16(16),
        Value::I16(-7),
        Value::I32(-1),
        Value::I32(i32::MIN),
        Value::I64(i64::MIN),
        Value::I64(32),
        Value::U64(u64::MAX),
        Value::U64(1 << 32),
        Value::U64(256),
        Value::Bool(false),
        Value::Bool(true),
        Value::F64(f64::NAN),
        Value::F64(1e-5),
        Value::F64(1e300),
        Value::from(""),
        Value::from("llama"),
        Value::from("a\0\u{1b}[31m\u{202e}"),
        Value::from("x".repeat(5000)),
        Value::Array(Array::from_strs::<[&str; 0], &str>([])),
        Value::Array(Array::from_strs(["", "", "a"])),
        Value::Array(Array::from_i32(&[])),
        Value::Array(Array::from_i32(&[-1, i32::MAX])),
        Value::Array(Array::from_f32(&[f32::NAN, f32::INFINITY])),
        Value::Array(Array::from_u8(&[255; 300])),
        Value::Array(Array::from_strs((0..262).map(|i| format!("t{i}")))),
        Value::Array(Array::from_strs(["a b c", " ", "a", "he he", "x y"])),
    ];
    let sizes = [
        0,
        1,
        2,
        3,
        8,
        15,
        16,
        17,
        31,
        32,
        48,
        64,
        255,
        256,
        257,
        260,
        261,
        262,
        4096,
        4097,
        1 << 16,
        1 << 20,
        (1 << 24) - 16,
        1 << 24,
        (1 << 24) + 1,
        i32::MAX as u32,
        1 << 31,
        u32::MAX - 1,
        u32::MAX,
    ];
    values.extend(sizes.map(Value::U32));
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        1e30,
    ];
    values.extend(floats.map(Value::F32));
    values.extend(TEMPLATES.map(Value::from));
    values
}

/// Templates that loop, grow, nest or fail.
const TEMPLATES: [&str; 12] = [
    "{% for i in range(1000000000) %}{% endfor %}",
    "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
    "{% set ns = namespace(s='ab') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ 'x' * 100000000000 }}",
    "{{ messages[99].content.foo.bar }}",
    "{{ raise_exception('no') }}",
    "{{ 1 // 0 }}{{ 1 % 0 }}",
    "{% if %}{{ }}",
    "{{ (((((((((((((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))))))))))))) }}",
    "{{ messages | map(attribute='content') | join('<|begin|>') }}",
    "",
];

/// Keys that the model lacks, but readers look for.
const MORE_KEYS: [&str; 16] = [
    "general.alignment",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.expert_count",
    "llama.vocab_size",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scale_linear",
    "llama.rope.scaling.original_context_length",
    "llama.attention.sliding_window",
    "tokenizer.ggml.eot_token_id",
    "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id",
    "tokenizer.ggml.add_eos_token",
    "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.scores",
];

/// Makes one change and returns its description; `None` if the change is impossible.
fn change(parts: &mut Parts, r: u64, values: &[Value]) -> Option<String> {
    let pick = |r: u64, n: usize| (r >> 16) as usize % n;
    if r.is_multiple_of(2) {
        let keys: Vec<String> =
            parts.entries.iter().map(|e| e.0.clone()).chain(MORE_KEYS.map(str::to_owned)).collect();
        let key = keys[pick(r, keys.len())].clone();
        if r & 0xf0 == 0 {
            parts.entries.retain(|e| e.0 != key);
            return Some(format!("without {key}"));
        }
        let value = values[(r >> 32) as usize % values.len()].clone();
        let what = format!("{key} a {} ({})", value.value_type(), (r >> 32) as usize % values.len());
        parts.set(&key, value);
        return Some(what);
    }
    let at = pick(r, parts.tensors.len().max(1));
    let t = parts.tensors.get_mut(at)?;
    let name = t.name.clone();
    let what = match r >> 32 & 7 {
        0 => {
            parts.tensors.remove(at);
            format!("without {name}")
        }
        1 => {
            t.name = ["blk.1.attn_q.weight", "x", "output.weight", "rope_freqs.weight", "blk.0.attn_k.bias"]
                [(r >> 40) as usize % 5]
                .to_owned();
            format!("{name} called {}", t.name)
        }
        2 => {
            let dtypes: Vec<DType> = DType::encodable().collect();
            *t = Tensor::new(&name, dtypes[(r >> 40) as usize % dtypes.len()], &t.shape)?;
            format!("{name} as {}", t.dtype)
        }
        3 => {
            let dims = [1, 2, 16, 31, 32, 33, 64, 256, 261, 262, 263, 512];
            let shape: Vec<usize> = (0..1 + (r >> 56) as usize % 3)
                .map(|i| dims[(r >> (36 + 5 * i)) as usize % dims.len()])
                .collect();
            *t = Tensor::new(&name, t.dtype, &shape)?;
            format!("{name} of {shape:?}")
        }
        4 | 5 => {
            let byte = [0, 0x7f, 0x80, 0xff][(r >> 40) as usize % 4];
            t.bytes.fill(byte);
            format!("{name} full of {byte:02x}")
        }
        _ => {
            for (i, byte) in t.bytes.iter_mut().enumerate() {
                *byte = (random(r ^ i as u64) >> 20) as u8;
            }
            format!("{name} of noise")
        }
    };
    Some(what)
}

/// Judges every key with every value, then one to three random changes at once.
pub(crate) fn mutate(tally: &mut Tally, parts: &Parts, wide: bool) {
    let values = values();
    if !wide {
        let keys: Vec<&str> = parts.entries.iter().map(|e| e.0.as_str()).chain(MORE_KEYS).collect();
        for key in keys {
            for (i, value) in values.iter().enumerate() {
                let mut parts = parts.clone();
                parts.set(key, value.clone());
                let name = format!("{key} a {} ({i})", value.value_type());
                // The writer refuses some values that readers accept.
                if let Some(file) = parts.file() {
                    tally.sample(&name, file);
                }
            }
        }
    }
    for i in 0..if wide { 1000 } else { 4000 } {
        let mut parts = parts.clone();
        let changes: Vec<String> = (0..1 + random(i) % 3)
            .filter_map(|k| {
                change(&mut parts, random(i * 4 + k + (1 << 44 | u64::from(wide) << 45)), &values)
            })
            .collect();
        if let Some(file) = parts.file() {
            tally.sample(&changes.join(", "), file);
        }
    }
}
