//! 20,000 damaged ONNX models: each is opened or refused, without a panic, in bounded time and memory.

use crate::MEMORY;
use leyden_tensor::{Onnx, WeightSource};
use leyden_testkit::protobuf::{bytes, number, varint};
use leyden_testkit::{boundary_values, overwrite, patience, random};
use std::time::{Duration, Instant};

/// Memory beyond the file: an empty name takes two bytes in the file and 24 and more in a growing vector; a node
/// takes five bytes, and some 400 with its name and its entries in tables.
const TIMES: usize = 160;
const CONSTANT: usize = 1 << 16;

/// A model with two of most things.
fn model() -> Vec<u8> {
    let floats = |n: usize| bytes(9, vec![0x3c; 4 * n]);
    let tensor = |name: &str, rest: Vec<u8>| {
        bytes(5, [number(1, 2), number(1, 2), number(2, 1), bytes(8, name), rest].concat())
    };
    let attribute =
        |name: &str, kind, rest: Vec<u8>| bytes(5, [bytes(1, name), rest, number(20, kind)].concat());
    let node = |op: &str, inputs: [&str; 2], output: &str, rest: Vec<u8>| {
        let names = [bytes(1, inputs[0]), bytes(1, inputs[1]), bytes(2, output), bytes(3, output)].concat();
        bytes(1, [names, bytes(4, op), rest].concat())
    };
    let inner = [node("Add", ["m", "w"], "n", Vec::new()), bytes(12, bytes(1, "n"))].concat();
    let constant = [number(1, 1), number(2, 7), bytes(7, varint(5))].concat();
    let rest = [
        attribute("perm", 7, bytes(8, [1, 0])),
        attribute("value", 4, bytes(5, constant)),
        attribute("then", 5, bytes(6, inner)),
        attribute("to", 2, number(3, 1)),
    ];
    let value = |field, name: &str| {
        let dims = [bytes(1, bytes(2, "b")), bytes(1, number(1, 2))].concat();
        bytes(field, [bytes(1, name), bytes(2, bytes(1, [number(1, 1), bytes(2, dims)].concat()))].concat())
    };
    let graph = [
        node("MatMul", ["x", "w"], "m", Vec::new()),
        node("If", ["m", "v"], "y", rest.concat()),
        tensor("w", floats(4)),
        tensor("v", bytes(4, vec![0; 16])),
        value(11, "x"),
        value(12, "y"),
    ];
    let opset = [bytes(1, "ai.onnx"), number(2, 17)].concat();
    [number(1, 8), bytes(2, "tests"), bytes(7, graph.concat()), bytes(8, opset)].concat()
}

fn mutate(file: &[u8], i: u64) -> Vec<u8> {
    let at = random(3 * i) as usize % file.len();
    let value = boundary_values(file.len())[random(3 * i + 1) as usize % 23];
    match random(3 * i + 2) % 5 {
        0 => overwrite(file, at, &[value as u8]),
        1 => overwrite(file, at, &[file[at] ^ 1 << (value % 8)]),
        2 => [&file[..at], &varint(value), &file[at..]].concat(),
        3 => [&file[..at], &file[(at + 1 + value as usize % 8).min(file.len())..]].concat(),
        _ => overwrite(file, at, &varint(value)),
    }
}

fn check(file: Vec<u8>) -> Result<(), String> {
    let len = file.len();
    MEMORY.reset_peak_usage();
    let (before, start) = (MEMORY.current_usage(), Instant::now());
    let opened = Onnx::from_vec(file, "m.onnx");
    let used = MEMORY.peak_usage().saturating_sub(before);
    assert!(used < CONSTANT + TIMES * len, "{used} bytes for a file of {len}");
    assert!(
        start.elapsed() < patience(Duration::from_secs(10)),
        "a file of {len} took {:?}",
        start.elapsed()
    );
    let file = opened.map_err(|e| e.to_string())?;
    for name in file.tensor_names() {
        let (info, bytes) = file.raw(name).unwrap();
        assert_eq!(info.bytes, bytes.len());
        drop(file.optional(name));
    }
    Ok(())
}

#[test]
fn damaged_models_are_opened_or_refused_in_bounded_memory() {
    let _alone = crate::alone();
    let whole = model();
    check(whole.clone()).unwrap();
    let mut opened = 0;
    for len in 0..whole.len() {
        drop(check(whole[..len].to_vec()));
    }
    for i in 0..20_000 {
        let once = mutate(&whole, i);
        let twice = if i % 2 == 0 || once.is_empty() { once } else { mutate(&once, i + 1_000_000) };
        opened += usize::from(check(twice).is_ok());
    }
    assert!((300..15_000).contains(&opened), "{opened} mutations opened");
    // Many small things, up to the limits and beyond.
    let node = |i: usize| bytes(1, [bytes(2, format!("{i}")), bytes(4, "A")].concat());
    let many = |count: usize| bytes(7, (0..count).flat_map(node).collect::<Vec<_>>());
    check(many(200_000)).unwrap();
    for (file, wanted) in [
        (many(300_000), "number of nodes is 262145"),
        (
            bytes(7, bytes(1, [bytes(4, "A"), bytes(1, "").repeat(5_000_000)].concat())),
            "number of names is 4194305",
        ),
        (bytes(7, bytes(5, [number(2, 7), number(7, 1).repeat(3_000_000)].concat())), "24000000 bytes given"),
        (bytes(7, bytes(5, bytes(8, "n".repeat(1 << 20)))), "length of the name"),
        (bytes(7, bytes(11, bytes(1, "n".repeat(1 << 20)))), "length of the name"),
    ] {
        let error = check(file).unwrap_err();
        assert!(error.contains(wanted), "{error}");
    }
    // A chain of nodes in reverse order.
    let chain = |i: usize| {
        bytes(1, [bytes(1, format!("{i}")), bytes(2, format!("{}", i + 1)), bytes(4, "A")].concat())
    };
    let nodes: Vec<u8> = (0..100_000).rev().flat_map(chain).collect();
    check(bytes(7, [nodes, bytes(11, bytes(1, "0"))].concat())).unwrap();
}

#[test]
#[ignore = "writes the seed of the fuzz target"]
fn write_fuzz_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/onnx");
    std::fs::create_dir_all(folder).expect("folder is writable");
    std::fs::write(format!("{folder}/small.onnx"), model()).expect("folder is writable");
}
