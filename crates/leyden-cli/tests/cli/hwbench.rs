//! `leyden hwbench`: what is in its report. Times are not tested.

use crate::program::leyden;
use leyden_kernels::attention::KvType;
use leyden_kernels::gemm::act_format_of;
use leyden_kernels::{Level, PackedA, Tier};
use leyden_tensor::DType;

/// The level whose kernels the dispatcher takes here for so many columns.
fn picked(dtype: DType, columns: usize) -> &'static str {
    PackedA::tier_of(Tier::best(), act_format_of(dtype, false).unwrap(), columns).level().name()
}

/// Small enough to take milliseconds.
fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["hwbench", "-t", "2", "-r", "2", "--weights-mib", "0"], more].concat()
}

#[test]
fn every_type_and_tier_of_the_machine_is_measured() {
    let attention = ["--heads", "4x2", "--head-dim", "32", "--depth", "70"];
    let kernels = ["--shape", "33x256", "--columns", "1,5", "--json"];
    let document = leyden(&small(&[attention.as_slice(), &kernels].concat())).json();
    let tiers: Vec<&str> = Tier::available().iter().map(|t| t.level().name()).collect();
    assert_eq!(document["tiers"], serde_json::json!(tiers));
    let lacking = Level::native().filter(|l| Tier::new(*l).is_none()).count();
    assert_eq!(document["lacking"].as_array().unwrap().len(), lacking);
    assert_eq!(document["tier"], Tier::best().level().name());
    let kernels = document["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), DType::all().len() * tiers.len() * 2);
    for dtype in DType::all() {
        for tier in &tiers {
            for columns in [1_u32, 5] {
                let of = kernels
                    .iter()
                    .filter(|k| k["type"] == dtype.name() && k["tier"] == *tier && k["columns"] == columns);
                let of: Vec<_> = of.collect();
                assert_eq!(of.len(), 1, "{dtype} on {tier} x {columns}");
                let k = of[0];
                assert_eq!(
                    (&k["picked"], &k["rows"], &k["k"]),
                    (&(*tier == picked(dtype, columns as usize)).into(), &33.into(), &256.into())
                );
                // A single token takes the GEMV path on every tier.
                let kernel = k["kernel"].as_str().unwrap();
                assert!(
                    columns > 1 || kernel.starts_with("packed 1x1, 1 tile"),
                    "{dtype} on {tier}: {kernel}"
                );
                assert!(kernel.contains(" tile"), "{dtype} on {tier}: {kernel}");
                let seconds = k["median_seconds"].as_f64().unwrap();
                let macs = 33.0 * 256.0 * f64::from(columns) / seconds;
                assert!((k["macs_per_second"].as_f64().unwrap() / macs - 1.0).abs() < 1e-9);
                let read = k["weight_bytes"].as_f64().unwrap() / seconds;
                assert!((k["weight_bytes_per_second"].as_f64().unwrap() / read - 1.0).abs() < 1e-9);
                assert!(k["bandwidth_share"].is_null() || k["beyond_caches"] == true);
                assert!(k["products_share"].as_f64().unwrap() > 0.0);
                assert_eq!((&k["samples"], &k["copies"]), (&2.into(), &1.into()));
            }
        }
    }
    let attended = document["attention"].as_array().unwrap();
    assert_eq!(attended.len(), KvType::ALL.len() * tiers.len() * 2);
    for kv_type in KvType::ALL {
        for tier in &tiers {
            for tokens in [1_u32, 5] {
                let is = |a: &&serde_json::Value| {
                    a["kv_type"] == kv_type.name() && a["tier"] == *tier && a["tokens"] == tokens
                };
                let of: Vec<_> = attended.iter().filter(is).collect();
                assert_eq!(of.len(), 1, "{kv_type} on {tier} x {tokens}");
                let a = of[0];
                assert_eq!(a["picked"], *tier == document["tier"].as_str().unwrap());
                let shape = ["query_heads", "kv_heads", "head_dim", "depth", "copies"]
                    .map(|key| a[key].as_u64().unwrap());
                assert_eq!(shape, [4, 2, 32, 70, 1]);
                let seconds = a["median_seconds"].as_f64().unwrap();
                // The new tokens see 71, then 72 and so on.
                let seen: u32 = (71..71 + tokens).sum();
                let macs = 2.0 * 4.0 * 32.0 * f64::from(seen) / seconds;
                assert!((a["macs_per_second"].as_f64().unwrap() / macs - 1.0).abs() < 1e-9);
                let read = a["kv_bytes"].as_f64().unwrap() / seconds;
                assert!((a["kv_bytes_per_second"].as_f64().unwrap() / read - 1.0).abs() < 1e-9);
                assert!(a["bandwidth_share"].is_null() || a["beyond_caches"] == true);
                assert!(a["products_share"].as_f64().unwrap() > 0.0);
            }
        }
    }
    let threads = |key: &str| -> Vec<u64> {
        document[key].as_array().unwrap().iter().map(|b| b["threads"].as_u64().unwrap()).collect()
    };
    assert_eq!((threads("bandwidth"), threads("barriers")), (vec![1, 2], vec![1, 2]));
    let peaks = document["peaks"].as_array().unwrap();
    assert_eq!(peaks.len(), tiers.len());
    for p in peaks {
        assert!(p["int8_macs_per_second"].as_f64().unwrap() > 0.0);
        assert!(p["f32_macs_per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_table_marks_what_the_dispatcher_takes() {
    let best = picked(DType::Q8_0, 1);
    assert_eq!(best, picked(DType::F16, 1));
    let arguments =
        ["hwbench", "-t", "1", "-r", "1", "--shape", "16x32", "--columns", "1", "--types", "q8_0,F16"];
    let text = leyden(&[&arguments[..], &["--weights-mib", "1", "--isa", best]].concat()).ok();
    for wanted in
        ["GB/s read by 1 thread", "GMAC/s of int8", "us with 1 thread", "Q8_0", "F16", "packed 1x1, 1 tile"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let rows = text.lines().filter(|line| line.contains(&format!("{best}*")) && line.contains('%'));
    assert_eq!(rows.count(), 2, "{text}");
    assert!(!text.contains("Q4_K") && !text.contains("attention"), "{text}");
}

#[test]
fn types_of_keys_and_values_alone_are_attention_alone() {
    let best = Tier::best().level().name();
    let arguments =
        ["hwbench", "-t", "1", "-r", "1", "--columns", "1", "--kv-types", "f16,q8_0", "--depth", "70"];
    let more = ["--heads", "2x1", "--head-dim", "32", "--weights-mib", "1", "--isa", best];
    let text = leyden(&[&arguments[..], &more].concat()).ok();
    let rows = text.lines().filter(|line| line.contains("2x1") && line.contains('%'));
    assert_eq!(rows.count(), 2, "{text}");
    assert!(text.contains("keys and values") && !text.contains("GB/s of weights"), "{text}");
}

#[test]
fn wrong_usage_says_what_is_wanted() {
    let foreign = Level::ALL.into_iter().find(|l| Tier::new(*l).is_none()).unwrap();
    for (arguments, wanted) in [
        (["--shape", "12"], "4096x4096"),
        (["--shape", "0x256"], "4096x4096"),
        (["--shape", "16x100"], "block of 32"),
        (["--shape", "1048576x1048576"], "too large"),
        (["--columns", "0"], "--columns"),
        (["--types", "q9_k"], "known: f32"),
        (["-t", "0"], "threads"),
        (["-r", "0"], "repetitions"),
        (["--weights-mib", "99999999"], "MiB"),
        (["--kv-types", "q4_0"], "f16"),
        (["--heads", "12"], "32x8"),
        (["--heads", "12x8"], "is not a multiple of the key-value heads"),
        (["--head-dim", "48"], "multiple of 32"),
        (["--head-dim", "1024"], "up to 512"),
        (["--depth", "99999999"], "--depth"),
        (["--zeros", "101"], "--zeros"),
        (["--pattern", "2x2"], "known: any, 1x4, 4x1"),
        (["--isa", "sse2"], "no such tier"),
        (["--isa", foreign.name()], "this machine does not have"),
    ] {
        let said = leyden(&[&["hwbench"], &arguments[..]].concat()).failed(2);
        assert!(said.contains(wanted), "{arguments:?}: {said}");
    }
}

#[test]
fn layouts_of_int8_rows_are_measured_only_where_they_are_asked_for() {
    let shape = ["--shape", "70x128", "--columns", "5", "--isa", "scalar", "--json"];
    let zeros = ["--zeros", "0,90", "--pattern", "4x1"];
    let document = leyden(&small(&[shape.as_slice(), &zeros].concat())).json();
    assert_eq!(document["kernels"], serde_json::json!([]));
    let layouts = document["int8_rows"].as_array().unwrap();
    for zeros in [0, 90] {
        let of: Vec<_> = layouts.iter().filter(|l| l["zeros_percent"] == zeros).collect();
        let names: Vec<_> = of.iter().map(|l| l["layout"].as_str().unwrap()).collect();
        assert!(names.starts_with(&["int8-rows", "sparse-rows", "sparse-fours"]), "{names:?}");
        assert_eq!(of[0]["times_dense"], 1.0);
        let bytes = |i: usize| of[i]["weight_bytes"].as_u64().unwrap();
        assert_eq!(bytes(1) < bytes(0), zeros == 90, "{of:?}");
    }
    assert!(
        leyden(&small(&["--types", "f32", "--shape", "16x32", "--isa", "scalar", "--json"]))
            .json()
            .get("int8_rows")
            .is_none()
    );
}
