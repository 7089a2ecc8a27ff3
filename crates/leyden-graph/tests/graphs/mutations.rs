//! Damaged graphs: loading and running ends in a result or an error, within bounds; never in a panic.

use crate::cases::read;
use crate::nodes::folder;
use leyden_graph::{Limits, Model, Options};
use leyden_kernels::{Cpu, Tier};
use leyden_testkit::{boundary_values, overwrite, patience, random};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Mutations of each test's graph.
const EACH: u64 = 6;

fn mutated(file: &[u8], seed: u64) -> Vec<u8> {
    let at = random(3 * seed) as usize % file.len();
    let value = boundary_values(file.len())[random(3 * seed + 1) as usize % 23];
    match random(3 * seed + 2) % 4 {
        0 => overwrite(file, at, &[value as u8]),
        1 => overwrite(file, at, &[file[at] ^ 1 << (value % 8)]),
        2 => overwrite(file, at, &[(random(seed) % 9) as u8]),
        _ => overwrite(file, at, &[file[at].wrapping_add((random(seed) % 5) as u8).wrapping_sub(2)]),
    }
}

#[test]
fn damaged_graphs_give_results_or_errors() {
    let Some(folder) = folder() else { return };
    let list: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("tests.json")).unwrap()).unwrap();
    let cpu = Cpu::new(Tier::best(), 1).unwrap();
    let limits = Limits { tensor_bytes: 1 << 24, nodes: 20_000 };
    let options = Options { limits, ..Options::default() };
    let (mut loaded, mut ran, mut panicked, mut slow) = (0, 0, Vec::new(), Vec::new());
    let temporary = tempfile::tempdir().unwrap();
    let place = temporary.path().join("io.onnx");
    let mut damaged_case;
    std::panic::set_hook(Box::new(|_| {}));
    for (i, test) in list["tests"].as_array().unwrap().iter().enumerate() {
        let name = test["name"].as_str().unwrap();
        let file = std::fs::read(folder.join(format!("{name}.onnx"))).unwrap();
        let io = folder.join(format!("{name}.0.io.onnx"));
        let Ok(whole) = read(&io) else { continue };
        let io = std::fs::read(io).unwrap();
        for m in 0..EACH {
            let seed = i as u64 * 1000 + m;
            // Every other time the inputs are damaged instead: indices, axes and sizes among them.
            let damaged = (m % 2 == 1).then(|| {
                std::fs::write(&place, mutated(&io, seed)).unwrap();
                read(&place).ok()
            });
            let (bytes, case) = match damaged {
                None => (mutated(&file, seed), &whole),
                Some(None) => continue,
                Some(Some(case)) => {
                    damaged_case = case;
                    (file.clone(), &damaged_case)
                }
            };
            let start = Instant::now();
            let run = || {
                let Ok(model) = Model::from_vec(bytes, "m.onnx", &cpu, options) else { return (1, 0) };
                let names = model.inputs().into_iter().map(|input| input.name);
                let inputs = names.zip(case.inputs.iter().cloned()).collect();
                (1, usize::from(model.run(&cpu, inputs).is_ok()))
            };
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok((l, r)) => {
                    loaded += l;
                    ran += r;
                }
                Err(e) => {
                    let text = e.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| e.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                    panicked.push(format!("{name} {m}: {}", text.unwrap_or_default()));
                }
            }
            if start.elapsed() > patience(Duration::from_secs(5)) {
                slow.push(format!("{name} {m}: {:?}", start.elapsed()));
            }
        }
    }
    drop(std::panic::take_hook());
    eprintln!("{loaded} mutations, {ran} ran");
    assert!(panicked.is_empty(), "{} panicked:\n{}", panicked.len(), panicked.join("\n"));
    assert!(slow.is_empty(), "{slow:?}");
    assert!(ran > 1000, "only {ran} mutations ran");
}
