//! Pulls from a correct hub.

use std::fs;
use std::path::Path;

use leyden_hub::{Format, resolve};

use crate::server::{Hub, Repository, sha256};
use crate::{Shelf, content, options};

#[test]
fn a_file_comes_and_is_found_by_every_name() {
    let (model, other) = (content(3_000_000, 1), content(1000, 2));
    let hub = Hub::start(&Repository::new(&[
        ("Tiny-Q4_K_M.gguf", &model),
        ("Tiny-Q8_0.gguf", &other),
        ("README.md", b"# Tiny"),
    ]));
    let shelf = Shelf::new();
    let options = options(&hub.api.url());
    let pulled = shelf.pull(&options, "hf:org/repo:Q4_K_M").unwrap();
    assert_eq!(pulled.downloaded, 3_000_000);
    let found = &pulled.model;
    assert_eq!((found.name.as_str(), found.format), ("org/repo:Tiny-Q4_K_M.gguf", Format::Gguf));
    assert_eq!((found.revision.as_str(), found.bytes(), &found.damage), ("main", 3_000_000, &None));
    assert_eq!(found.files[0].sha256, sha256(&model));
    assert_eq!(fs::read(&found.path).unwrap(), model);
    assert_eq!(hub.fetched(), [("Tiny-Q4_K_M.gguf".to_owned(), None)]);

    let path = "models/hf/org/repo/0123456789abcdef0123456789abcdef01234567/Tiny-Q4_K_M.gguf";
    assert_eq!(shelf.files(), [path, "models/hf/org/repo/models.json"]);
    for name in [
        "hf:org/repo:Tiny-Q4_K_M.gguf",
        "hf:org/repo:Q4_K_M",
        "hf:org/repo",
        "hf:org/repo@main",
        "org/repo",
        "org/repo:q4_k_m",
        "org/repo:Tiny-Q4_K_M.gguf",
        "Tiny-Q4_K_M.gguf",
        "tiny-q4_k_m",
        "repo",
    ] {
        assert_eq!(resolve(Path::new(name), &shelf.store()).unwrap(), found.path, "{name}");
    }
    for name in ["hf:org/repo:Q8_0", "hf:org/other", "hf:org/repo@v2"] {
        let error = resolve(Path::new(name), &shelf.store()).unwrap_err();
        assert_eq!(error.hint(), Some(format!("leyden pull {name}")));
    }
    for name in ["org/repo:Q8_0", "org", "./Tiny-Q4_K_M.gguf", "", "../x", "no such"] {
        assert!(resolve(Path::new(name), &shelf.store()).is_err(), "{name}");
    }

    // Again: all files exist, and are verified rather than trusted.
    let (again, notes) = shelf.pull_noting(&options, "hf:org/repo:Q4_K_M");
    assert_eq!((again.unwrap().downloaded, hub.fetched().len()), (0, 1));
    assert!(notes.iter().any(|note| note.starts_with("Check")), "{notes:?}");

    // Another model of the same repository does not disturb it, and makes the short names ambiguous.
    shelf.pull(&options, "hf:org/repo:Tiny-Q8_0.gguf").unwrap();
    let error = resolve(Path::new("org/repo"), &shelf.store()).unwrap_err().to_string();
    assert!(
        error.contains("org/repo:Tiny-Q4_K_M.gguf") && error.contains("org/repo:Tiny-Q8_0.gguf"),
        "{error}"
    );
    assert_eq!(resolve(Path::new("org/repo:Q4_K_M"), &shelf.store()).unwrap(), found.path);
}

#[test]
fn a_path_that_exists_is_meant_first() {
    let shelf = Shelf::new();
    let path = shelf.path().join("x.gguf");
    fs::write(&path, "x").unwrap();
    assert_eq!(resolve(&path, &shelf.store()).unwrap(), path);
    assert_eq!(resolve(shelf.path(), &shelf.store()).unwrap(), shelf.path());
}

#[test]
fn the_token_goes_to_the_endpoint_alone() {
    let hub = Hub::start(&Repository::new(&[("m.gguf", &content(100, 1)), ("LICENSE", b"free")]));
    let shelf = Shelf::new();
    shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap();
    assert!(hub.api.seen().iter().all(|request| request.header("authorization") == Some("Bearer hf_secret")));
    assert!(hub.cdn.seen().iter().all(|request| request.header("authorization").is_none()));
    assert!(!hub.api.seen().is_empty() && !hub.cdn.seen().is_empty());
    let agent = hub.api.seen()[0].header("user-agent").unwrap().to_owned();
    assert!(agent.starts_with("leyden/"), "{agent}");
    assert_eq!(hub.cdn.seen()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn parts_come_together_and_the_first_is_opened() {
    let parts = [content(70_000, 1), content(80_000, 2), content(10, 3)];
    let hub = Hub::start(&Repository::new(&[
        ("Q4_0/m-00001-of-00003.gguf", &parts[0]),
        ("Q4_0/m-00002-of-00003.gguf", &parts[1]),
        ("Q4_0/m-00003-of-00003.gguf", &parts[2]),
    ]));
    let shelf = Shelf::new();
    let model = shelf.pull(&options(&hub.api.url()), "hf:org/repo:m-00002-of-00003.gguf").unwrap().model;
    assert_eq!(model.name, "org/repo:Q4_0/m-00001-of-00003.gguf");
    assert!(model.path.ends_with("Q4_0/m-00001-of-00003.gguf"));
    let folder = model.path.parent().unwrap();
    for (i, part) in parts.iter().enumerate() {
        assert_eq!(&fs::read(folder.join(format!("m-0000{}-of-00003.gguf", i + 1))).unwrap(), part);
    }
    for name in ["org/repo", "m", "org/repo:m-00003-of-00003.gguf", "org/repo:m"] {
        assert_eq!(resolve(Path::new(name), &shelf.store()).unwrap(), model.path, "{name}");
    }
    // A missing part is reported as a damaged model before it is used, and repaired by a pull of that part alone.
    fs::remove_file(folder.join("m-00002-of-00003.gguf")).unwrap();
    let error = resolve(Path::new("org/repo"), &shelf.store()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "leyden pull hf:org/repo:Q4_0/m-00001-of-00003.gguf");
    assert!(shelf.store().contents().unwrap().models[0].damage.is_some());
    assert_eq!(shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap().downloaded, 80_000);
    assert!(resolve(Path::new("org/repo"), &shelf.store()).is_ok());
}

#[test]
fn a_checkpoint_comes_as_a_folder() {
    let weights = content(100_000, 7);
    let hub = Hub::start(&Repository::new(&[
        ("model.safetensors", &weights),
        ("config.json", br#"{"model_type": "x"}"#),
        ("tokenizer.json", b"{}"),
        ("generation_config.json", b""),
        ("original/params.json", b"{}"),
        ("README.md", b"#"),
    ]));
    let shelf = Shelf::new();
    let model = shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap().model;
    assert_eq!((model.name.as_str(), model.format), ("org/repo:safetensors", Format::Safetensors));
    let mut names: Vec<_> = fs::read_dir(&model.path).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"]);
    assert_eq!(fs::read(model.path.join("model.safetensors")).unwrap(), weights);
    assert_eq!(resolve(Path::new("hf:org/repo"), &shelf.store()).unwrap(), model.path);
}

#[test]
fn modules_of_sentence_transformers_come_with_their_weights() {
    let (weights, dense) = (content(5000, 5), content(700, 6));
    let hub = Hub::start(&Repository::new(&[
        ("model.safetensors", &weights),
        ("config.json", b"{}"),
        ("tokenizer.json", b"{}"),
        ("modules.json", b"[]"),
        ("config_sentence_transformers.json", b"{}"),
        ("sentence_roberta_config.json", b"{}"),
        ("1_Pooling/config.json", b"{}"),
        ("2_Dense/config.json", b"{}"),
        ("2_Dense/model.safetensors", &dense),
        ("sparse_linear.pt", &dense),
        ("additional_chat_templates/tool_use.jinja", b"{{ tools }}"),
        ("openvino/openvino_model.bin", &weights),
    ]));
    let shelf = Shelf::new();
    let model = shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap().model;
    for name in [
        "modules.json",
        "config_sentence_transformers.json",
        "sentence_roberta_config.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "sparse_linear.pt",
        "additional_chat_templates/tool_use.jinja",
    ] {
        assert!(model.path.join(name).is_file(), "{name}");
    }
    assert_eq!(fs::read(model.path.join("2_Dense/model.safetensors")).unwrap(), dense);
    assert!(!model.path.join("openvino").exists());
}

#[test]
fn revisions_live_side_by_side() {
    let hub = Hub::start(&Repository::new(&[("m.gguf", &content(100, 1))]));
    let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
    shelf.pull(&options, "hf:org/repo").unwrap();
    let model = shelf.pull(&options, "hf:org/repo@refs/pr/1").unwrap().model;
    assert_eq!(model.name, "org/repo@refs/pr/1:m.gguf");
    assert!(hub.api.seen().iter().any(|request| request.path.contains("/revision/refs%2Fpr%2F1?")));
    assert_eq!(resolve(Path::new("hf:org/repo@refs/pr/1"), &shelf.store()).unwrap(), model.path);
    // The full name of the model at `main` is unambiguous.
    assert!(resolve(Path::new("hf:org/repo:m.gguf"), &shelf.store()).is_ok());
    // They share their file, which is removed with the last of them.
    assert_eq!(shelf.store().remove("org/repo:m.gguf").unwrap().bytes, 0);
    assert_eq!(shelf.store().remove("org/repo").unwrap().bytes, 100);
    assert_eq!(shelf.files(), Vec::<String>::new());
}

#[test]
fn several_candidates_are_listed() {
    let hub = Hub::start(&Repository::new(&[("a-Q4_0.gguf", b"a"), ("b-Q8_0.gguf", b"b")]));
    let (message, hint) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo");
    assert!(message.starts_with("hf:org/repo: several models fit:\n  a-Q4_0.gguf"), "{message}");
    assert!(message.contains("\n  b-Q8_0.gguf") && hint.contains("name one of them"), "{message} {hint}");
    let (message, _) = Shelf::new().refused(&options(&hub.api.url()), "hf:org/repo:Q5_0");
    assert!(
        message.starts_with("hf:org/repo:Q5_0: no such file in this repository; it has:\n  a-"),
        "{message}"
    );
}

#[test]
fn without_network_the_store_must_have_it() {
    let hub = Hub::start(&Repository::new(&[("m.gguf", b"x")]));
    let (shelf, mut options) = (Shelf::new(), options(&hub.api.url()));
    options.offline = true;
    let (message, hint) = shelf.refused(&options, "hf:org/repo");
    assert_eq!(message, "hf:org/repo: not in the store, and the network may not be used");
    assert!(hint.contains("--offline"));
    assert!(hub.api.seen().is_empty());
    options.offline = false;
    shelf.pull(&options, "hf:org/repo").unwrap();
    let n = hub.api.seen().len();
    options.offline = true;
    assert_eq!(shelf.pull(&options, "hf:org/repo").unwrap().downloaded, 0);
    assert_eq!(hub.api.seen().len(), n);
}
