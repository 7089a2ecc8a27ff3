//! A tiny Whisper whose weights follow from a formula, and audio for it. `data/make.py` has the same formulas.
#![allow(dead_code, reason = "several tests use parts of it")]

use serde_json::{Value, json};
use std::f64::consts::TAU;
use std::fs;
use std::path::Path;

/// Returns the audio of `make.py`: a chirp that grows, a pause, and a low tone.
pub(crate) fn audio() -> Vec<f32> {
    let n = 16_000 * 7;
    let at = |i: usize| {
        let x = i as f64;
        let on = if (60_000..=80_000).contains(&i) { 0.0 } else { 1.0 };
        let chirp = 0.4 * (TAU * (200.0 + x * 0.02) * x / 16_000.0).sin() * (x / n as f64) * on;
        (chirp + 0.1 * (TAU * 110.0 * x / 16_000.0).sin()) as f32
    };
    (0..n).map(at).collect()
}

/// Returns values between -1 and 1 that depend on the name, as `make.py` does.
fn values(name: &str, n: usize) -> Vec<f32> {
    let seed: u64 = name.bytes().enumerate().map(|(k, c)| (k as u64 + 1) * u64::from(c)).sum();
    let at = |k: u64| {
        let mut x = (k * 2_654_435_761 + seed * 40_503) % (1 << 32);
        x = (x ^ (x >> 15)) * 2_246_822_519 % (1 << 32);
        x ^= x >> 13;
        (x as f64 / f64::from(1_u32 << 31) - 1.0) as f32
    };
    (0..n as u64).map(at).collect()
}

/// Returns names and shapes of the tiny model's tensors.
pub(crate) fn shapes(bins: usize) -> Vec<(String, Vec<usize>)> {
    let (w, mut all) = (64, Vec::new());
    let mut add = |name: String, shape: &[usize]| all.push((name, shape.to_vec()));
    add("encoder.conv1.weight".into(), &[w, bins, 3]);
    add("encoder.conv1.bias".into(), &[w]);
    add("encoder.conv2.weight".into(), &[w, w, 3]);
    add("encoder.conv2.bias".into(), &[w]);
    add("encoder.embed_positions.weight".into(), &[1500, w]);
    add("decoder.embed_positions.weight".into(), &[64, w]);
    add("decoder.embed_tokens.weight".into(), &[1900, w]);
    for (side, hidden) in [("encoder", 256), ("decoder", 256)] {
        for part in ["weight", "bias"] {
            add(format!("{side}.layer_norm.{part}"), &[w]);
        }
        for i in 0..2 {
            let layer = format!("{side}.layers.{i}");
            let attentions: &[(&str, &str)] = match side {
                "encoder" => &[("self_attn", "self_attn_layer_norm")],
                _ => &[("self_attn", "self_attn_layer_norm"), ("encoder_attn", "encoder_attn_layer_norm")],
            };
            for (attention, norm) in attentions {
                for p in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    add(format!("{layer}.{attention}.{p}.weight"), &[w, w]);
                    if p != "k_proj" {
                        add(format!("{layer}.{attention}.{p}.bias"), &[w]);
                    }
                }
                for part in ["weight", "bias"] {
                    add(format!("{layer}.{norm}.{part}"), &[w]);
                }
            }
            for (part, shape) in [("fc1", [hidden, w]), ("fc2", [w, hidden])] {
                add(format!("{layer}.{part}.weight"), &shape);
                add(format!("{layer}.{part}.bias"), &shape[..1]);
            }
            for part in ["weight", "bias"] {
                add(format!("{layer}.final_layer_norm.{part}"), &[w]);
            }
        }
    }
    all
}

/// Returns a tensor's values.
pub(crate) fn tensor(name: &str, shape: &[usize]) -> Vec<f32> {
    let norm = name.contains("layer_norm") && name.ends_with("weight");
    let all = values(name, shape.iter().product());
    let of = |x: f32| match (norm, shape.len()) {
        (true, _) => 1.0 + 0.3 * x,
        (false, 1) => 0.1 * x,
        _ => 0.25 * x,
    };
    all.into_iter().map(of).collect()
}

/// Writes the tiny model as a Hugging Face folder.
pub(crate) fn folder(at: &Path, bins: usize) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in shapes(bins) {
        let begin = data.len();
        tensor(&name, &shape).iter().for_each(|x| data.extend(x.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert(format!("model.{name}"), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    fs::write(at.join("model.safetensors"), file).unwrap();
    let config = json!({
        "model_type": "whisper", "d_model": 64, "vocab_size": 1900, "num_mel_bins": bins, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256, "max_source_positions": 1500, "max_target_positions": 64
    });
    fs::write(at.join("config.json"), config.to_string()).unwrap();
    fs::write(at.join("tokenizer.json"), tokenizer().to_string()).unwrap();
}

/// Returns a tokenizer of single bytes and special tokens.
fn tokenizer() -> Value {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    let mut vocab = serde_json::Map::new();
    for b in 0..256_u32 {
        let code = if printable(b) { b } else { next };
        next += u32::from(!printable(b));
        vocab.insert(char::from_u32(code).unwrap().to_string(), b.into());
    }
    let special = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        "<|en|>",
        "<|de|>",
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ];
    let added: Vec<Value> = special
        .iter()
        .enumerate()
        .map(|(i, name)| {
            json!({ "id": 256 + i, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
        })
        .collect();
    json!({
        "version": "1.0", "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": { "type": "BPE", "vocab": vocab, "merges": [] }
    })
}

/// Returns a WAV file of 16-bit samples.
pub(crate) fn wav(samples: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|x| ((x * 32_767.0) as i16).to_le_bytes()).collect();
    let mut file =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data".to_vec();
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}
