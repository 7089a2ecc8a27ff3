//! `leyden run` and `leyden serve` with LoRA adapters.

use crate::program::{Files, leyden, storyteller_with_all};
use crate::serve::{Server, post};

#[test]
fn adapters_change_what_is_said_by_their_scale() {
    let files = Files::new();
    let [one, two] = ["one", "two"].map(|name| files.path(name));
    leyden_testkit::storyteller_adapter(one.as_ref(), 1).unwrap();
    leyden_testkit::storyteller_adapter(two.as_ref(), 2).unwrap();
    let story = |flags: &[&str]| {
        let run = leyden(&[&["run", "The king", "-n", "12", "--temp", "0"], flags].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        run.out
    };
    let plain = story(&[]);
    let adapted = story(&["--lora", &one]);
    assert_ne!(adapted, plain);
    assert_eq!(story(&["--lora-scaled", &format!("{one}:1")]), adapted);
    assert_eq!(story(&["--lora-scaled", &format!("{one}:0")]), plain);
    let both = story(&["--lora", &one, "--lora", &two]);
    assert_eq!(story(&["--lora", &format!("{one},{two}")]), both);
    assert!(both != adapted && both != plain);
    let refused = leyden(&["run", "The king", "--lora", &files.path("absent")]);
    assert!(refused.code == Some(1) && refused.err.contains("absent"), "{refused:?}");
    let refused = leyden(&["run", "The king", "--lora-scaled", &one]);
    assert!(refused.code == Some(2) && refused.err.contains("must be FILE:SCALE"), "{refused:?}");
}

#[test]
fn a_server_names_adapters_as_models() {
    let files = Files::new();
    let [one, two, toy] = ["one", "two", "toy.gguf"].map(|name| files.path(name));
    leyden_testkit::storyteller_adapter(one.as_ref(), 1).unwrap();
    leyden_testkit::storyteller_adapter(two.as_ref(), 2).unwrap();
    files.add("toy.gguf", &storyteller_with_all(&[]));
    let text = |server: &Server, model: &str| {
        let body =
            format!(r#"{{"model":"{model}","prompt":"The king","max_tokens":8,"temperature":0,"seed":1}}"#);
        let answer = server.exchange(post("/v1/completions", &body));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let answer: serde_json::Value =
            serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        answer["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let (named, scaled) = (format!("pirate={one}"), format!("{two}:0.5"));
    let server = Server::start(&[&toy, "--lora", &named, "--lora-scaled", &scaled]);
    let (base, pirate) = (text(&server, "toy"), text(&server, "pirate"));
    assert_ne!(base, pirate);
    server.end();
    // The same, loaded when it is asked for.
    let config = format!(
        "[models.toy]\nmodel = \"{toy}\"\nlora = [\"pirate={one}\"]\nlora_scaled = [\"{two}:0.5\"]\n\
         [models.plain]\nmodel = \"{toy}\"\n"
    );
    let config = files.add("models.toml", config.as_bytes());
    let server = Server::start(&["--config", &config]);
    assert_eq!(text(&server, "pirate"), pirate);
    assert_eq!(text(&server, "toy"), base);
    let plain = text(&server, "plain");
    assert!(plain != base && plain != pirate);
    server.end();
    let refused = leyden(&["serve", &toy, &toy, "--lora", &one]).failed(2);
    assert!(refused.contains("--lora needs a single model"), "{refused}");
    let refused = leyden(&["serve", &toy, "--lora", "=x"]).failed(2);
    assert!(refused.contains("must be NAME=FILE"), "{refused}");
    let absent = format!("[models.toy]\nmodel = \"{toy}\"\nlora = [\"{}\"]\n", files.path("absent"));
    let config = files.add("absent.toml", absent.as_bytes());
    assert!(leyden(&["serve", "--config", &config]).failed(1).contains("absent"));
}
