//! Sessions and batches of a model with recurrent layers: Mamba 2 with weights at random and the storyteller's vocabulary.

use leyden::{BatchOptions, GenerateOptions, LoadOptions, Model, SessionOptions};
use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};
use std::ops::ControlFlow;
use std::path::Path;

const WIDTH: usize = 48;
const INNER: usize = 96;
const HEADS: usize = 6;
const STATE: usize = 16;
const LAYERS: usize = 3;

/// Writes the model into a folder and opens it.
fn model(folder: &Path) -> Model {
    let storyteller = concat!(env!("CARGO_MANIFEST_DIR"), "/model/storyteller-q8_0.gguf");
    let source = Gguf::open(Path::new(storyteller)).unwrap();
    let mut file = GgufWriter::new();
    file.set("general.architecture", Value::from("mamba2"));
    for (key, value) in source.metadata().iter().filter(|(key, _)| key.starts_with("tokenizer.ggml.")) {
        file.set(key, value.clone());
    }
    for (key, n) in [
        ("context_length", 2048),
        ("embedding_length", WIDTH),
        ("feed_forward_length", 0),
        ("attention.head_count", 0),
        ("block_count", LAYERS),
        ("ssm.conv_kernel", 4),
        ("ssm.inner_size", INNER),
        ("ssm.state_size", STATE),
        ("ssm.time_step_rank", HEADS),
        ("ssm.group_count", 1),
    ] {
        file.set(&format!("mamba2.{key}"), Value::U32(n as u32));
    }
    file.set("mamba2.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    let channels = INNER + 2 * STATE;
    let vocabulary = source.metadata().opt_array_str("tokenizer.ggml.tokens").unwrap().unwrap().len();
    let mut drawn = 0;
    let mut tensor = |name: String, shape: &[usize], base: f64, scale: f64| {
        let n = shape.iter().product::<usize>() as u64;
        let value = |i| ((leyden_testkit::random(i) % 65536) as f64 / 65536.0 - 0.5) * scale + base;
        let bytes: Vec<u8> = (drawn..drawn + n).flat_map(|i| (value(i) as f32).to_le_bytes()).collect();
        drawn += n;
        file.add_tensor(&name, DType::F32, shape, bytes).unwrap();
    };
    for i in 0..LAYERS {
        let name = |part: &str| format!("blk.{i}.{part}");
        tensor(name("attn_norm.weight"), &[WIDTH], 1.0, 0.4);
        tensor(name("ssm_a"), &[HEADS, 1], -1.0, 1.8);
        tensor(name("ssm_conv1d.bias"), &[channels], 0.0, 0.4);
        tensor(name("ssm_conv1d.weight"), &[channels, 4], 0.0, 2.0);
        tensor(name("ssm_d"), &[HEADS, 1], 1.0, 0.4);
        tensor(name("ssm_dt.bias"), &[HEADS], -2.0, 2.0);
        tensor(name("ssm_in.weight"), &[INNER + channels + HEADS, WIDTH], 0.0, 0.5);
        tensor(name("ssm_norm.weight"), &[1, INNER], 1.0, 0.4);
        tensor(name("ssm_out.weight"), &[WIDTH, INNER], 0.0, 0.4);
    }
    tensor("output_norm.weight".to_owned(), &[WIDTH], 1.0, 0.4);
    tensor("token_embd.weight".to_owned(), &[vocabulary, WIDTH], 0.0, 2.0);
    let path = folder.join("mamba2.gguf");
    std::fs::write(&path, file.to_vec().unwrap()).unwrap();
    Model::open(&path, &LoadOptions::default()).unwrap()
}

fn prompt(n: usize, seed: usize) -> Vec<u32> {
    (0..n).map(|i| (300 + (i * 37 + i * i + seed * 11) % 2000) as u32).collect()
}

#[test]
fn a_session_goes_back_to_a_checkpoint_where_a_prompt_differs() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let options = GenerateOptions::new().max_tokens(20).temperature(0.0);
    let answer = |session: &mut leyden::Session, prompt: &[u32]| {
        let answer = session.generate(prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        (answer.tokens, answer.cached_tokens)
    };
    let mut kept = model.session(&SessionOptions::new()).unwrap();
    let mut without = model.session(&SessionOptions::new().state_cache(0)).unwrap();
    let all = prompt(900, 1);
    let mut before: Vec<u32> = Vec::new();
    // The same text goes on; then other ends, some of them twice.
    for (shared, more) in
        [(300, 0), (600, 40), (600, 90), (450, 30), (450, 60), (900, 1), (890, 5), (100, 7), (30, 7)]
    {
        let tokens = [&all[..shared], &prompt(more, shared + more)].concat();
        let (got, cached) = answer(&mut kept, &tokens);
        let (want, recomputed) = answer(&mut without, &tokens);
        assert_eq!(got, want, "{shared} + {more}");
        let common = before.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        // Never more than is the same; and where the text goes on, all of it.
        assert!(cached <= common && (recomputed == 0 || recomputed == cached), "{cached} {recomputed}");
        let bound = if common < before.len() { 256 + 64 } else { 64 + 16 };
        assert!(cached + bound > common, "{shared} + {more}: {cached} of {common}");
        before = tokens;
    }
}

#[test]
fn texts_of_a_batch_share_their_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path());
    let options = GenerateOptions::new().max_tokens(8).temperature(0.0);
    let prompts: Vec<Vec<u32>> = (0..6).map(|i| [prompt(400, 1), prompt(30 + i, 2 + i)].concat()).collect();
    let batch =
        |options_of: BatchOptions| model.batch(&options_of).unwrap().generate(&prompts, &options).unwrap();
    let (kept, without) = (batch(BatchOptions::new()), batch(BatchOptions::new().state_cache(0)));
    for (kept, without) in kept.iter().zip(&without) {
        assert_eq!((&kept.tokens, without.cached_tokens), (&without.tokens, 0));
    }
    let cached: Vec<usize> = kept.iter().map(|answer| answer.cached_tokens).collect();
    assert_eq!(cached.iter().filter(|n| **n == 384).count(), 5, "{cached:?}");
}
