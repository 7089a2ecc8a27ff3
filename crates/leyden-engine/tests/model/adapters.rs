//! LoRA adapters compared with PEFT (`tests/golden/make/adapters.py`), each format on models in both formats; in steps
//! with others; their part of the prefix cache; and refused files.

use super::decoders::{bytes, folder, goldens, ids, tensors, value};
use super::shared::{difference, engine_on, own};
use leyden_engine::{
    Adapter, AdapterSet, Engine, ErrorKind, Outputs, Scope, SequenceId, StepEntry, StepPlan,
};
use leyden_kernels::attention::{BLOCK_TOKENS, KvType};
use leyden_kernels::{Cpu, Level, Tier};
use leyden_models::HfModel;
use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A tensor's name, shape and values.
type Named = (String, Vec<usize>, Vec<f32>);

/// The cases, each with the tiny decoder that it is for.
fn cases() -> Vec<(Json, Json)> {
    let read = std::fs::read_to_string(own("tests/golden/adapters.json")).unwrap();
    let all: Json = serde_json::from_str(&read).unwrap();
    let decoders = goldens();
    let with_decoder = |case: &Json| {
        let (_, golden) = decoders.iter().find(|(name, _)| case["decoder"] == **name).unwrap();
        (case.clone(), golden["models"][case["model"].as_u64().unwrap() as usize].clone())
    };
    all["cases"].as_array().unwrap().iter().map(with_decoder).collect()
}

fn tokens() -> Vec<u32> {
    ids(&goldens().iter().find(|(name, _)| name == "mistral").unwrap().1["tokens"])
}

/// A file of safetensors.
fn safetensors(tensors: &[Named]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape, values) in tensors {
        let start = data.len();
        data.extend(bytes(values));
        header.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = Json::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// A folder as PEFT writes it.
fn peft(config: &Json, tensors: &[Named]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("adapter_config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("adapter_model.safetensors"), safetensors(tensors)).unwrap();
    folder
}

fn of_case(case: &Json) -> TempDir {
    peft(&case["config"], &tensors(&case["tensors"]))
}

fn engine_of(source: Arc<dyn WeightSource>) -> Engine {
    engine_on(source, Cpu::new(Tier::best(), 2).unwrap().with_exact(true), KvType::F32)
}

fn of_folder(model: &Json) -> Engine {
    engine_of(Arc::new(HfModel::open(folder(model).path()).unwrap()))
}

fn adapter(e: &Engine, path: &Path) -> Result<Arc<Adapter>, String> {
    e.model().adapter(e.cpu(), path).map(Arc::new).map_err(|error| error.to_string())
}

fn set<'a>(adapters: impl IntoIterator<Item = (&'a Arc<Adapter>, f32)>) -> AdapterSet {
    AdapterSet::new(adapters.into_iter().map(|(adapter, scale)| (Arc::clone(adapter), scale))).unwrap()
}

/// The logits of a text, of which so many tokens are a prompt.
fn rows(e: &mut Engine, adapters: &AdapterSet, tokens: &[u32], prompt: usize) -> Vec<Vec<f32>> {
    let sequence = e.open_adapted(adapters.clone());
    let mut rows = Vec::new();
    for part in [&tokens[..prompt]].into_iter().chain(tokens[prompt..].chunks(1)) {
        let entry = StepEntry { sequence, tokens: part.to_vec(), outputs: Outputs::From(0) };
        let output = e.step(&StepPlan { entries: vec![entry] }).unwrap();
        rows.extend(output.rows().map(|r| r.logits.to_vec()));
    }
    e.close(sequence);
    rows
}

#[test]
fn logits_are_those_of_peft() {
    let tokens = tokens();
    for (case, model) in cases() {
        let mut e = of_folder(&model);
        let adapter = adapter(&e, of_case(&case).path()).unwrap_or_else(|e| panic!("{}: {e}", case["name"]));
        assert!(adapter.bytes() > 0 && adapter.rank() > 0);
        for prompt in [100, 50, 1] {
            let off = difference(&rows(&mut e, &set([(&adapter, 1.0)]), &tokens, prompt), &case["logits"]);
            assert!(off < 1e-4, "{} split {prompt}: {off:e}", case["name"]);
        }
        // Without it the model is what it was.
        let plain = rows(&mut e, &AdapterSet::default(), &tokens, 100);
        assert!(difference(&plain, &case["logits"]) > 0.05, "{}", case["name"]);
        assert!(difference(&plain, &model["logits"]) < 1e-4, "{}", case["name"]);
        assert!(plain == rows(&mut e, &set([(&adapter, 0.0)]), &tokens, 100), "{}", case["name"]);
    }
}

/// GGUF's names of a decoder's modules.
const NAMES: [(&str, &str); 9] = [
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("post_attention_layernorm", "ffn_norm"),
    ("input_layernorm", "attn_norm"),
];

/// A tensor of a Llama as GGUF has it: its name without what is behind the module's, and its rows.
fn to_gguf(name: &str, rows: usize, values: &[f32], head: Option<usize>) -> (String, Vec<f32>) {
    let whole = [("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")];
    if let Some((_, gguf)) = whole.iter().find(|(hf, _)| name.starts_with(hf)) {
        return ((*gguf).to_owned(), values.to_vec());
    }
    let (layer, rest) = name.strip_prefix("model.layers.").unwrap().split_once('.').unwrap();
    let (_, part) = NAMES.iter().find(|(hf, _)| rest.starts_with(hf)).unwrap();
    let columns = values.len() / rows;
    let mut out = values.to_vec();
    if let Some(head) = head.filter(|_| ["attn_q", "attn_k"].contains(part)) {
        for (i, row) in out.chunks_exact_mut(columns).enumerate() {
            // The halves of a head in turns.
            let from = i / head * head + i % 2 * (head / 2) + i % head / 2;
            row.copy_from_slice(&values[from * columns..(from + 1) * columns]);
        }
    }
    (format!("blk.{layer}.{part}"), out)
}

/// The model of the first case as llama.cpp's converter would write it, with the folder's weights.
fn llama_gguf(model: &Json) -> Arc<Gguf> {
    let mut file = GgufWriter::new();
    for (key, entry) in model["gguf"]["meta"].as_object().unwrap() {
        file.set(key, value(entry[0].as_str().unwrap(), &entry[1]));
    }
    let head = model["config"]["head_dim"].as_u64().unwrap() as usize;
    for (name, shape, values) in tensors(&model["tensors"]) {
        let (name, values) = to_gguf(&name, shape[0], &values, Some(head));
        file.add_tensor(&format!("{name}.weight"), DType::F32, &shape, bytes(&values)).unwrap();
    }
    Arc::new(Gguf::from_vec(file.to_vec().unwrap(), "m.gguf").unwrap())
}

/// A file of an adapter, as llama.cpp's converter writes it.
fn adapter_gguf(alpha: f32, tensors: &[Named], head: usize) -> GgufWriter<'static> {
    let mut file = GgufWriter::new();
    file.set("general.architecture", "llama".into());
    file.set("general.type", "adapter".into());
    file.set("adapter.type", "lora".into());
    file.set("adapter.lora.alpha", Value::F32(alpha));
    for (name, shape, values) in tensors {
        let name = name.strip_prefix("base_model.model.").unwrap();
        let (module, up) = match name.strip_suffix(".lora_B.weight") {
            Some(module) => (module, true),
            None => (name.strip_suffix(".lora_A.weight").unwrap(), false),
        };
        let end = if up { "b" } else { "a" };
        let (target, values) = to_gguf(module, shape[0], values, up.then_some(head));
        file.add_tensor(&format!("{target}.weight.lora_{end}"), DType::F32, shape, bytes(&values)).unwrap();
    }
    file
}

/// The second case has one rank and one scale for all, as files of GGUF do.
fn plain_case() -> (Json, Json) {
    cases().swap_remove(1)
}

/// The alpha with which a GGUF file has the scale of the case, whose root of the rank it does not know.
fn alpha(case: &Json) -> f32 {
    let (alpha, rank) =
        (case["config"]["lora_alpha"].as_f64().unwrap(), case["config"]["r"].as_f64().unwrap());
    (alpha * rank.sqrt()) as f32
}

#[test]
fn either_format_is_for_models_in_either_format() {
    let (case, model) = plain_case();
    let (tokens, head) = (tokens(), model["config"]["head_dim"].as_u64().unwrap() as usize);
    let folder = of_case(&case);
    let gguf = folder.path().join("adapter.gguf");
    adapter_gguf(alpha(&case), &tensors(&case["tensors"]), head).write_to(&gguf).unwrap();
    for (name, mut e) in [("folder", of_folder(&model)), ("GGUF", engine_of(llama_gguf(&model)))] {
        assert!(difference(&rows(&mut e, &AdapterSet::default(), &tokens, 100), &model["logits"]) < 1e-4);
        for path in [folder.path(), &gguf] {
            let adapter = adapter(&e, path).unwrap();
            let off = difference(&rows(&mut e, &set([(&adapter, 1.0)]), &tokens, 100), &case["logits"]);
            assert!(off < 1e-4, "{} on {name}: {off:e}", path.display());
        }
    }
    // Twice the half is the whole, as far as rounding goes.
    let mut e = of_folder(&model);
    let adapter = adapter(&e, folder.path()).unwrap();
    let off =
        difference(&rows(&mut e, &set([(&adapter, 0.5), (&adapter, 0.5)]), &tokens, 100), &case["logits"]);
    assert!(off < 1e-4, "{off:e}");
}

/// All logits of texts that are computed together, each with adapters of its own.
fn together(e: &mut Engine, texts: &[(&AdapterSet, Vec<u32>)], piece: usize) -> Vec<Vec<u32>> {
    let ids: Vec<SequenceId> =
        texts.iter().map(|(adapters, _)| e.open_adapted((*adapters).clone())).collect();
    let mut all = vec![Vec::new(); texts.len()];
    let longest = texts.iter().map(|(_, text)| text.len()).max().unwrap();
    for from in (0..longest).step_by(piece) {
        let part = |(sequence, (_, text)): (&SequenceId, &(&AdapterSet, Vec<u32>))| {
            let tokens = text.get(from..(from + piece).min(text.len()))?.to_vec();
            let outputs = Outputs::From(0);
            (!tokens.is_empty()).then_some(StepEntry { sequence: *sequence, tokens, outputs })
        };
        let entries = ids.iter().zip(texts).filter_map(part).collect();
        let output = e.step(&StepPlan { entries }).unwrap();
        for row in output.rows() {
            let at = ids.iter().position(|id| *id == row.sequence).unwrap();
            all[at].extend(row.logits.iter().map(|x| x.to_bits()));
        }
    }
    ids.into_iter().for_each(|id| e.close(id));
    all
}

#[test]
fn a_text_gets_the_same_bits_in_any_company() {
    let tokens = tokens();
    for at in [0, 2, 5] {
        let (case, model) = cases().swap_remove(at);
        let mut other = case.clone();
        for row in other["tensors"].as_array_mut().unwrap() {
            row[3] = json!(0.01);
        }
        let (one, other) = (of_case(&case), of_case(&other));
        let run = |tier: Tier, threads: usize, piece: usize, alone: bool| {
            let source = Arc::new(HfModel::open(folder(&model).path()).unwrap());
            let mut e = engine_on(source, Cpu::new(tier, threads).unwrap(), KvType::F16);
            let [one, other] = [&one, &other].map(|folder| adapter(&e, folder.path()).unwrap());
            let sets = [
                AdapterSet::default(),
                set([(&one, 1.0)]),
                set([(&other, 0.75)]),
                set([(&one, 1.0)]),
                set([(&other, -0.5), (&one, 2.0)]),
            ];
            let texts: Vec<(&AdapterSet, Vec<u32>)> =
                sets.iter().zip([100, 70, 99, 31, 64]).map(|(set, n)| (set, tokens[..n].to_vec())).collect();
            match alone {
                true => texts
                    .iter()
                    .flat_map(|text| together(&mut e, std::slice::from_ref(text), piece))
                    .collect(),
                false => together(&mut e, &texts, piece),
            }
        };
        let want = run(Tier::best(), 2, 100, true);
        assert!(want[1][..] != want[3][..want[3].len().min(10)] && want[0][..500] != want[1][..500]);
        for (tier, threads, piece, alone) in [
            (Tier::best(), 2, 100, false),
            (Tier::best(), 1, 17, false),
            (Tier::new(Level::Scalar).unwrap(), 2, 33, false),
            (Tier::best(), 2, 1, true),
        ] {
            let got = run(tier, threads, piece, alone);
            assert!(got == want, "{}: {threads} threads, pieces of {piece}, alone {alone}", case["name"]);
        }
    }
}

#[test]
fn what_one_adapter_computed_is_not_reused_for_another() {
    let (case, model) = plain_case();
    let mut e = of_folder(&model);
    let path = of_case(&case);
    let (one, again) = (adapter(&e, path.path()).unwrap(), adapter(&e, path.path()).unwrap());
    let scope = |adapters: AdapterSet| {
        let (model, owner, salt) = ("m".to_owned(), String::new(), String::new());
        Arc::new(Scope { model, kv_type: KvType::F32, owner, adapters, salt })
    };
    let text: Vec<u32> = (0..2 * BLOCK_TOKENS as u32 + 5).map(|i| (i * 7 + 3) % 96).collect();
    let (id, cached) = e.tables_mut().open_shared(scope(set([(&one, 1.0)])), &text);
    assert_eq!(cached, 0);
    let entry = StepEntry { sequence: id, tokens: text.clone(), outputs: Outputs::None };
    e.step(&StepPlan { entries: vec![entry] }).unwrap();
    e.tables_mut().publish(id, &text).unwrap();
    let cached = |adapters| e.tables().fit(Some(&scope(adapters)), &text, text.len()).cached_tokens;
    assert_eq!(cached(set([(&one, 1.0)])), 2 * BLOCK_TOKENS);
    assert_eq!(cached(AdapterSet::default()), 0);
    assert_eq!(cached(set([(&one, 0.5)])), 0);
    assert_eq!(cached(set([(&one, 1.0), (&again, 1.0)])), 0);
    assert_eq!(cached(set([(&again, 1.0)])), 0);
}

#[test]
fn an_adapter_is_for_the_model_that_it_was_read_for() {
    let (case, model) = plain_case();
    let (e, mut other) = (of_folder(&model), of_folder(&model));
    let adapters = set([(&adapter(&e, of_case(&case).path()).unwrap(), 1.0)]);
    let sequence = other.open_adapted(adapters);
    let entry = StepEntry { sequence, tokens: vec![1], outputs: Outputs::Last };
    let refused = other.step(&StepPlan { entries: vec![entry] }).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::ForeignAdapter));
}

#[test]
fn scales_are_numbers() {
    let (case, model) = plain_case();
    let e = of_folder(&model);
    let one = adapter(&e, of_case(&case).path()).unwrap();
    for scale in [f32::NAN, f32::INFINITY] {
        let refused = AdapterSet::new([(Arc::clone(&one), scale)]).unwrap_err().to_string();
        assert!(refused.contains("scale") && refused.contains("not a finite number"), "{refused}");
    }
}

#[test]
fn folders_that_cannot_be_computed_are_refused_by_name() {
    let (case, model) = plain_case();
    let e = of_folder(&model);
    let refused =
        |config: &Json, tensors: &[Named]| adapter(&e, peft(config, tensors).path()).map(|_| ()).unwrap_err();
    let plain = tensors(&case["tensors"]);
    for (key, value, wanted) in [
        ("peft_type", json!("IA3"), "peft_type: adapters of type `IA3` are not supported"),
        ("peft_type", Json::Null, "peft_type"),
        ("use_dora", json!(true), "use_dora: DoRA"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save: modules that were trained whole"),
        ("bias", json!("all"), "bias: `all`"),
        ("init_lora_weights", json!("pissa_niter_4"), "init_lora_weights: `pissa_niter_4`"),
        ("lora_bias", json!(true), "lora_bias"),
        ("trainable_token_indices", json!([1]), "trainable_token_indices"),
        ("target_parameters", json!(["mlp.experts.gate_up_proj"]), "target_parameters"),
        ("r", json!(0), "r: is 0"),
        ("r", json!("x"), "r: want"),
        ("r", json!(8), "does not fit rank 8"),
        ("r", json!(4_000_000_000_u32), "does not fit rank 4000000000"),
        ("lora_alpha", json!([]), "lora_alpha"),
        ("lora_alpha", json!(1e39), "lora_alpha"),
        ("rank_pattern", json!({"q_.*": 4}), "rank_pattern: `q_.*`"),
        ("rank_pattern", json!({"q_proj": "x"}), "rank_pattern"),
        ("alpha_pattern", json!([1]), "alpha_pattern"),
        ("alpha_pattern", json!({"q_proj": null}), "alpha_pattern"),
    ] {
        let mut config = case["config"].clone();
        config[key] = value;
        let error = refused(&config, &plain);
        assert!(error.contains("adapter_config.json") || error.contains("adapter_model"), "{error}");
        assert!(error.contains(wanted), "{error} lacks {wanted}");
    }
    let name = |module: &str, half: &str| format!("base_model.model.{module}.lora_{half}.weight");
    let rank = case["config"]["r"].as_u64().unwrap() as usize;
    let mut config = case["config"].clone();
    config["base_model_name_or_path"] = json!("org/other");
    for (module, wanted) in [
        ("model.layers.0.mlp.experts.1.up_proj", "adapters of a mixture's experts are not supported"),
        ("model.embed_tokens", "adapters of the embedding are not supported"),
        ("lm_head", "adapters of the output head are not supported"),
        ("model.layers.0.input_layernorm", "adapters of a norm are not supported"),
        ("model.layers.0.self_attn.qkv_proj", "has no projection model.layers.0.self_attn.qkv_proj"),
        ("model.layers.7.self_attn.q_proj", "has no projection blk.7.attn_q"),
        ("transformer.h.0.attn.c_attn", "the adapter was made for org/other"),
    ] {
        let half = |which: &str, shape: [usize; 2]| {
            (name(module, which), shape.to_vec(), vec![0.0; shape[0] * shape[1]])
        };
        let error = refused(&config, &[half("A", [rank, 48]), half("B", [48, rank])]);
        assert!(
            error.contains("adapter_model.safetensors") && error.contains(wanted),
            "{error} lacks {wanted}"
        );
    }
    let change = |change: &dyn Fn(&mut Vec<Named>)| {
        let mut tensors = plain.clone();
        change(&mut tensors);
        refused(&case["config"], &tensors)
    };
    assert!(change(&|t| t.clear()).contains("has no matrices of a LoRA adapter"));
    assert!(change(&|t| drop(t.remove(0))).contains("lora_A is missing"));
    assert!(change(&|t| drop(t.remove(1))).contains("lora_B is missing"));
    assert!(change(&|t| t[0].2[3] = f32::NAN).contains("values that are not finite numbers"));
    assert!(change(&|t| t[1].2[0] = f32::INFINITY).contains("values that are not finite numbers"));
    assert!(change(&|t| t[0].0 += ".x").contains("is not a matrix of a LoRA adapter"));
    let wide = |t: &mut Vec<Named>| {
        (t[0].1[1], t[0].2) = (49, vec![0.0; 49 * rank]);
    };
    assert!(change(&wide).contains("does not match the model's projection"));
    let deep = |t: &mut Vec<Named>| {
        (t[0].1[0], t[0].2) = (1025, vec![0.0; 1025 * t[0].1[1]]);
        (t[1].1[1], t[1].2) = (1025, vec![0.0; 1025 * t[1].1[0]]);
    };
    let mut tensors = plain[..2].to_vec();
    deep(&mut tensors);
    let mut config = case["config"].clone();
    config["r"] = json!(1025);
    let error = refused(&config, &tensors);
    assert!(error.contains("rank 1025 is not between 1 and 1024"), "{error}");
    let flat = |t: &mut Vec<Named>| t[0].1 = vec![rank, 48, 1];
    assert!(change(&flat).contains("is not that of a matrix"));
    let magnitude = |t: &mut Vec<Named>| {
        t.push((
            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector".into(),
            vec![1],
            vec![1.0],
        ));
    };
    assert!(change(&magnitude).contains("DoRA"));
    let twice = |t: &mut Vec<Named>| {
        let bare = |t: &Named| (t.0.replacen("model.model.", "model.", 1), t.1.clone(), t.2.clone());
        t.extend([bare(&t[0]), bare(&t[1])]);
    };
    assert!(change(&twice).contains("is for the same projection as"));

    let empty = tempfile::tempdir().unwrap();
    assert!(adapter(&e, empty.path()).unwrap_err().contains("adapter_config.json: is missing"));
    assert!(adapter(&e, &empty.path().join("none")).is_err());
    std::fs::write(empty.path().join("adapter_config.json"), case["config"].to_string()).unwrap();
    assert!(adapter(&e, empty.path()).unwrap_err().contains("adapter_model.safetensors: is missing"));
    std::fs::write(empty.path().join("adapter_model.safetensors"), b"\x08\0\0\0\0\0\0\0not json").unwrap();
    assert!(adapter(&e, empty.path()).is_err());
}

#[test]
fn files_that_cannot_be_computed_are_refused_by_name() {
    let (case, model) = plain_case();
    let e = engine_of(llama_gguf(&model));
    let plain = tensors(&case["tensors"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gguf");
    let refused = |change: &dyn Fn(&mut GgufWriter<'_>), tensors: &[Named]| {
        let mut file = adapter_gguf(3.0, tensors, 32);
        change(&mut file);
        file.write_to(&path).unwrap();
        adapter(&e, &path).map(|_| ()).unwrap_err()
    };
    for (key, value, wanted) in [
        ("general.type", "model", "general.type: is `model`, not `adapter`"),
        ("adapter.type", "vera", "adapter.type: is `vera`, not `lora`"),
        ("general.architecture", "phi3", "is for models of architecture `phi3`, and this one's is `llama`"),
    ] {
        let error = refused(
            &|file| {
                file.set(key, value.into());
            },
            &plain,
        );
        assert!(error.contains("a.gguf") && error.contains(wanted), "{error}");
    }
    let nan = refused(
        &|file| {
            file.set("adapter.lora.alpha", Value::F32(f32::NAN));
        },
        &plain,
    );
    assert!(nan.contains("adapter.lora.alpha"), "{nan}");
    let tokens = refused(
        &|file| {
            file.set("adapter.alora.invocation_tokens", Value::U32(1));
        },
        &plain,
    );
    assert!(tokens.contains("activated LoRA"), "{tokens}");
    let norm = |file: &mut GgufWriter<'_>| {
        file.add_tensor("blk.0.attn_norm.weight", DType::F32, &[48], bytes(&[0.0; 48])).unwrap();
    };
    assert!(refused(&norm, &plain).contains("is not a matrix of a LoRA adapter"));
    assert!(refused(&|_| {}, &plain[1..]).contains("lora_a is missing"));
    // A model is no adapter.
    assert!(adapter(&e, &super::shared::embedded()).unwrap_err().contains("general.type"));
    // Whatever is cut off, there is an error and no panic.
    let whole = adapter_gguf(3.0, &plain, 32).to_vec().unwrap();
    for end in (0..whole.len()).step_by(97) {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert!(adapter(&e, &path).is_err(), "{end}");
    }
}
