//! Special tokens at the beginning and end of a text: the same in `tokenize`, the server's `/tokenize`, and vectors of texts.

use std::fs;

use leyden_tensor::{Array, Value as Entry};
use serde_json::{Value, json};

use crate::folders::{TOKENIZER_CONFIG, checkpoint, tokenizer};
use crate::program::{Files, leyden, storyteller_with_all};
use crate::serve::{Server, post};

const TEXT: &str = "Once upon a time";

fn ids(model: &str, text: &str) -> Vec<u32> {
    let out = leyden(&["tokenize", model, text, "--json"]).json();
    serde_json::from_value(out["ids"].clone()).unwrap()
}

fn ask(server: &Server, path: &str, body: &Value) -> Value {
    let answer = server.exchange(post(path, &body.to_string()));
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// Vectors of texts are those of the tokens that `tokenize` makes, and prompts end where an answer follows.
fn check(model: &str, begin: Option<u32>, end: Option<u32>, begin_text: &str, end_text: &str) {
    let all = ids(model, TEXT);
    assert_eq!(all.first().copied().filter(|id| Some(*id) == begin), begin, "{all:?}");
    assert_eq!(all.last().copied().filter(|id| Some(*id) == end), end, "{all:?}");
    let server = Server::start(&[model, "--log-format", "off"]);
    let vector = |input: Value| {
        ask(&server, "/v1/embeddings", &json!({ "input": input }))["data"][0]["embedding"].clone()
    };
    let tokens = |prompt: &str| ask(&server, "/tokenize", &json!({ "prompt": prompt }))["tokens"].clone();
    let wanted = vector(json!(all));
    assert!(wanted.is_array());
    let named = format!("{}{TEXT}{}", begin.map_or("", |_| begin_text), end.map_or("", |_| end_text));
    for text in [TEXT, &named] {
        assert_eq!(ids(model, text), all, "{text}");
        assert_eq!(tokens(text), json!(all), "{text}");
        assert_eq!(vector(json!(text)), wanted, "{text}");
    }
    // Another vector without what is added.
    let bare = &all[usize::from(begin.is_some())..all.len() - usize::from(end.is_some())];
    assert_eq!(vector(json!(bare)) == wanted, begin.is_none() && end.is_none());
    let body = json!({ "prompt": TEXT, "max_tokens": 1, "temperature": 0 });
    let usage = ask(&server, "/v1/completions", &body)["usage"]["prompt_tokens"].clone();
    assert_eq!(usage, all.len() - usize::from(end.is_some()));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn vectors_are_of_what_the_tokenizer_makes() {
    let files = Files::new();
    let texts = leyden(&["inspect", crate::program::STORYTELLER, "--json"]).json()["tokenizer"].clone();
    let of = |name: &str| {
        let token = &texts[name];
        (u32::try_from(token["id"].as_u64().unwrap()).unwrap(), token["text"].as_str().unwrap().to_owned())
    };
    let ((bos, begin), (eos, end)) = (of("bos"), of("eos"));
    for (i, (adds_bos, adds_eos)) in
        [(true, true), (false, true), (true, false), (false, false)].into_iter().enumerate()
    {
        let model = storyteller_with_all(&[
            ("llama.pooling_type", Entry::U32(3)),
            ("tokenizer.ggml.add_bos_token", Entry::Bool(adds_bos)),
            ("tokenizer.ggml.add_eos_token", Entry::Bool(adds_eos)),
        ]);
        let model = files.add(&format!("{i}.gguf"), &model);
        check(&model, adds_bos.then_some(bos), adds_eos.then_some(eos), &begin, &end);
    }
}

#[test]
fn a_folder_with_an_end_in_its_post_processor_is_the_same() {
    let files = Files::new();
    for file in fs::read_dir(checkpoint("qwen3")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), files.folder().join(file.file_name())).unwrap();
    }
    let mut whole: Value = serde_json::from_slice(&tokenizer()).unwrap();
    let special = |name: &str, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
    whole["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "SpecialToken": { "id": "</s>", "type_id": 0 } }],
        "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 0 } }],
        "special_tokens": { "</s>": special("</s>", 96) }
    });
    files.add("tokenizer.json", whole.to_string().as_bytes());
    files.add("tokenizer_config.json", TOKENIZER_CONFIG.as_bytes());
    fs::create_dir(files.path("1_Pooling")).unwrap();
    files.add("1_Pooling/config.json", br#"{"pooling_mode_lasttoken": true}"#);
    check(files.folder().to_str().unwrap(), None, Some(96), "<s>", "</s>");
}

#[test]
fn what_a_file_says_beyond_what_is_known_is_told() {
    let files = Files::new();
    let odd = storyteller_with_all(&[
        ("llama.warp.factor", Entry::F32(9.0)),
        ("llama.attention.head_count_kv", Entry::Array(Array::from_i32(&[4; 4]))),
    ]);
    let odd = files.add("odd.gguf", &odd);
    let run = leyden(&["run", &odd, "Once", "-n", "2", "--temp", "0", "--threads", "1"]);
    let told = format!("note: {odd}: unknown keys are ignored: llama.warp.factor\n");
    assert!(run.code == Some(0) && run.err.contains(&told), "{run:?}");
    let plain =
        leyden(&["run", crate::program::STORYTELLER, "Once", "-n", "2", "--temp", "0", "--threads", "1"]);
    assert_eq!((run.out, plain.err.contains("unknown keys")), (plain.out, false));
    assert_eq!(leyden(&["inspect", &odd, "--json"]).json()["unknown_keys"], json!(["llama.warp.factor"]));
    let both_ways = storyteller_with_all(&[("llama.attention.causal", Entry::Bool(false))]);
    let both_ways = files.add("encoder.gguf", &both_ways);
    let error = leyden(&["run", &both_ways, "Once"]).failed(1);
    let wanted =
        "llama.attention.causal: false asks for attention in both directions, which is not supported";
    assert!(error.contains(wanted), "{error}");
    assert!(
        leyden(&["inspect", &both_ways, "--json"]).json()["problems"][0].as_str().unwrap().contains(wanted)
    );
}
