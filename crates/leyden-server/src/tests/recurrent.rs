//! Chats with recurrent models: each turn only computes its new tokens.

use super::*;
use leyden_tensor::{Array, DType, GgufWriter, Value as Meta};
use leyden_text::{ChatTemplate, Special};

/// A value of a golden's metadata. Texts may be long.
fn meta(key: &str, kind: &str, value: &Value) -> Meta {
    let whole = |value: &Value| value.as_i64().unwrap();
    match kind {
        "u32" if key.ends_with("context_length") => Meta::U32(2048),
        "u32" => Meta::U32(whole(value) as u32),
        "f32" => Meta::F32(value.as_f64().unwrap() as f32),
        "bool" => Meta::Bool(value.as_bool().unwrap()),
        "string" => Meta::from(value.as_str().unwrap()),
        "array bool" => {
            let all: Vec<bool> =
                value.as_array().unwrap().iter().map(|flag| flag.as_bool().unwrap()).collect();
            Meta::Array(Array::from_bools(&all))
        }
        "array i32" => {
            let all: Vec<i32> = value.as_array().unwrap().iter().map(|n| whole(n) as i32).collect();
            Meta::Array(Array::from_i32(&all))
        }
        other => panic!("{other}"),
    }
}

/// A tiny model of an architecture, from the engine's golden, with so many tokens and weights at random.
fn tiny(name: &str, vocabulary: usize) -> Gguf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden-engine/tests/golden/decoders");
    let golden = std::fs::read_to_string(Path::new(folder).join(format!("{name}.json"))).unwrap();
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let model = &golden["models"][0]["gguf"];
    let mut file = GgufWriter::new();
    for (key, entry) in model["meta"].as_object().unwrap() {
        if !key.ends_with("vocab_size") {
            file.set(key, meta(key, entry[0].as_str().unwrap(), &entry[1]));
        }
    }
    let mut drawn = 0;
    for row in model["tensors"].as_array().unwrap() {
        let layers = row[1].as_array().unwrap().iter().map(|layer| layer.to_string());
        let layers: Vec<String> = if layers.len() == 0 { vec![String::new()] } else { layers.collect() };
        let mut shape: Vec<usize> =
            row[2].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect();
        let tensor = row[0].as_str().unwrap();
        if tensor == "token_embd.weight" || tensor == "output.weight" {
            shape[0] = vocabulary;
        }
        let (base, scale) = (row[3].as_f64().unwrap(), row[4].as_f64().unwrap());
        for layer in layers {
            let n = shape.iter().product::<usize>() as u64;
            let value = |i| ((leyden_testkit::random(i) % 65536) as f64 / 65536.0 - 0.5) * scale + base;
            let bytes: Vec<u8> = (drawn..drawn + n).flat_map(|i| (value(i) as f32).to_le_bytes()).collect();
            drawn += n;
            file.add_tensor(&tensor.replacen("{}", &layer, 1), DType::F32, &shape, bytes).unwrap();
        }
    }
    Gguf::from_vec(file.to_vec().unwrap(), "tiny.gguf").unwrap()
}

fn start_tiny(name: &str, state_cache: impl Fn(usize) -> usize) -> Arc<App> {
    let worker = WorkerOptions { context: 2048, kv_tokens: 16384, ..worker_options() };
    let mut served = model(worker);
    let file = Arc::new(tiny(name, served.tokenizer.vocab_size()));
    served.network = leyden_models::load(file, &served.cpus[0], &mut |_, _| {}).unwrap();
    let state = served.network.kv_shape(worker.kv_type).unwrap().state_bytes();
    assert!(state > 0, "{name}");
    served.worker.state_cache = state_cache(state);
    let template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
    served.template = Some(Arc::new(ChatTemplate::new(template, "", "", "test").unwrap()));
    let log = Log::new(LogFormat::Json, Box::new(Lines::default())).unwrap();
    App::start(vec![served], ServerOptions::default(), log).unwrap()
}

/// Runs ten turns of a chat that begins with this many words. Returns for each turn the number of prompt tokens, how
/// many of them were cached, the number of generated tokens, and the answer.
async fn chat(
    app: &Arc<App>,
    words: usize,
    topic: &str,
    extra: &Value,
) -> Vec<(usize, usize, usize, String)> {
    let mut messages =
        vec![json!({ "role": "system", "content": "The king had many daughters. ".repeat(words / 6) })];
    let mut turns = Vec::new();
    for turn in 0..10 {
        let question = format!("And what did {topic} number {turn} say to the old woman in the forest?");
        messages.push(json!({ "role": "user", "content": question }));
        let mut body = json!({ "messages": messages, "max_tokens": 24, "temperature": 0, "ignore_eos": true,
            "timings_per_token": true });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = ask(app, CHAT, body).await;
        let usage = &answer["usage"];
        let count = |n: &Value| n.as_u64().unwrap() as usize;
        let said = answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
        turns.push((
            count(&usage["prompt_tokens"]),
            cached,
            count(&usage["completion_tokens"]),
            said.clone(),
        ));
        messages.push(json!({ "role": "assistant", "content": said }));
    }
    turns
}

#[test]
fn each_turn_of_a_chat_computes_what_is_new() {
    run(async {
        for name in ["mamba2", "granitehybrid", "lfm2", "qwen3next", "qwen35"] {
            let app = start_tiny(name, |state| 32 * state);
            let plain = start_tiny(name, |_| 0);
            // Answers whose text is encoded to the same tokens again, and those of random weights, whose text is not.
            let word = loaded().2.encode(" king", Special::AsText).unwrap()[0];
            for extra in [json!({ "logit_bias": { word.to_string(): 100 } }), json!({})] {
                let turns = chat(&app, 240, "daughter", &extra).await;
                let figures: Vec<(usize, usize, usize)> =
                    turns.iter().map(|turn| (turn.0, turn.1, turn.2)).collect();
                eprintln!("{name}: tokens of (prompt, cached, answer) by turn: {figures:?}");
                for (i, pair) in turns.windows(2).enumerate() {
                    let ((before, _, answered, said), (prompt, cached, ..)) = (&pair[0], &pair[1]);
                    let new = prompt - (before + answered).min(*prompt);
                    let again = loaded().2.encode(said, Special::AsText).unwrap();
                    let old = if again == vec![word; *answered] { 64 } else { 64 + 16 + answered };
                    assert!(prompt - cached <= new + old, "{name}, turn {}: {cached} of {prompt}", i + 1);
                }
                // Without a prefix cache everything is computed, with the same answers.
                let anew = chat(&plain, 240, "daughter", &extra).await;
                assert!(anew.iter().all(|turn| turn.1 == 0), "{name}");
                let said = |turns: &[(usize, usize, usize, String)]| -> Vec<String> {
                    turns.iter().map(|turn| turn.3.clone()).collect()
                };
                assert!(said(&turns) == said(&anew), "{name}");
            }
            until("the server is at rest", || at_rest(&app)).await;
            assert!(metrics(&app).state_checkpoints.get() > 0);
            assert_eq!(metrics(&plain).state_checkpoints.get(), 0);
        }
    });
}

#[test]
fn conversations_share_their_beginning_and_the_budget_bounds_what_is_kept() {
    run(async {
        let app = start_tiny("lfm2", |state| 12 * state + 1);
        let firsts: Vec<(usize, usize)> = {
            let mut firsts = Vec::new();
            for topic in ["sister", "brother", "miller", "hunter"] {
                let turns = chat(&app, 600, topic, &json!({})).await;
                firsts.push((turns[0].0, turns[0].1));
                assert!(metrics(&app).state_checkpoints.get() <= 12);
            }
            firsts
        };
        // The second prompt is computed from a distant checkpoint on, and marks the position where the prompts diverge.
        let question = 40;
        assert!(firsts[0].1 == 0 && firsts[1].1 <= firsts[1].0, "{firsts:?}");
        assert!(firsts[2..].iter().all(|(prompt, cached)| cached + 128 + question > *prompt), "{firsts:?}");
        let (_, text) = get(&app, "/metrics").await;
        assert!(text.contains("leyden_state_checkpoints{"), "{text}");
    });
}
