//! `leyden convert`: there and back, with the same answers.

use crate::program::{Files, leyden};
use leyden_tensor::{Gguf, WeightSource};
use leyden_testkit::shared;
use std::path::Path;

#[test]
fn a_file_becomes_a_folder_and_the_same_file_again() {
    let Some(model) = shared("demo-model/storyteller-f16.gguf") else { return };
    let (model, files) = (model.display().to_string(), Files::new());
    let (folder, back) = (files.path("folder"), files.path("back.gguf"));
    let report = leyden(&["convert", &model, &folder, "--json"]).json();
    assert_eq!(report["pre_tokenizer"].as_str().map(str::is_empty), Some(false), "{report}");
    leyden(&["convert", &folder, &back]).ok();
    let [was, is] = [&model, &back].map(|path| Gguf::open(Path::new(path)).unwrap());
    let names = |file: &Gguf| {
        let mut names: Vec<String> = file.tensor_names().into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(names(&was), names(&is));
    for name in was.tensor_names() {
        let (a, b) = (was.require(name).unwrap(), is.require(name).unwrap());
        assert!((a.dtype(), a.shape(), a.bytes()) == (b.dtype(), b.shape(), b.bytes()), "{name}");
    }
    for key in
        ["tokenizer.ggml.tokens", "tokenizer.ggml.merges", "llama.rope.freq_base", "llama.context_length"]
    {
        assert_eq!(was.metadata().get(key), is.metadata().get(key), "{key}");
    }
    let answer = |model: &str| leyden(&["run", model, "Once upon a time", "-n", "12", "--temp", "0"]).out;
    let wanted = answer(&model);
    assert!(!wanted.is_empty());
    assert_eq!((answer(&folder), answer(&back)), (wanted.clone(), wanted));
    // Folders are quantised and evaluated as they are.
    let (a, b) = (files.path("a.gguf"), files.path("b.gguf"));
    leyden(&["quantize", &folder, &a, "Q4_0"]).ok();
    leyden(&["quantize", &back, &b, "Q4_0"]).ok();
    assert!(
        std::fs::read(&a).unwrap() == std::fs::read(&b).unwrap() || {
            let [a, b] = [&a, &b].map(|path| Gguf::open(Path::new(path)).unwrap());
            a.tensor_names().iter().all(|n| a.require(n).unwrap().bytes() == b.require(n).unwrap().bytes())
        }
    );
    let left: Vec<_> = std::fs::read_dir(Path::new(&a).parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let told = leyden(&["convert", &model, &folder]).failed(1);
    assert!(told.contains("is there already"), "{told}");
    let told = leyden(&["convert", &model, &files.path("other"), "--type", "q4_0"]).failed(2);
    assert!(told.contains("the type must be f32, f16 or bf16"), "{told}");
    std::fs::write(Path::new(&folder).join("tokenizer.json"), "{}").unwrap();
    let told = leyden(&["convert", &folder, &files.path("x.gguf")]).failed(1);
    assert!(told.contains("tokenizer.json"), "{told}");
}
