//! Relations between predictions that hold whatever the constants are.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use leyden_compress::Target;
use leyden_kernels::attention::KvType;
use leyden_plan::{
    Figures, Machine, ModelFacts, Slo, Stated, Table, Workload, encoder_figures, figures, max_context,
    memory, users_within,
};
use leyden_tensor::{DType, Json};

const LLAMA: &str = include_str!("../data/shapes/llama-3.1-8b.json");
const GPT_OSS: &str = include_str!("../data/shapes/gpt-oss-20b.json");
const GEMMA: &str = include_str!("../data/shapes/gemma-3-1b.json");
const BERT: &str = include_str!("../data/shapes/bert-base.json");

fn model(json: &str, types: &str) -> ModelFacts {
    let json = Json::parse(json.as_bytes(), "config.json").unwrap();
    ModelFacts::of_json(&json, DType::F16).unwrap().with_types(Target::from_name(types).unwrap())
}

fn machine(name: &str) -> Machine {
    Table::read().unwrap().find(name).unwrap().machine(&Stated::default()).unwrap()
}

fn load(users: usize) -> Workload {
    Workload { users, prompt: 512, output: 128, context: 1024, step_tokens: 512, kv_type: KvType::F16 }
}

/// Published sizes: 8.03 B parameters, 4.58 GiB in Q4_K_M, 32 KiB of f16 keys and values for each of 32 layers' tokens.
#[test]
fn sizes_of_llama_are_the_published_ones() {
    let llama = model(LLAMA, "Q4_K_M");
    assert!((llama.parameters() as f64 / 8.03e9 - 1.0).abs() < 0.001, "{}", llama.parameters());
    assert!(
        (llama.weight_bytes() as f64 / (4.58 * f64::from(1 << 30)) - 1.0).abs() < 0.02,
        "{}",
        llama.weight_bytes()
    );
    let parts = memory(&llama, &load(1)).unwrap();
    assert_eq!((parts.kv_token_bytes, parts.kv_bytes), (128 << 10, 128 << 20));
    assert_eq!(memory(&llama, &load(3)).unwrap().kv_bytes, 3 * (128 << 20));
    let q8 = memory(&llama, &Workload { kv_type: KvType::Q8_0, ..load(1) }).unwrap();
    assert!(q8.kv_bytes < parts.kv_bytes * 6 / 10);
    let sum: u64 = parts.weights.iter().map(|t| t.bytes).sum();
    assert_eq!(sum, parts.weight_bytes);
}

#[test]
fn layers_with_a_window_keep_the_window() {
    let gemma = model(GEMMA, "Q4_K_M");
    let at = |context| memory(&gemma, &Workload { context, ..load(1) }).unwrap().kv_bytes;
    // Of 26 layers 4 see the whole context.
    let (short, long) = (at(8192), at(32768));
    assert!(
        long < 4 * short && long - short > (32768 - 8192) * 4 * 2 * 256 * 2 - (1 << 20),
        "{short} {long}"
    );
}

#[test]
fn the_longest_context_is_the_longest_that_fits() {
    let llama = model(LLAMA, "Q4_K_M");
    for gib in [4_u64, 6, 8, 64] {
        let available = gib << 30;
        let total = |context| memory(&llama, &Workload { context, ..load(2) }).unwrap().total_bytes;
        match max_context(&llama, &load(2), available) {
            None => assert!(total(64) > available),
            Some(context) => {
                assert!(total(context) <= available);
                assert!(
                    context == llama.config.context || total(context + 128) > available,
                    "{gib}: {context}"
                );
            }
        }
    }
}

#[test]
fn more_users_are_more_tokens_in_all_and_fewer_for_each() {
    for name in ["c7i.4xlarge", "epyc-9334", "c7g.metal", "c6g.16xlarge"] {
        for llama in [model(LLAMA, "Q4_K_M"), model(GPT_OSS, "MXFP4")] {
            let machine = machine(name);
            let of = |users| figures(&llama, &machine, &load(users));
            let mut last: Option<Figures> = None;
            for users in [1, 2, 4, 8, 16, 64, 256] {
                let now = of(users);
                for x in [now.prefill_tps, now.decode_tps, now.ttft_s, now.user_tps, now.output_tps] {
                    assert!(
                        x.low > 0.0 && x.low <= x.value && x.value <= x.high && x.high.is_finite(),
                        "{x:?}"
                    );
                }
                if let Some(last) = last {
                    assert!(now.decode_tps.value <= last.decode_tps.value, "{name} {users}");
                    assert!(now.decode_tps_all.value >= last.decode_tps_all.value * 0.98, "{name} {users}");
                    assert!(now.ttft_s.value >= last.ttft_s.value, "{name} {users}");
                }
                last = Some(now);
            }
        }
    }
}

/// Only a token's experts are read: a mixture of 21 B parameters decodes faster than a dense model of 8 B.
#[test]
fn a_mixture_reads_the_chosen_experts() {
    let machine = machine("epyc-9334");
    let of = |model: &ModelFacts, users| figures(model, &machine, &load(users)).decode_tps.value;
    let (dense, mixture) = (model(LLAMA, "Q8_0"), model(GPT_OSS, "MXFP4"));
    assert!(of(&mixture, 1) > of(&dense, 1));
    assert!((mixture.parameters() as f64 / 20.9e9 - 1.0).abs() < 0.01, "{}", mixture.parameters());
}

#[test]
fn users_within_limits_keep_them() {
    let (llama, machine) =
        (model(LLAMA, "Q4_K_M"), Machine { memory_bytes: Some(64 << 30), ..machine("c7g.metal") });
    let slo = Slo { ttft_s: Some(3.0), user_tps: Some(4.0) };
    let users = users_within(&llama, &machine, &load(1), &slo);
    assert!(users.low <= users.value && users.value <= users.high && users.value >= 1.0, "{users:?}");
    let keeps = |n: f64| {
        let f = figures(&llama, &machine, &load(n as usize));
        f.ttft_s.value <= 3.0 && f.user_tps.value >= 4.0
    };
    assert!(keeps(users.value) && !keeps(users.value + 1.0), "{users:?}");
    let none = users_within(&llama, &machine, &load(1), &Slo { ttft_s: Some(1e-6), user_tps: None });
    assert_eq!(none.value, 0.0);
    let small = Machine { memory_bytes: Some(1 << 30), ..machine };
    assert_eq!(users_within(&llama, &small, &load(1), &Slo::default()).high, 0.0);
}

#[test]
fn integers_make_an_encoder_faster_and_long_texts_make_it_slower() {
    let machine = machine("epyc-9334");
    let of = |types, tokens| encoder_figures(&model(BERT, types), &machine, tokens, 512).documents_per_hour;
    assert!(of("INT8", 128).value > 2.0 * of("F32", 128).value);
    assert!(of("F32", 64).value > of("F32", 128).value && of("F32", 128).value > 2.0 * of("F32", 512).value);
    let x = of("INT8", 512);
    assert!(x.low < x.value && x.value < x.high);
}
