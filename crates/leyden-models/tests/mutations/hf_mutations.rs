//! 20,000 damaged `config.json` with intact weights: each gives a model that computes, or is refused with a message
//! that names file and key, without a panic, in bounded time and memory.
//!
//! The mutations are the same in every run. All of them share one test, because the memory that it measures is that
//! of the whole process.

use crate::MEMORY;
use leyden_kernels::attention::{KvCache, KvType};
use leyden_kernels::{Cpu, Tier};
use leyden_models::{AdapterSet, Batch, HfModel, Span, Workspace, load};
use leyden_testkit::{emulated, json_tokens, patience, random};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit of a case's heap beyond the weights: this many times the size of the configuration ...
const TIMES: usize = 80;
/// ... plus this, for packed weights of 110 KB at most, cache and messages.
const CONSTANT: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(5);

/// Returns the `n` of every `n`-th case that is tried: all natively, few under an emulator, where each takes tens of
/// times as long.
fn every() -> usize {
    if emulated() { 20 } else { 1 }
}

/// Three shards in F32, biases everywhere, a shared embedding; every key that is read.
const LLAMA: &str = r#"{
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": true,
  "head_dim": 16,
  "hidden_act": "silu",
  "hidden_size": 32,
  "intermediate_size": 64,
  "max_position_embeddings": 256,
  "mlp_bias": true,
  "model_type": "llama",
  "num_attention_heads": 2,
  "num_hidden_layers": 2,
  "num_key_value_heads": 2,
  "partial_rotary_factor": 1.0,
  "quantization_config": null,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 32, "rope_type": "llama3", "type": "llama3"},
  "rope_theta": 500.0,
  "text_config": null,
  "tie_word_embeddings": true,
  "torch_dtype": "float32",
  "vocab_size": 128
}"#;

/// Two shards in BF16, heads that are normalised; the newer dialect.
const QWEN3: &str = r#"{
  "architectures": ["Qwen3ForCausalLM"],
  "attention_bias": false,
  "dtype": "bfloat16",
  "head_dim": 32,
  "hidden_act": "silu",
  "hidden_size": 48,
  "intermediate_size": 80,
  "layer_types": ["full_attention", "full_attention"],
  "max_position_embeddings": 256,
  "max_window_layers": 2,
  "model_type": "qwen3",
  "num_attention_heads": 2,
  "num_hidden_layers": 2,
  "num_key_value_heads": 1,
  "original_max_position_embeddings": null,
  "rms_norm_eps": 1e-06,
  "rope_parameters": {"attention_factor": null, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0,
    "mscale": 1.0, "mscale_all_dim": 0.5, "original_max_position_embeddings": 64, "rope_theta": 1000000,
    "rope_type": "yarn", "truncate": true},
  "sliding_window": null,
  "tie_word_embeddings": false,
  "use_sliding_window": false,
  "vocab_size": 128
}"#;

/// Replacements of values.
const VALUES: [&str; 56] = [
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "[1, \"x\", null]",
    "{\"quant_method\": \"awq\"}",
    "{\"rope_type\": \"linear\", \"factor\": 2}",
    "{\"rope_type\": \"longrope\"}",
    "{\"full_attention\": {\"rope_type\": \"default\"}}",
    "[\"full_attention\", \"sliding_attention\"]",
    "[\"LlamaForCausalLM\", \"X\"]",
    "\"llama\"",
    "\"mistral\"",
    "\"qwen2\"",
    "\"qwen3\"",
    "\"linear\"",
    "\"default\"",
    "\"yarn\"",
    "\"llama3\"",
    "\"dynamic\"",
    "\"\\u0000\\u001b[31m\\u202e\"",
    "0",
    "1",
    "2",
    "3",
    "4",
    "8",
    "16",
    "17",
    "31",
    "32",
    "48",
    "64",
    "128",
    "255",
    "256",
    "257",
    "4096",
    "4097",
    "16777216",
    "16777217",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "0.5",
    "1.0",
    "-0.0",
    "1e-45",
    "1e-300",
    "3e38",
    "1e300",
];

/// Texts that are inserted between JSON tokens, or replace one.
const TOKENS: [&str; 14] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"rope_scaling\"",
    "\"rope_parameters\"",
    "\"num_local_experts\"",
    "\\",
    "\n",
    "[[[[[[[[[[[[[[[[[[[[",
    "\u{feff}",
];

/// Applies mutation `i`: values replaced, tokens replaced, removed, repeated or inserted, bytes flipped, up to three
/// times.
fn mutate(text: &str, i: u64) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for k in 0..1 + random(i) % 3 {
        let r = random(i * 4 + k + (1 << 40));
        let spans = json_tokens(&bytes);
        if spans.is_empty() {
            return bytes;
        }
        let pick = |r: u64| spans[r as usize % spans.len()];
        let (begin, end) = pick(r >> 8);
        match r % 10 {
            // The value after a colon, so that most cases stay well-formed.
            0..=4 => {
                let values: Vec<usize> =
                    (1..spans.len()).filter(|&n| bytes[spans[n - 1].0] == b':').collect();
                if let Some(&n) = values.get((r >> 8) as usize % values.len().max(1)) {
                    let (begin, end) = spans[n];
                    bytes.splice(begin..end, VALUES[(r >> 32) as usize % VALUES.len()].bytes());
                }
            }
            5 => drop(bytes.splice(begin..end, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            6 => drop(bytes.splice(begin..begin, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            7 => drop(bytes.drain(begin..end)),
            8 => {
                let other = pick(r >> 32);
                let token = bytes[other.0..other.1].to_vec();
                bytes.splice(begin..end, token);
            }
            _ => {
                let at = (r >> 8) as usize % bytes.len();
                bytes[at] ^= 1 << (r >> 60 & 7);
            }
        }
    }
    bytes
}

#[derive(Debug, Default)]
struct Tally {
    computed: u32,
    refused: u32,
    most: usize,
    slowest: Duration,
}

struct Judge<'a> {
    folder: &'a Path,
    cpu: Cpu,
    tally: Tally,
}

impl Judge<'_> {
    /// Opens the folder, packs the weights and runs three tokens.
    fn answer(&self) -> Result<f32, leyden_models::Error> {
        let source = Arc::new(HfModel::open(self.folder)?);
        let model = load(source, &self.cpu, &mut |_, _| {})?;
        let mut cache = KvCache::new(model.kv_shape(KvType::F32)?, 1).unwrap();
        let mut work = Workspace::default();
        let blocks = [0];
        let (state, second, adapters) = (0, None, &AdapterSet::default());
        let (tokens, position, checkpoints) = (3, 0, &[][..]);
        let spans = [Span { tokens, position, blocks: &blocks, state, checkpoints, second, adapters }];
        let batch = Batch { tokens: &[1, 127, 5], spans: &spans, outputs: &[2], states: &[], context: 3 };
        model.forward(&self.cpu, &batch, &mut cache, &mut work)?;
        assert_eq!(work.logits().len(), model.vocabulary());
        Ok(work.logits()[0])
    }

    fn judge(&mut self, what: &str, config: &[u8]) -> Result<f32, String> {
        std::fs::write(self.folder.join("config.json"), config).unwrap();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        let result = self.answer();
        let took = start.elapsed();
        let extra = MEMORY.peak_usage().saturating_sub(before);
        assert!(extra <= CONSTANT + TIMES * config.len(), "{what}: {extra} bytes");
        assert!(took < patience(LIMIT), "{what}: {took:?}");
        self.tally.most = self.tally.most.max(extra);
        self.tally.slowest = self.tally.slowest.max(took);
        match result {
            Ok(logit) => {
                self.tally.computed += 1;
                Ok(logit)
            }
            Err(error) => {
                self.tally.refused += 1;
                let text = error.to_string();
                let rest = text.strip_prefix(&self.folder.display().to_string()).unwrap_or_default();
                let parts: Vec<&str> = rest.splitn(3, ": ").collect();
                assert!(parts.len() == 3 || parts[1].starts_with("want object"), "{what}: {text}");
                assert!(text.len() < 700 && !text.contains(char::is_control), "{what}: {text:?}");
                Err(text)
            }
        }
    }
}

#[test]
fn damaged_configurations_compute_or_are_refused_by_name() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let mut total = 0;
    for (checkpoint, config) in [("llama-biased", LLAMA), ("qwen3", QWEN3)] {
        let folder = folder.path().join(checkpoint);
        std::fs::create_dir(&folder).unwrap();
        let fixture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-engine/tests/fixtures/hf").join(checkpoint);
        for file in std::fs::read_dir(fixture).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let mut judge = Judge { folder: &folder, cpu, tally: Tally::default() };
        judge.judge("the configuration itself", config.as_bytes()).unwrap();
        for len in (0..config.len()).step_by(every()) {
            judge.judge(&format!("cut to {len}"), &config.as_bytes()[..len]).unwrap_err();
        }
        // Every value exchanged for every other.
        let spans = json_tokens(config.as_bytes());
        for n in (1..spans.len()).filter(|&n| config.as_bytes()[spans[n - 1].0] == b':') {
            let (begin, end) = spans[n];
            for value in VALUES.iter().skip(n % every()).step_by(every()) {
                // Objects and arrays have more than one token.
                if !"[{".contains(&config[begin..end]) {
                    let text = format!("{}{value}{}", &config[..begin], &config[end..]);
                    let _ = judge.judge(&format!("{value} at {begin}"), text.as_bytes());
                }
            }
        }
        for i in (0..8500).step_by(every()) {
            let _ = judge.judge(&format!("random {i}"), &mutate(config, i));
        }
        eprintln!("{checkpoint}: {:?}", judge.tally);
        let (computed, refused) = if emulated() { (10, 200) } else { (500, 5000) };
        let both = judge.tally.computed > computed && judge.tally.refused > refused;
        assert!(both, "both outcomes are common");
        total += judge.tally.computed + judge.tally.refused;
    }
    assert!(total >= if emulated() { 800 } else { 20_000 }, "{total}");
}

#[test]
#[ignore = "writes the seeds of the fuzz target"]
fn write_fuzz_seeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/hf_config");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("llama.json", LLAMA), ("qwen3.json", QWEN3)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}
