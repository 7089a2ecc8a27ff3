//! Whole folders: what the files beside `tokenizer.json` add, and chat templates.
use leyden_testkit::shared;
use std::path::Path;

use leyden_tensor::HfFolder;
use leyden_text::{ChatTemplate, Message, RenderOptions, Special, Tokenizer, from_hf};
use tempfile::TempDir;

/// A folder with a model of one weight and the given files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let weights = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    std::fs::write(folder.path().join("model.safetensors"), weights).unwrap();
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/data/hf/{name}.json", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn open(path: &Path) -> (HfFolder, Box<dyn Tokenizer>) {
    let folder = HfFolder::open(path).unwrap();
    let tokenizer = from_hf(&folder).unwrap();
    (folder, tokenizer)
}

fn name(tokenizer: &dyn Tokenizer, id: Option<u32>) -> Option<String> {
    Some(String::from_utf8(tokenizer.token_bytes(id?).unwrap().into()).unwrap())
}

#[test]
fn roles_come_from_the_files_beside() {
    let tokenizer = fixture("qwen2");
    let dir = folder(&[
        ("tokenizer.json", &tokenizer),
        (
            "tokenizer_config.json",
            r#"{"bos_token": null, "eos_token": {"content": "<|im_end|>"}, "add_bos_token": true}"#,
        ),
        ("special_tokens_map.json", r#"{"bos_token": "<|im_start|>", "eos_token": "<|endoftext|>"}"#),
        ("generation_config.json", r#"{"eos_token_id": [65, 1000000]}"#),
    ]);
    let (_, tokenizer) = open(dir.path());
    let tokenizer = tokenizer.as_ref();
    assert_eq!(name(tokenizer, tokenizer.bos()).as_deref(), Some("<|im_start|>"));
    assert_eq!(name(tokenizer, tokenizer.eos()).as_deref(), Some("<|im_end|>"));
    // A flag of a class that does not go by it.
    assert!(!tokenizer.add_bos() && !tokenizer.add_eos());
    // What a file says, and what is well known.
    for text in ["<|im_end|>", "<|endoftext|>"] {
        let ids = tokenizer.encode(text, Special::Parse).unwrap();
        assert!(ids.len() == 1 && tokenizer.is_end(ids[0]), "{text}");
        assert!(tokenizer.encode(text, Special::AsText).unwrap().len() > 1);
    }
    assert!(tokenizer.is_end(65) && !tokenizer.is_end(66) && !tokenizer.is_end(1_000_000));
}

#[test]
fn flags_go_before_the_post_processor_in_classes_that_have_them() {
    let tokenizer = fixture("llama2");
    let config = |class: &str, flags: &str| {
        format!(r#"{{"tokenizer_class": "{class}", "bos_token": "<s>", "eos_token": "</s>"{flags}}}"#)
    };
    for (class, flags, bos, eos) in [
        ("LlamaTokenizer", "", true, false),
        ("LlamaTokenizerFast", r#", "add_bos_token": false"#, false, false),
        ("LlamaTokenizerFast", r#", "add_bos_token": true, "add_eos_token": true"#, true, true),
        ("PreTrainedTokenizerFast", r#", "add_bos_token": false, "add_eos_token": true"#, true, false),
    ] {
        let dir = folder(&[("tokenizer.json", &tokenizer), ("tokenizer_config.json", &config(class, flags))]);
        let (_, tokenizer) = open(dir.path());
        assert_eq!((tokenizer.add_bos(), tokenizer.add_eos()), (bos, eos), "{class} {flags}");
    }
}

#[test]
fn added_tokens_come_from_the_configuration_too() {
    let config = r#"{
        "added_tokens_decoder": {
            "0": {"content": "<unk>", "lstrip": false, "normalized": false, "rstrip": false, "single_word": false, "special": true},
            "900": {"content": "<tool>", "lstrip": true, "normalized": false, "rstrip": false, "single_word": false, "special": false}
        },
        "additional_special_tokens": ["e", "not in the vocabulary"]
    }"#;
    let dir = folder(&[("tokenizer.json", &fixture("mistral")), ("tokenizer_config.json", config)]);
    let (_, tokenizer) = open(dir.path());
    let without = leyden_text::from_tokenizer_json(fixture("mistral").as_bytes(), "mistral").unwrap();
    // A new token gets the next id, whatever its key, as in transformers.
    assert_eq!(tokenizer.vocab_size(), without.vocab_size() + 1);
    let tool = without.vocab_size() as u32;
    let ids = tokenizer.encode("a  <tool>b", Special::AsText).unwrap();
    assert!(ids.contains(&tool) && !tokenizer.is_special(tool));
    assert_eq!(tokenizer.token_bytes(tool), Some(&b"<tool>"[..]));
    let e = tokenizer.encode("e", Special::Parse).unwrap();
    assert!(e.len() == 1 && tokenizer.is_special(e[0]));
}

#[test]
fn a_folder_without_tokenizer_json_says_what_to_do() {
    let error = |files: &[(&str, &str)]| {
        let dir = folder(files);
        from_hf(&HfFolder::open(dir.path()).unwrap()).err().unwrap().to_string()
    };
    assert!(error(&[]).ends_with("tokenizer.json: the folder has no tokenizer"));
    let message = error(&[("tokenizer.model", "x")]);
    assert!(
        message.contains("the folder has tokenizer.model") && message.contains("save_pretrained"),
        "{message}"
    );
}

#[test]
fn kinds_that_are_not_supported_are_named() {
    for (name, from, to, want) in [
        (
            "qwen2",
            r#""type":"NFC""#,
            r#""type":"NFX""#,
            "normalizer: normalizer \"NFX\" is not supported (supported: BertNormalizer, ",
        ),
        (
            "llama2",
            r#""type":"Fuse""#,
            r#""type":"CTC""#,
            "decoder.decoders[2]: decoder \"CTC\" is not supported",
        ),
        (
            "qwen2",
            r#""behavior":"Isolated""#,
            r#""behavior":"Glued""#,
            "pre_tokenizer.pretokenizers[0].behavior: behavior \"Glued\"",
        ),
        (
            "qwen2",
            r#""type":"BPE""#,
            r#""type":"Tries""#,
            "model.type: model \"Tries\" is not supported (supported: BPE, Unigram, ",
        ),
        (
            "llama2",
            r#""start":1,"stop":0"#,
            r#""start":1,"stop":1"#,
            "decoder.decoders[3]: Strip behind Fuse is not supported",
        ),
        ("qwen2", r#""version":"1.0""#, r#""version":"2.0""#, "version: version \"2.0\" is not supported"),
        ("t5", r#""unk_id":2"#, r#""unk_id":2000000"#, "model.unk_id: token 2000000 does not exist"),
        (
            "t5",
            r#""precompiled_charsmap":""#,
            r#""precompiled_charsmap":"!"#,
            "normalizer.precompiled_charsmap: not valid Base64",
        ),
    ] {
        let json = fixture(name);
        assert!(json.contains(from), "{name} has no {from}");
        let error = leyden_text::from_tokenizer_json(json.replace(from, to).as_bytes(), "tokenizer.json")
            .err()
            .unwrap();
        assert!(error.to_string().starts_with(&format!("tokenizer.json: {want}")), "{error}");
    }
}

#[test]
fn templates_are_found_where_they_may_stand() {
    let tokenizer = fixture("qwen2");
    let base = [("tokenizer.json", tokenizer.as_str())];
    let config = r#"{"eos_token": "<|im_end|>", "chat_template": "config {{ eos_token }}{{ bos_token }}"}"#;
    let list = r#"{"chat_template": [{"name": "tool_use", "template": "tool"}, {"name": "default", "template": "list"}]}"#;
    for (files, want) in [
        (&[][..], None),
        (&[("tokenizer_config.json", config)], Some("config <|im_end|>")),
        (&[("tokenizer_config.json", list)], Some("list")),
        (
            &[("tokenizer_config.json", config), ("chat_template.json", r#"{"chat_template": "processor"}"#)],
            Some("processor"),
        ),
        (
            &[
                ("tokenizer_config.json", config),
                ("chat_template.json", r#"{"chat_template": "processor"}"#),
                ("chat_template.jinja", "file {{ messages[0].content }}"),
            ],
            Some("file hi"),
        ),
        (
            &[
                ("additional_chat_templates/default.jinja", "additional"),
                ("additional_chat_templates/rag.jinja", "rag"),
            ],
            Some("additional"),
        ),
    ] {
        let dir = folder(&[&base, files].concat());
        let (folder, tokenizer) = open(dir.path());
        let template = ChatTemplate::from_hf(&folder, tokenizer.as_ref()).unwrap();
        let rendered = template
            .map(|t| t.render(&[Message::new("user", "hi")], &RenderOptions::default()).unwrap().into_text());
        assert_eq!(rendered.as_deref(), want);
    }
    // With tools the one that is made for them, wherever it stands.
    let options =
        RenderOptions { tools: Some(serde_json::json!([{ "name": "f" }])), ..RenderOptions::default() };
    for (files, want) in [
        (&[("tokenizer_config.json", list)][..], "tool"),
        (
            &[("chat_template.jinja", "file"), ("additional_chat_templates/tool_use.jinja", "tool file")],
            "tool file",
        ),
        // A file of its own stands for all templates of the settings.
        (&[("chat_template.jinja", "file"), ("tokenizer_config.json", list)], "file"),
        (&[("tokenizer_config.json", list), ("additional_chat_templates/tool_use.jinja", "other")], "tool"),
    ] {
        let dir = folder(&[&base, files].concat());
        let (folder, tokenizer) = open(dir.path());
        let template = ChatTemplate::from_hf(&folder, tokenizer.as_ref()).unwrap().unwrap();
        assert_eq!(template.render(&[], &options).unwrap().into_text(), want);
    }
    for files in [
        ("tokenizer_config.json", r#"{"chat_template": [{"name": "rag", "template": "x"}]}"#),
        ("tokenizer_config.json", r#"{"chat_template": 1}"#),
        ("additional_chat_templates/rag.jinja", "rag"),
        ("chat_template.jinja", "{% if %}"),
    ] {
        let dir = folder(&[base[0], files]);
        let (folder, tokenizer) = open(dir.path());
        assert!(ChatTemplate::from_hf(&folder, tokenizer.as_ref()).is_err(), "{files:?}");
    }
}

#[test]
fn the_storyteller_of_a_real_folder() {
    let Some(path) = shared("data/llm/TinyStories-656K") else { return };
    let (folder, tokenizer) = open(&path);
    let tokenizer = tokenizer.as_ref();
    assert_eq!(name(tokenizer, tokenizer.bos()).as_deref(), Some("<|start_story|>"));
    assert_eq!(name(tokenizer, tokenizer.eos()).as_deref(), Some("<|end_story|>"));
    assert!(tokenizer.add_bos() && !tokenizer.add_eos() && tokenizer.is_end(2) && tokenizer.is_special(2));
    assert!(ChatTemplate::from_hf(&folder, tokenizer).unwrap().is_none());
}
