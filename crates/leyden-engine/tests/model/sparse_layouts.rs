//! Layouts of encoders' INT8 rows: results do not depend on them, nor on the pack that keeps them.

use super::encoders::{folder, golden, states, texts};
use leyden_engine::{Engine, EngineOptions};
use leyden_kernels::attention::KvType;
use leyden_kernels::gemm::LayoutRule;
use leyden_kernels::{Cpu, Tier};
use leyden_models::{HfModel, LoadAs, Make, PackCache, PackReport};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Folder of a tiny BERT of which nine weights of ten in the matrices of its layers are zero.
fn pruned() -> TempDir {
    let golden = golden();
    let model = golden["models"].as_array().unwrap().iter().find(|m| m["name"] == "bert").unwrap();
    let folder = folder(model);
    let path = folder.path().join("model.safetensors");
    let mut file = std::fs::read(&path).unwrap();
    let n = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: Json = serde_json::from_slice(&file[8..n]).unwrap();
    for (name, tensor) in header.as_object().unwrap() {
        if !name.contains("layer.") || tensor["shape"].as_array().unwrap().len() != 2 {
            continue;
        }
        let range =
            tensor["data_offsets"].as_array().unwrap().iter().map(|x| n + x.as_u64().unwrap() as usize);
        let range: Vec<usize> = range.collect();
        for (i, value) in file[range[0]..range[1]].as_chunks_mut::<4>().0.iter_mut().enumerate() {
            if i * 7919 % 101 % 10 != 0 {
                *value = [0; 4];
            }
        }
    }
    std::fs::write(&path, file).unwrap();
    folder
}

/// Returns the hidden states of texts, and the report of loading.
fn computed(folder: &Path, tier: Tier, load: &LoadAs) -> (Vec<Vec<Vec<f32>>>, PackReport) {
    let source = Arc::new(HfModel::open(folder).unwrap());
    let cpu = Arc::new(Cpu::new(tier, 2).unwrap());
    let (model, report) = leyden_models::load_as(source, &cpu, load, &mut |_, _| {}).unwrap();
    let context = model.config().context;
    let options =
        EngineOptions { kv_type: KvType::F32, context, cache_tokens: 8 * context, step_tokens: 2048 };
    let mut engine = Engine::new(model, cpu, options).unwrap();
    let texts = texts(&golden());
    (states(&mut engine, &texts.iter().map(Vec::as_slice).collect::<Vec<_>>()), report)
}

fn layouts(report: &PackReport) -> Vec<&str> {
    report.int8.layouts.iter().map(|choice| choice.layout).collect()
}

#[test]
fn dense_and_sparse_layouts_give_the_same_bits_on_every_tier() {
    let folder = pruned();
    let of =
        |tier, layout| computed(folder.path(), tier, &LoadAs { int8: true, layout, ..LoadAs::default() });
    let (want, report) = of(Tier::SCALAR, LayoutRule::Dense);
    let matrices = layouts(&report).len();
    assert!(matrices > 0 && layouts(&report).iter().all(|layout| *layout == "int8-rows"));
    assert!(report.int8.layouts.iter().all(|choice| choice.zeros > 0.85 && choice.times.is_empty()));
    for tier in Tier::available() {
        let (got, report) = of(tier, LayoutRule::Sparse);
        assert!(got == want, "sparse on {}", tier.level());
        assert!(
            layouts(&report).iter().all(|layout| layout.starts_with("sparse-")),
            "{:?}",
            layouts(&report)
        );
        let (got, report) = of(tier, LayoutRule::Fastest);
        assert!(got == want, "fastest on {}", tier.level());
        assert!(report.int8.layouts.iter().all(|choice| choice.times.len() >= 2));
    }
}

#[test]
fn packs_keep_int8_rows_with_their_layouts_and_outlier_channels() {
    let folder = pruned();
    let packs = tempfile::tempdir().unwrap();
    for int8 in [true, false] {
        for map in [false, true] {
            let cache = PackCache::Folder { path: packs.path().join("p"), make: Make::Missing, map };
            let load = LoadAs { packs: cache, int8, layout: LayoutRule::Fastest };
            let (want, made) = computed(folder.path(), Tier::best(), &load);
            let (got, read) = computed(folder.path(), Tier::best(), &load);
            assert!(got == want, "int8 {int8}, mapped {map}");
            assert_eq!((&read.made, read.mapped), (&None, map));
            assert!(read.read.is_some() && read.notes.is_empty(), "{:?}", read.notes);
            assert_eq!(layouts(&made), layouts(&read));
            assert_eq!(made.int8.matrices, read.int8.matrices);
        }
    }
    // A damaged matrix: all are packed again, because outlier channels are found with all of them unfinished.
    let cache = PackCache::Folder { path: packs.path().join("p"), make: Make::Missing, map: false };
    let load = LoadAs { packs: cache, int8: true, layout: LayoutRule::Fastest };
    let (want, report) = computed(folder.path(), Tier::best(), &load);
    let pack = report.read.unwrap();
    let whole = std::fs::read(&pack).unwrap();
    let mut damaged = whole.clone();
    // Matrices begin at pages, so some bytes are padding.
    for byte in damaged.iter_mut().skip(whole.len() / 2).step_by(97) {
        *byte ^= 1;
    }
    std::fs::write(&pack, damaged).unwrap();
    let (got, report) = computed(folder.path(), Tier::best(), &load);
    assert!(got == want, "damage");
    assert_eq!(report.made.as_ref(), Some(&pack));
    assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
    let (got, report) = computed(folder.path(), Tier::best(), &load);
    assert!(got == want && report.read.is_some(), "the pack is whole again");
    // A rule other than the fastest layout has no use for the pack.
    let (got, report) = computed(folder.path(), Tier::best(), &LoadAs { layout: LayoutRule::Dense, ..load });
    assert!(got == want && report.read.is_none() && report.made.is_none());
    assert!(layouts(&report).iter().all(|layout| *layout == "int8-rows"));
}
