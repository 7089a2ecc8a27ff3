//! Tens of thousands of damaged files: each is opened or refused, without a panic, in bounded time
//! and memory, and what is opened can be read.
//!
//! The mutations are the same in every run. All of them share one test, because the memory that it
//! measures is that of the whole process.

use crate::MEMORY;
use leyden_testkit::{boundary_values, overwrite, patience, random, shared};
use std::time::{Duration, Instant};

use leyden_tensor::{
    Array, DType, Gguf, GgufWriter, MAX_KEYS, MAX_TENSORS, Metadata, Value, WeightSource, quant,
};

/// Maximum memory of opening a file, beyond the file itself: `TIMES` times its size plus `CONSTANT` bytes.
const TIMES: usize = 12;
/// Needed by error messages and growing vectors even for tiny files.
const CONSTANT: usize = 1 << 16;
/// Maximum memory for a file of any size, in bytes.
const CEILING: usize = 64 << 20;

/// A file with a value of every type and a tensor of every supported type.
fn small_file(version: u8) -> Vec<u8> {
    let mut w = GgufWriter::new();
    w.set("general.architecture", "llama".into()).set("general.alignment", Value::U32(32));
    w.set("a.u8", Value::U8(1))
        .set("a.i8", Value::I8(-1))
        .set("a.u16", Value::U16(2))
        .set("a.i16", Value::I16(-2));
    w.set("a.u32", Value::U32(3))
        .set("a.i32", Value::I32(-3))
        .set("a.u64", Value::U64(4))
        .set("a.i64", Value::I64(-4));
    w.set("a.f32", Value::F32(0.5)).set("a.f64", Value::F64(0.25)).set("a.bool", Value::Bool(true));
    w.set("t.tokens", Array::from_strs(["<s>", "</s>", "a", "\u{e9}", ""]).into());
    w.set("t.scores", Array::from_f32(&[0.0, -1.0, f32::NAN]).into());
    w.set("t.types", Array::from_i32(&[3, 3, 1]).into())
        .set("t.flags", Array::from_bools(&[true, false]).into());
    w.set("t.wide", Array::from_u64(&[1, u64::MAX]).into())
        .set("t.bytes", Array::from_u8(&[1, 2, 255]).into());
    for dtype in DType::encodable() {
        let shape = [2, dtype.block_len()];
        let mut bytes = vec![0; 2 * dtype.block_bytes()];
        let x: Vec<f32> = (0..2 * dtype.block_len()).map(|i| i as f32 / 64.0 - 1.0).collect();
        quant::encode_row(dtype, &x, &mut bytes);
        w.add_tensor(&format!("blk.0.{dtype}"), dtype, &shape, bytes).expect("valid tensor");
    }
    let mut bytes = w.to_vec().expect("valid file");
    bytes[4] = version;
    bytes
}

/// Reads everything that can be read from a file that was opened.
fn read_all(file: &Gguf) {
    let meta = file.metadata();
    for (key, _) in meta.iter() {
        read_key(meta, key);
    }
    let mut values = Vec::new();
    for name in file.tensor_names() {
        let Ok(view) = file.require(name) else { continue };
        values.resize(view.cols(), 0.0);
        for i in [0, view.rows() - 1] {
            quant::decode_row(view.dtype(), view.row(i), &mut values);
        }
    }
    assert!(!file.truncated());
}

fn read_key(meta: &Metadata, key: &str) {
    let numbers =
        [meta.u32(key).is_ok(), meta.i32(key).is_ok(), meta.u64(key).is_ok(), meta.opt_i64(key).is_ok()];
    let others = [meta.f32(key).is_ok(), meta.bool(key).is_ok(), meta.str(key).is_ok()];
    assert!(
        numbers.iter().any(|&b| b) as u8 + others.iter().map(|&b| b as u8).sum::<u8>() <= 1,
        "one type per key"
    );
    let strings = meta.opt_array_str(key).ok().flatten();
    if let Some(strings) = &strings {
        assert_eq!(strings.iter().count(), strings.len());
        assert_eq!(strings.get(strings.len()), None);
        let bytes: usize = strings.iter().map(|s| s.iter().map(|&b| usize::from(b & 1)).sum::<usize>()).sum();
        assert!(bytes < usize::MAX);
    }
    drop((
        meta.opt_array_f32(key),
        meta.opt_array_i32(key),
        meta.opt_array_u32(key),
        meta.opt_array_bool(key),
    ));
    if let Some(Value::Array(array)) = meta.get(key) {
        assert_eq!(array.iter().count(), if strings.is_some() { 0 } else { array.len() });
    }
}

#[derive(Default)]
struct Tally {
    opened: u32,
    refused: u32,
    peak_times: f64,
    slowest: Duration,
}

impl Tally {
    fn check(&mut self, what: &str, bytes: Vec<u8>) {
        let len = bytes.len();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        let result = Gguf::from_vec(bytes, "mutated.gguf");
        let extra = MEMORY.peak_usage().saturating_sub(before);
        match result {
            Ok(file) => {
                self.opened += 1;
                read_all(&file);
            }
            Err(e) => {
                self.refused += 1;
                assert!(
                    e.context().file() == Some("mutated.gguf") && e.context().item().is_some(),
                    "{what}: {e}"
                );
                assert!(e.to_string().len() < 600, "{what}: a message of {} bytes", e.to_string().len());
            }
        }
        let took = start.elapsed();
        assert!(
            extra <= CONSTANT + TIMES * len && extra <= CEILING,
            "{what}: {extra} bytes for a file of {len}"
        );
        assert!(took < patience(Duration::from_secs(2)), "{what}: {took:?}");
        self.peak_times = self.peak_times.max(extra.saturating_sub(CONSTANT) as f64 / len.max(1) as f64);
        self.slowest = self.slowest.max(took);
    }
}

/// Every mutation of a small file: all truncations, all bit flips before the data, boundary values at
/// every position, and random combinations.
fn mutate_small(tally: &mut Tally, file: &[u8]) {
    let data =
        file.len() - DType::encodable().map(|d| (2 * d.block_bytes()).next_multiple_of(32)).sum::<usize>();
    for len in 0..file.len() {
        tally.check(&format!("cut to {len}"), file[..len].to_vec());
    }
    for at in 0..data {
        for bit in 0..8 {
            tally.check(&format!("bit {bit} of byte {at}"), overwrite(file, at, &[file[at] ^ 1 << bit]));
        }
        for value in boundary_values(file.len()) {
            tally.check(&format!("u64 {value} at {at}"), overwrite(file, at, &value.to_le_bytes()));
        }
        for value in 0..14u32 {
            tally.check(&format!("u32 {value} at {at}"), overwrite(file, at, &value.to_le_bytes()));
        }
    }
    for i in 0..4000 {
        let mut bytes = file.to_vec();
        for k in 0..1 + random(i) % 4 {
            let r = random(i * 8 + k + (1 << 40));
            let at = (r >> 8) as usize % bytes.len();
            match r % 5 {
                0 => bytes[at] ^= 1 << (r >> 60 & 7),
                1 => bytes[at] = (r >> 50) as u8,
                2 => {
                    let end = (at + 1 + (r >> 48) as usize % 9).min(bytes.len());
                    bytes.drain(at..end);
                }
                3 => {
                    let value = boundary_values(file.len())[(r >> 40) as usize % 23];
                    bytes = overwrite(&bytes, at, &value.to_le_bytes());
                }
                _ => bytes.insert(at, (r >> 50) as u8),
            }
        }
        tally.check(&format!("random {i}"), bytes);
    }
}

/// Some mutations of a real vocabulary, most of them near its beginning, where the counts are.
fn mutate_vocabulary(tally: &mut Tally, file: &[u8]) {
    for i in 0..600u64 {
        let r = random(i + (1 << 50));
        let within = if i % 3 == 0 { file.len() } else { 4096 };
        let at = (r >> 8) as usize % within;
        let bytes = match i % 4 {
            0 => file[..at].to_vec(),
            1 => overwrite(file, at, &[file[at] ^ 1 << (r & 7)]),
            2 => overwrite(file, at, &boundary_values(file.len())[(r >> 40) as usize % 23].to_le_bytes()),
            _ => overwrite(file, at, &[(r >> 40) as u8; 3]),
        };
        tally.check(&format!("vocabulary {i}"), bytes);
    }
}

/// Files that are valid, or nearly, and have as many small things in them as allowed.
fn fat_files() -> Vec<(&'static str, Vec<u8>)> {
    let header = |n_tensors: u64, n_keys: u64| {
        let counts =
            [3u32.to_le_bytes().to_vec(), n_tensors.to_le_bytes().to_vec(), n_keys.to_le_bytes().to_vec()];
        [b"GGUF".to_vec(), counts.concat()].concat()
    };
    let name = |i: u64| format!("{i:x}").into_bytes();
    let put = |out: &mut Vec<u8>, s: &[u8]| {
        out.extend((s.len() as u64).to_le_bytes());
        out.extend(s);
    };
    let mut keys = header(0, MAX_KEYS);
    for i in 0..MAX_KEYS {
        put(&mut keys, &name(i));
        keys.extend([0, 0, 0, 0, 1]);
    }
    let mut tensors = header(MAX_TENSORS, 0);
    for i in 0..MAX_TENSORS {
        put(&mut tensors, &name(i));
        tensors.extend([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0]);
        tensors.extend((i * 32).to_le_bytes());
    }
    tensors.resize(tensors.len() + MAX_TENSORS as usize * 32 + 32, 0);
    let mut strings = header(0, 1);
    put(&mut strings, b"tokens");
    strings.extend([9, 0, 0, 0, 8, 0, 0, 0]);
    strings.extend((1u64 << 20).to_le_bytes());
    strings.extend(vec![0; 8 << 20]);
    vec![("keys", keys), ("tensors", tensors), ("empty strings", strings)]
}

#[test]
fn damaged_files_are_opened_or_refused_in_bounded_memory() {
    let _alone = crate::alone();
    let mut tally = Tally::default();
    for version in [2, 3] {
        let file = small_file(version);
        let opened = tally.opened;
        tally.check("the file itself", file.clone());
        assert_eq!(tally.opened, opened + 1, "the file itself is valid");
        mutate_small(&mut tally, &file);
    }
    assert!(tally.opened > 1000 && tally.refused > 1000, "mutations of both outcomes");
    for (name, bytes) in fat_files() {
        let opened = tally.opened;
        tally.check(name, bytes);
        assert_eq!(tally.opened, opened + 1, "{name} is valid");
    }
    if let Some(path) = shared("data/tokenizers/ggml-vocab/ggml-vocab-bert-bge.gguf") {
        mutate_vocabulary(&mut tally, &std::fs::read(path).unwrap());
    }
    eprintln!(
        "{} mutations: {} opened, {} refused; at most {:.1} bytes of memory per byte of file; slowest {:?}",
        tally.opened + tally.refused,
        tally.opened,
        tally.refused,
        tally.peak_times,
        tally.slowest
    );
    assert!(tally.opened + tally.refused >= 20_000);
}

#[test]
#[ignore = "writes the seeds of the fuzz target"]
fn write_fuzz_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/gguf");
    std::fs::create_dir_all(folder).unwrap();
    for version in [2, 3] {
        std::fs::write(format!("{folder}/small-v{version}.gguf"), small_file(version)).unwrap();
    }
}
