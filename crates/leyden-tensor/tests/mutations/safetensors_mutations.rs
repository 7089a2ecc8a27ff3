//! 20,000 damaged safetensors files, 20,000 damaged indices and 20,000 damaged configurations: each is
//! opened or refused, without a panic, in bounded time and memory, and what is opened can be read.
//!
//! The mutations are the same in every run. All of them share one test, because the memory that it
//! measures is that of the whole process.

use crate::MEMORY;
use leyden_testkit::{json_tokens, patience, random};
use std::path::Path;
use std::time::{Duration, Instant};

use leyden_tensor::{Error, HfFolder, Json, MAX_KEYS, MAX_TENSORS, Safetensors, WeightSource, quant};

/// Maximum memory of reading, beyond the file itself: `TIMES` times its size plus `CONSTANT` bytes. The shortest
/// tensor has some 60 bytes in a header and three records of 200 bytes together in memory.
const TIMES: usize = 16;
/// Bound of memory for JSON files: `[],` in a configuration becomes a value of 72 bytes in a vector that doubles.
const TIMES_JSON: usize = 80;
/// Needed by error messages and growing vectors even for tiny files.
const CONSTANT: usize = 1 << 16;
/// Maximum memory for a file of any size, in bytes.
const CEILING: usize = 64 << 20;

fn framed(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0x3c);
    bytes
}

/// A header with a tensor of every supported type, some others and metadata; 100 bytes of data.
const HEADER: &str = r#"{"__metadata__":{"format":"pt","tied":"w.f32"},
"w.f32":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]},
"w.f16":{"dtype":"F16","shape":[2,2,3],"data_offsets":[48,72]},
"w.bf16":{"dtype":"BF16","shape":[6],"data_offsets":[72,84]},
"e":{"dtype":"F16","shape":[0,4],"data_offsets":[84,84]},
"i\u00e9":{"dtype":"I64","shape":[1],"data_offsets":[84,92]},
"f4":{"dtype":"F4","shape":[2,4],"data_offsets":[92,96]},
"s":{"dtype":"F32","shape":[],"data_offsets":[96,100]}}   "#;

const A: &str = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}"#;
const B: &str = r#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;

const INDEX: &str = r#"{
  "metadata": {"total_size": 20, "deep": [{"x": [[1.5e3, null]]}]},
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00002-of-00002.safetensors",
    "c": "model-00001-of-00002.safetensors"
  }
}"#;

const CONFIG: &str = r#"{
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "eos_token_id": [128001, 128008],
  "hidden_size": 2048,
  "model_type": "llama",
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "low_freq_factor": 1.0, "rope_type": "llama3", "x": null},
  "rope_theta": 500000.0,
  "text_config": {"layer_types": ["full_attention", "sliding_attention"], "head_dim": -1},
  "vocab_size": 128256
}"#;

/// Replacements of numbers.
const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "8",
    "12",
    "47",
    "49",
    "100",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1.5",
    "1e308",
    "1e999",
    "-0",
];
/// Replacements of any token, and insertions.
const TOKENS: [&str; 28] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "\"F32\"",
    "\"BF16\"",
    "\"F6_E3M2\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"weight_map\"",
    "\"__metadata__\"",
    "\"../x.safetensors\"",
    "\"/dev/zero.safetensors\"",
    "\"model-00002-of-00002.safetensors\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "\\",
    "\n",
    "[[[[[[[[[[[[[[[[[[[[",
    "\u{feff}",
];

/// Mutation `i` of JSON text: tokens replaced, removed, repeated, exchanged or inserted, or bytes
/// flipped, up to three times.
fn mutate(text: &[u8], i: u64) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for k in 0..1 + random(i) % 3 {
        let r = random(i * 4 + k + (1 << 40));
        let spans = json_tokens(&bytes);
        if spans.is_empty() {
            return bytes;
        }
        let pick = |r: u64| spans[r as usize % spans.len()];
        let (begin, end) = pick(r >> 8);
        match r % 9 {
            0 | 1 => {
                let numbers: Vec<_> = spans.iter().filter(|s| bytes[s.0].is_ascii_digit()).collect();
                if let Some(&&(begin, end)) = numbers.get((r >> 8) as usize % numbers.len().max(1)) {
                    bytes.splice(begin..end, NUMBERS[(r >> 32) as usize % NUMBERS.len()].bytes());
                }
            }
            2 => drop(bytes.splice(begin..end, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            3 => drop(bytes.splice(begin..begin, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            4 => drop(bytes.drain(begin..end)),
            5 => {
                // A stretch of text twice: fields, tensors, brackets.
                let (_, to) = pick(r >> 32);
                let stretch = bytes[begin..to.max(end)].to_vec();
                bytes.splice(begin..begin, stretch);
            }
            6 => {
                let other = pick(r >> 32);
                let token = bytes[other.0..other.1].to_vec();
                bytes.splice(begin..end, token);
            }
            7 => bytes.truncate((r >> 8) as usize % (bytes.len() + 1)),
            _ => {
                let at = (r >> 8) as usize % bytes.len();
                bytes[at] ^= 1 << (r >> 60 & 7);
            }
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

#[derive(Default)]
struct Tally {
    times: usize,
    opened: u32,
    refused: u32,
    peak: usize,
    peak_times: f64,
    slowest: Duration,
}

impl Tally {
    fn new(times: usize) -> Tally {
        Tally { times, ..Tally::default() }
    }

    /// Runs `open` on something of `len` bytes, and `read` on what it opened.
    fn check<T>(
        &mut self,
        what: &str,
        len: usize,
        names: &str,
        open: impl FnOnce() -> Result<T, Error>,
        read: impl FnOnce(&T),
    ) {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        let result = open();
        let extra = MEMORY.peak_usage().saturating_sub(before);
        match result {
            Ok(opened) => {
                self.opened += 1;
                read(&opened);
            }
            Err(e) => {
                self.refused += 1;
                let file = e.context().file().unwrap_or_default();
                assert!(file.contains(names), "{what}: {e}");
                let message = e.to_string();
                assert!(message.len() < 900 && !message.contains(char::is_control), "{what}: {message:?}");
            }
        }
        let took = start.elapsed();
        assert!(
            extra <= CONSTANT + self.times * len && extra <= CEILING,
            "{what}: {extra} bytes for a file of {len}"
        );
        assert!(took < patience(Duration::from_secs(2)), "{what}: {took:?}");
        self.peak = self.peak.max(extra);
        self.peak_times = self.peak_times.max(extra.saturating_sub(CONSTANT) as f64 / len.max(1) as f64);
        self.slowest = self.slowest.max(took);
    }

    fn report(&self, what: &str) {
        eprintln!(
            "{what}: {} opened, {} refused; at most {} bytes of memory, {:.1} per byte of file; slowest {:?}",
            self.opened, self.refused, self.peak, self.peak_times, self.slowest
        );
    }
}

/// Reads everything that can be read from a model that was opened.
fn read_all(file: &Safetensors) {
    for (key, _) in file.metadata().iter() {
        file.metadata().str(key).expect("metadata is text");
        file.optional(key).map(drop).unwrap_or_default();
    }
    for info in file.tensor_info() {
        let Ok(view) = file.require(&info.name) else { continue };
        assert_eq!((view.bytes().len(), view.shape()), (info.bytes, &info.shape[..]));
        let Some(last) = view.rows().checked_sub(1) else { continue };
        let mut values = vec![0.0; view.cols()];
        for i in [0, last] {
            quant::decode_row(view.dtype(), view.row(i), &mut values);
        }
    }
    assert!(!file.truncated());
}

fn check_file(tally: &mut Tally, what: &str, bytes: Vec<u8>) {
    let len = bytes.len();
    tally.check(
        what,
        len,
        "mutated.safetensors",
        || Safetensors::from_vec(bytes, "mutated.safetensors"),
        read_all,
    );
}

fn damaged_files() -> Tally {
    let mut tally = Tally::new(TIMES);
    let file = framed(HEADER, 100);
    check_file(&mut tally, "the file itself", file.clone());
    assert_eq!(tally.opened, 1, "the file itself is valid");
    for len in 0..file.len() {
        check_file(&mut tally, &format!("cut to {len}"), file[..len].to_vec());
    }
    for at in 0..8 + HEADER.len() {
        for bit in 0..8 {
            let mut bytes = file.clone();
            bytes[at] ^= 1 << bit;
            check_file(&mut tally, &format!("bit {bit} of byte {at}"), bytes);
        }
    }
    let len = HEADER.len() as u64;
    for n in [0, 1, 2, len - 1, len + 1, len + 100, len + 101, 1 << 31, 1 << 32, 1 << 62, 1 << 63, u64::MAX] {
        let mut bytes = file.clone();
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        check_file(&mut tally, &format!("length {n}"), bytes);
    }
    for i in 0..16_000 {
        let header = mutate(HEADER.as_bytes(), i);
        // Half of them with the length that they now have, so that the syntax is reached.
        let len = if i % 2 == 0 { header.len() as u64 } else { len };
        let bytes = [&len.to_le_bytes()[..], &header, &[0x3c; 100]].concat();
        check_file(&mut tally, &format!("random {i}"), bytes);
    }
    tally
}

fn damaged_indices(folder: &Path) -> Tally {
    let mut tally = Tally::new(TIMES);
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("folder is writable");
    write("model-00001-of-00002.safetensors", &framed(A, 12));
    write("model-00002-of-00002.safetensors", &framed(B, 8));
    let mut check = |what: &str, bytes: &[u8]| {
        write("model.safetensors.index.json", bytes);
        let name = folder.display().to_string();
        tally.check(what, bytes.len(), &name, || Safetensors::open(folder), read_all);
    };
    check("the index itself", INDEX.as_bytes());
    for len in 0..INDEX.len() {
        check(&format!("index cut to {len}"), &INDEX.as_bytes()[..len]);
    }
    for i in 0..20_000 {
        check(&format!("index {i}"), &mutate(INDEX.as_bytes(), i));
    }
    tally
}

fn read_config(config: &Json) {
    for key in config.object().keys() {
        drop((
            config.u32(key),
            config.i64(key),
            config.usize(key),
            config.f32(key),
            config.bool(key),
            config.str(key),
        ));
        drop((config.opt_u32_or_array(key), config.opt_array_f32(key), config.opt_array_str(key)));
    }
    for key in ["rope_scaling.factor", "rope_scaling.factor.x", "text_config.layer_types", "", ".", "a..b"] {
        drop((config.opt_f32(key), config.opt_array_str(key), config.opt_u32_or_array(key)));
    }
}

fn damaged_configs() -> Tally {
    let mut tally = Tally::new(TIMES_JSON);
    let mut check = |what: &str, bytes: &[u8]| {
        tally.check(what, bytes.len(), "config.json", || Json::parse(bytes, "config.json"), read_config);
    };
    check("the configuration itself", CONFIG.as_bytes());
    for len in 0..CONFIG.len() {
        check(&format!("configuration cut to {len}"), &CONFIG.as_bytes()[..len]);
    }
    for i in 0..20_000 {
        check(&format!("configuration {i}"), &mutate(CONFIG.as_bytes(), i));
    }
    for (text, times) in
        [("[]", 65_000), ("0", 130_000), ("\"\"", 130_000), ("{\"a\":0}", 43_000), ("{}", 130_000)]
    {
        check(text, format!("{{\"a\":[{}{text}]}}", format!("{text},").repeat(times - 1)).as_bytes());
        check(text, format!("{{\"a\":[{}{text}]}}", format!("{text},").repeat(2_000_000)).as_bytes());
    }
    let keys: Vec<String> = (0..65_000).map(|i| format!("\"{i:x}\":0")).collect();
    check("keys", format!("{{{}}}", keys.join(",")).as_bytes());
    for open in ["[", "{\"a\":"] {
        check("deep", format!("{{\"a\":{}", open.repeat(100_000)).as_bytes());
    }
    tally
}

/// Files that are valid and have as many small things in them as allowed.
fn fat_files(tally: &mut Tally) {
    let entry = r#"{"dtype":"I8","shape":[],"data_offsets":"#;
    let tensors: Vec<String> =
        (0..MAX_TENSORS).map(|i| format!(r#""{i:x}":{entry}[{i},{}]}}"#, i + 1)).collect();
    let texts: Vec<String> = (0..MAX_KEYS).map(|i| format!(r#""{i:x}":"""#)).collect();
    let empty: Vec<String> =
        (0..MAX_TENSORS).map(|i| format!(r#""{i:x}":{entry}[0,0]}}"#).replace("[],", "[0],")).collect();
    for (name, bytes) in [
        ("tensors", framed(&format!("{{{}}}", tensors.join(",")), MAX_TENSORS as usize)),
        ("empty tensors", framed(&format!("{{{}}}", empty.join(",")), 0)),
        ("texts", framed(&format!("{{\"__metadata__\":{{{}}}}}", texts.join(",")), 0)),
    ] {
        let opened = tally.opened;
        check_file(tally, name, bytes);
        assert_eq!(tally.opened, opened + 1, "{name} is valid");
    }
    // One more of each is refused, and so is a header full of what is refused early.
    let refused = tally.refused;
    let more = format!("{{{},\"x\":{entry}[0,0]}}}}", tensors.join(","));
    check_file(tally, "one tensor more", framed(&more, MAX_TENSORS as usize));
    let more = format!("{{\"__metadata__\":{{{},\"x\":\"\"}}}}", texts.join(","));
    check_file(tally, "one text more", framed(&more, 0));
    let dims = format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{}1]}}}}", "1,".repeat(4 << 20));
    check_file(tally, "dimensions", framed(&dims, 4));
    let name = format!("{{\"{}\":{entry}[0,1]}}}}", "n".repeat(8 << 20));
    check_file(tally, "name", framed(&name, 1));
    let nested = format!("{{\"w\":{}", "{\"dtype\":".repeat(1 << 20));
    check_file(tally, "nested", framed(&nested, 0));
    assert_eq!(tally.refused, refused + 5);
}

#[test]
fn damaged_models_are_opened_or_refused_in_bounded_memory() {
    let _alone = crate::alone();
    // In memory where there is such a place: 20,000 files take a minute on a slow disk.
    let folder =
        tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder");
    let mut files = damaged_files();
    files.report("safetensors");
    let indices = damaged_indices(folder.path());
    indices.report("index");
    let configs = damaged_configs();
    configs.report("config.json");
    for tally in [&files, &indices, &configs] {
        assert!(tally.opened + tally.refused >= 20_000, "mutations");
        assert!(tally.opened > 300 && tally.refused > 10_000, "mutations of both outcomes");
    }
    fat_files(&mut files);
    files.report("with the largest");
    // A folder whose configuration is damaged is refused as a whole.
    std::fs::write(folder.path().join("config.json"), "{").expect("folder is writable");
    assert!(HfFolder::open(folder.path()).is_err());
}

#[test]
#[ignore = "writes the seeds of the fuzz target"]
fn write_fuzz_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/safetensors");
    std::fs::create_dir_all(folder).expect("folder is writable");
    for (name, bytes) in [
        ("model.safetensors", framed(HEADER, 100)),
        ("header.json", HEADER.as_bytes().to_vec()),
        ("index.json", INDEX.as_bytes().to_vec()),
        ("config.json", CONFIG.as_bytes().to_vec()),
    ] {
        std::fs::write(format!("{folder}/{name}"), bytes).expect("folder is writable");
    }
}
