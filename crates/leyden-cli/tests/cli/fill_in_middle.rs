//! Text between two texts: llama-server's `/infill`, the `suffix` of OpenAI and Ollama.

use leyden_tensor::{Array, Gguf, Value as Entry, WeightSource};
use serde_json::{Value, json};
use std::path::Path;

use crate::program::{Files, STORYTELLER, storyteller_with_all};
use crate::serve::{Server, post};

/// The last tokens of a vocabulary that can fill in the middle.
const MARKS: [&str; 5] =
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"];

/// The storyteller with these in place of its last tokens; it fills gaps with stories.
fn filler() -> (Vec<u8>, u32) {
    let file = Gguf::open(Path::new(STORYTELLER)).unwrap();
    let texts = |key| {
        let all = file.metadata().opt_array_str(key).unwrap().unwrap();
        all.iter().map(|t| String::from_utf8(t.to_vec()).unwrap()).collect::<Vec<String>>()
    };
    let (mut tokens, mut merges) = (texts("tokenizer.ggml.tokens"), texts("tokenizer.ggml.merges"));
    let first = tokens.len() - MARKS.len();
    tokens.truncate(first);
    tokens.extend(MARKS.map(str::to_owned));
    merges.truncate(merges.len() - MARKS.len());
    let mut types = file.metadata().opt_array_i32("tokenizer.ggml.token_type").unwrap().unwrap();
    types[first..].fill(3);
    let changed = [
        ("tokenizer.ggml.tokens", Entry::Array(Array::from_strs(&tokens))),
        ("tokenizer.ggml.token_type", Entry::Array(Array::from_i32(&types))),
        ("tokenizer.ggml.merges", Entry::Array(Array::from_strs(&merges))),
    ];
    (storyteller_with_all(&changed), u32::try_from(first).unwrap())
}

fn ask(server: &Server, path: &str, body: &Value) -> Value {
    let answer = server.exchange(post(path, &body.to_string()));
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn gaps_are_filled_with_the_tokens_of_the_model() {
    let files = Files::new();
    let (model, first) = filler();
    let server = Server::start(&[&files.add("filler.gguf", &model)]);
    let ids = |text: &str| {
        let answer = ask(&server, "/tokenize", &json!({ "prompt": text, "add_special_tokens": false }));
        answer["tokens"].as_array().unwrap().iter().map(|t| t.as_u64().unwrap() as u32).collect::<Vec<u32>>()
    };
    let go = json!({ "temperature": 0, "ignore_eos": true, "max_tokens": 12 });
    let with = |more: Value| {
        let mut all = go.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let continued = |parts: &[Vec<u32>]| {
        let prompt: Vec<u32> = [&[vec![0]], parts].concat().concat();
        ask(&server, "/v1/completions", &with(json!({ "prompt": prompt })))["choices"][0]["text"].clone()
    };
    let [prefix, suffix, middle, repository, file] = [0, 1, 2, 3, 4].map(|i| vec![first + i]);
    let (before, after) = (ids("Once there was a"), ids(" and they went home."));
    let plain = [prefix.clone(), before.clone(), suffix.clone(), after.clone(), middle.clone()];
    let wanted = continued(&plain);
    let asked = json!({ "prompt": "Once there was a", "suffix": " and they went home." });
    assert_eq!(ask(&server, "/v1/completions", &with(asked))["choices"][0]["text"], wanted);
    let options = json!({ "temperature": 0, "num_predict": 12 });
    let asked = json!({
        "model": "filler", "prompt": "Once there was a", "suffix": " and they went home.", "stream": false,
        "options": options
    });
    let told = ask(&server, "/api/generate", &asked)["response"].as_str().unwrap().to_owned();
    assert!(wanted.as_str().unwrap().starts_with(&told) && !told.is_empty(), "{told}");
    let asked = json!({ "input_prefix": "Once there was a", "input_suffix": " and they went home." });
    let answer = ask(&server, "/infill", &with(asked.clone()));
    assert_eq!((&answer["content"], &answer["tokens_predicted"]), (&wanted, &12.into()));
    // With another file, and the beginning of the answer.
    let mut asked = with(asked);
    (asked["prompt"], asked["input_extra"]) =
        (json!(" big"), json!([{ "filename": "b.txt", "text": "A cat." }]));
    let parts = [
        repository,
        ids("repository\n"),
        file.clone(),
        ids("b.txt\nA cat."),
        file,
        ids("filename\n"),
        prefix,
        before,
        suffix,
        after,
        middle,
        ids(" big"),
    ];
    assert_eq!(ask(&server, "/infill", &asked)["content"], continued(&parts));
    // Marks in a text are text.
    let marked = json!({ "input_prefix": "<|fim_middle|>", "input_suffix": "" });
    assert!(ask(&server, "/infill", &with(marked))["tokens_evaluated"].as_u64().unwrap() > 5);
    let both = ask(&server, "/v1/completions", &json!({ "prompt": "a", "suffix": "b", "echo": true }));
    assert!(both["error"]["message"].as_str().unwrap().contains("cannot be combined"), "{both}");
    let toy = Server::start(&[]);
    for (path, body) in [
        ("/infill", json!({ "input_prefix": "a", "input_suffix": "b" })),
        ("/v1/completions", json!({ "prompt": "a", "suffix": "b" })),
    ] {
        let refused = ask(&toy, path, &body);
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("not support fill-in-the-middle"),
            "{refused}"
        );
    }
    let v2 = |path: &str| {
        let answer = toy.exchange(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (answer[9..12].to_owned(), serde_json::from_str::<Value>(body).unwrap())
    };
    assert_eq!(v2("/v2/health/ready"), ("200".to_owned(), json!({ "ready": true })));
    assert_eq!(v2("/v2").1["name"], "leyden");
    assert_eq!(v2("/v2/models/storyteller/ready").1, json!({ "name": "storyteller", "ready": true }));
    assert_eq!(v2("/v2/models/storyteller").1["platform"], "leyden_gguf");
    assert_eq!(v2("/v2/models/other").0, "404");
}
