//! Every form of a model by every way in which it can be served: they all answer alike.

use std::fs;
use std::path::Path;

use leyden::{LoadOptions, Model};
use leyden_hub::Store;
use leyden_tensor::{Gguf, GgufWriter, Safetensors, WeightSource};
use serde_json::{Value, json};

use super::encoders::{self, onnx_model};
use super::folders::{self, checkpoint, tokenizer};
use super::models::program;
use super::models::server::{Hub, Repository};
use super::program::{Files, STORYTELLER, finish, storyteller_with_template};
use super::serve::{Server, post};

/// A model in one of the forms.
struct Form {
    files: Files,
    /// The models named as MODEL.
    path: String,
    /// True if it generates text.
    generates: bool,
    /// An adapter of it.
    adapter: Option<String>,
}

impl Form {
    fn new(files: Files, path: String, generates: bool) -> Form {
        Form { files, path, generates, adapter: None }
    }
}

fn gguf() -> Form {
    let files = Files::new();
    let path = files.add("toy.gguf", &storyteller_with_template("{{ messages[-1].content }}"));
    Form::new(files, path, true)
}

fn gguf_in_parts() -> Form {
    let files = Files::new();
    let whole = Gguf::open(Path::new(STORYTELLER)).unwrap();
    let names = whole.tensor_names();
    let count = i32::try_from(names.len()).unwrap();
    for (no, names) in names.chunks(names.len().div_ceil(2)).enumerate() {
        let mut part = GgufWriter::new();
        for (key, value) in whole.metadata().iter().filter(|_| no == 0) {
            part.set(key, value.clone());
        }
        let no = u16::try_from(no).unwrap();
        part.set("split.no", no.into())
            .set("split.count", 2_u16.into())
            .set("split.tensors.count", count.into());
        for name in names {
            let tensor = whole.require(name).unwrap();
            part.add_tensor(name, tensor.dtype(), tensor.shape(), tensor.bytes()).unwrap();
        }
        files.add(&format!("toy-0000{}-of-00002.gguf", no + 1), &part.to_vec().unwrap());
    }
    let path = files.path("toy-00001-of-00002.gguf");
    Form::new(files, path, true)
}

fn safetensors() -> Form {
    let files = Files::new();
    let path = folders::model(&files);
    Form::new(files, path, true)
}

/// An archive of entries that are stored as they are.
fn zip(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let at = u32::try_from(file.len()).unwrap();
        let (size, length) = (u32::try_from(bytes.len()).unwrap(), u16::try_from(name.len()).unwrap());
        // Version, flags, method, time, date, checksum, which readers of checkpoints do not look at.
        let mut common = vec![0; 14];
        common.extend([size, size].iter().flat_map(|n| n.to_le_bytes()));
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(bytes);
        directory.extend(b"PK\x01\x02\0\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, size) = (u32::try_from(file.len()).unwrap(), u32::try_from(directory.len()).unwrap());
    let count = u16::try_from(entries.len()).unwrap();
    file.extend(directory);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([count, count].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([size, at].iter().flat_map(|n| n.to_le_bytes()));
    file.extend([0, 0]);
    file
}

/// A checkpoint as `torch.save` writes one, with tensors in BF16.
fn torch(tensors: &Safetensors) -> Vec<u8> {
    let text =
        |text: &str| [&b"X"[..], &u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
    let number = |n: usize| [&b"J"[..], &i32::try_from(n).unwrap().to_le_bytes()].concat();
    let tuple = |items: Vec<Vec<u8>>| [&b"("[..], &items.concat(), b"t"].concat();
    let (mut pickle, mut entries) = (b"\x80\x02}(".to_vec(), Vec::new());
    for (i, info) in tensors.tensor_info().iter().enumerate() {
        assert_eq!(info.type_name, "BF16");
        let (shape, count) = (&info.shape, info.shape.iter().product::<usize>());
        let strides = (0..shape.len()).map(|at| number(shape[at + 1..].iter().product()));
        let storage = tuple(vec![
            text("storage"),
            b"ctorch\nBFloat16Storage\n".to_vec(),
            text(&i.to_string()),
            text("cpu"),
            number(count),
        ]);
        let hooks = b"\x89ccollections\nOrderedDict\n)R".to_vec();
        let parts = vec![
            [&storage[..], b"Q"].concat(),
            number(0),
            tuple(shape.iter().map(|n| number(*n)).collect()),
            tuple(strides.collect()),
            hooks,
        ];
        pickle.extend(
            [text(&info.name), b"ctorch._utils\n_rebuild_tensor_v2\n".to_vec(), tuple(parts), b"R".to_vec()]
                .concat(),
        );
        entries.push((format!("m/data/{i}"), tensors.raw(&info.name).unwrap().1.to_vec()));
    }
    pickle.extend(b"u.");
    entries.insert(0, ("m/data.pkl".to_owned(), pickle));
    zip(&entries)
}

fn pytorch() -> Form {
    let files = Files::new();
    let tensors = Safetensors::open(&checkpoint("llama")).unwrap();
    files.add("pytorch_model.bin", &torch(&tensors));
    files.add("config.json", &fs::read(checkpoint("llama").join("config.json")).unwrap());
    files.add("tokenizer.json", &tokenizer());
    let path = files.folder().to_str().unwrap().to_owned();
    Form::new(files, path, true)
}

fn encoder() -> Form {
    let files = Files::new();
    let (path, _) = encoders::model(&files, "bert");
    Form::new(files, path, false)
}

fn onnx_folder() -> Form {
    let files = Files::new();
    let (path, _) = onnx_model(&files, "bert-int8.onnx");
    Form::new(files, path, false)
}

fn onnx_file() -> Form {
    let form = onnx_folder();
    Form { path: format!("{}/onnx/model_quantized.onnx", form.path), ..form }
}

/// A folder whose matrices GPTQ quantised, of the goldens of the engine.
fn quantised() -> Form {
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../leyden-engine/tests/golden/quantised.safetensors");
    let golden = Safetensors::from_vec(fs::read(golden).unwrap(), "quantised.safetensors").unwrap();
    let of = |key: &str| -> Value { serde_json::from_str(golden.metadata().str(key).unwrap()).unwrap() };
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for info in golden.tensor_info() {
        let (owner, name) = info.name.split_once('.').unwrap();
        if ["shared", "gptq"].contains(&owner) {
            let start = data.len();
            data.extend(golden.raw(&info.name).unwrap().1);
            let place =
                json!({ "dtype": info.type_name, "shape": info.shape, "data_offsets": [start, data.len()] });
            header.insert(name.to_owned(), place);
        }
    }
    let files = Files::new();
    // The tokenizer is that of a model with as many words.
    let (path, _) = onnx_model(&files, "bert-int8.onnx");
    fs::remove_dir_all(files.folder().join("onnx")).unwrap();
    let header = Value::Object(header).to_string();
    files.add(
        "model.safetensors",
        &[&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat(),
    );
    let mut config = of("config");
    config["quantization_config"] = of("cases")["gptq"].clone();
    files.add("config.json", config.to_string().as_bytes());
    Form::new(files, path, true)
}

fn adapted() -> Form {
    let form = gguf();
    let adapter = form.files.path("adapter");
    leyden_testkit::storyteller_adapter(adapter.as_ref(), 1).unwrap();
    Form { adapter: Some(adapter), ..form }
}

const TEXT: &str = "w1 w2 w3";

fn exchange(server: &Server, path: &str, body: &Value) -> (String, Value) {
    let answer = server.exchange(post(path, &body.to_string()));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (head.split(' ').nth(1).unwrap().to_owned(), body)
}

/// The answers of a model: a vector, and a text if it writes any.
fn said(server: &Server, form: &Form, name: Option<&str>) -> (Vec<f64>, Value) {
    let ask = |path: &str, mut body: Value| {
        if let Some(name) = name {
            body["model"] = name.into();
        }
        let (status, answer) = exchange(server, path, &body);
        assert_eq!(status, "200", "{}: {answer}", form.path);
        answer
    };
    let vector = ask("/v1/embeddings", json!({ "input": TEXT }));
    let vector = vector["data"][0]["embedding"].as_array().unwrap();
    let vector = vector.iter().map(|x| x.as_f64().unwrap()).collect();
    if !form.generates {
        return (vector, Value::Null);
    }
    let body = json!({ "prompt": TEXT, "max_tokens": 6, "temperature": 0, "ignore_eos": true });
    (vector, ask("/v1/completions", body)["choices"][0]["text"].clone())
}

/// The files of a repository of a hub.
fn repository(form: &Form) -> Repository {
    fn walk(folder: &Path, before: &str, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{before}{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), &format!("{name}/"), found),
                false => found.push((name, fs::read(entry.path()).unwrap())),
            }
        }
    }
    let mut found = Vec::new();
    walk(form.files.folder(), "", &mut found);
    let listed: Vec<(&str, &[u8])> = found.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    Repository::new(&listed)
}

fn serve(home: &Files, url: &str, more: &[&str]) -> Server {
    let all = ["serve", "--port", "0", "--threads", "1", "--lame-duck", "0"];
    Server::of(&mut program(home, url, &[&all, more].concat()))
}

/// Serves a model in every way.
fn check(form: &Form) {
    let (home, nowhere) = (Files::new(), "http://127.0.0.1:9");
    let adapter = form.adapter.as_ref().map(|adapter| format!("{adapter}:1"));
    let lora: Vec<&str> = adapter.iter().flat_map(|adapter| ["--lora-scaled", adapter]).collect();
    let server = serve(&home, nowhere, &[&[form.path.as_str()], &lora[..]].concat());
    let wanted = said(&server, form, None);
    assert_eq!(server.end().0, Some(0));

    let server = serve(&home, nowhere, &[&["--on-demand", &form.path], &lora[..]].concat());
    assert_eq!(said(&server, form, None), wanted, "{}: --on-demand", form.path);
    assert_eq!(server.end().0, Some(0));

    let scaled = adapter.iter().map(|adapter| format!("lora_scaled = [\"{adapter}\"]\n"));
    let config = format!("[models.it]\nmodel = \"{}\"\n{}", form.path, scaled.collect::<String>());
    let config = home.add("models.toml", config.as_bytes());
    let server = serve(&home, nowhere, &["--config", &config]);
    assert_eq!(said(&server, form, Some("it")), wanted, "{}: --config", form.path);
    assert_eq!(server.end().0, Some(0));

    let mut options = LoadOptions::new().threads(1);
    if let Some(adapter) = &form.adapter {
        options = options.lora(adapter, 1.0);
    }
    let model = Model::open(&form.path, &options).unwrap();
    let vector = model.embed(&[TEXT]).unwrap().remove(0);
    assert_eq!(vector.len(), wanted.0.len());
    let off = vector.iter().zip(&wanted.0).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
    assert!(off < 1e-6, "{}: the library's vector is off by {off}", form.path);
    budget(form, &home);
    if form.adapter.is_some() {
        return;
    }

    let hub = Hub::start(&repository(form));
    let url = hub.api.url();
    let server = serve(&home, &url, &["--all", "--allow-pull"]);
    let answer = server.exchange(post("/api/pull", r#"{"model":"org/repo"}"#));
    assert!(answer.contains(r#"{"status":"success"}"#), "{}: {answer}", form.path);
    assert_eq!(said(&server, form, Some("org/repo")), wanted, "{}: /api/pull", form.path);
    assert_eq!(server.end().0, Some(0));

    let server = serve(&home, &url, &["--all"]);
    assert_eq!(said(&server, form, None), wanted, "{}: --all", form.path);
    assert_eq!(server.end().0, Some(0));
    let stored = Store::at(home.path("models")).contents().unwrap().models;
    let path = stored[0].path.to_str().unwrap();
    let server = serve(&home, nowhere, &["org/repo", "--offline"]);
    assert_eq!(said(&server, form, None), wanted, "{path}");
    assert_eq!(server.end().0, Some(0));
}

/// The memory that is said to be needed suffices, and with less nothing is read.
fn budget(form: &Form, home: &Files) {
    let ask = |memory: &str| {
        let server = serve(home, "http://127.0.0.1:9", &["--on-demand", &form.path, "--memory", memory]);
        let answer = exchange(&server, "/v1/embeddings", &json!({ "input": TEXT }));
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        (answer, log)
    };
    let ((status, answer), log) = ask("1KiB");
    assert_eq!((status.as_str(), &answer["error"]["code"]), ("507", &"model_too_large".into()), "{answer}");
    assert!(!log.contains("model_load"), "{log}");
    let message = answer["error"]["message"].as_str().unwrap();
    let needed: u64 = message
        .split(' ')
        .zip(message.split(' ').skip(1))
        .find(|(_, unit)| *unit == "MiB")
        .unwrap()
        .0
        .parse()
        .unwrap();
    let ((status, answer), log) = ask(&format!("{needed}MiB"));
    assert_eq!(status, "200", "{}: {needed} MiB: {answer} {log}", form.path);
    assert_eq!(ask(&format!("{}MiB", needed - 1)).0.0, "507", "{}: {needed} MiB", form.path);
}

/// A test of its own for each form, so that they run beside each other.
macro_rules! forms {
    ($($name:ident: $form:expr;)*) => {
        $(#[test]
        fn $name() {
            check(&$form);
        })*
    };
}

forms! {
    a_gguf_file_is_served_in_every_way: gguf();
    a_gguf_model_in_parts_is_served_in_every_way: gguf_in_parts();
    a_folder_of_safetensors_is_served_in_every_way: safetensors();
    a_checkpoint_of_pytorch_is_served_in_every_way: pytorch();
    an_encoder_is_served_in_every_way: encoder();
    a_folder_with_an_onnx_model_is_served_in_every_way: onnx_folder();
    an_onnx_file_is_served_in_every_way: onnx_file();
    a_quantised_folder_is_served_in_every_way: quantised();
    a_model_with_an_adapter_is_served_in_every_way: adapted();
}

/// Models that do not run here are left out, with the reason; the others are served.
#[test]
fn one_bad_model_does_not_stop_the_server() {
    let (home, form) = (Files::new(), gguf());
    let bad = home.add("bad.gguf", b"no model");
    let empty = home.path("empty");
    fs::create_dir(&empty).unwrap();
    let broken = safetensors();
    broken.files.add("config.json", br#"{"model_type": "warp"}"#);
    let config = format!(
        "[models.bad]\nmodel = \"{bad}\"\n[models.good]\nmodel = \"{}\"\n[models.warp]\nmodel = \"{}\"\n\
         [models.long]\nmodel = \"{}\"\nctx = 1000000\n",
        form.path, broken.path, form.path
    );
    let config = home.add("models.toml", config.as_bytes());
    let ways: [&[&str]; 2] = [
        &["--config", &config],
        &[
            "--on-demand",
            &bad,
            &form.path,
            &empty,
            &broken.path,
            "--alias",
            "bad=other",
            "--alias",
            "toy=good",
        ],
    ];
    for way in ways {
        let mut command = program(
            &home,
            "http://127.0.0.1:9",
            &[&["serve", "--port", "0", "--threads", "1"], way].concat(),
        );
        let server = Server::of(&mut command);
        said(&server, &form, Some("good"));
        let (status, answer) =
            exchange(&server, "/v1/completions", &json!({ "model": "bad", "prompt": "x" }));
        assert_eq!(status, "404", "{answer}");
        assert_eq!(server.end().0, Some(0));
    }
    // Where there is none that runs, the reason is the server's.
    for model in [&bad, &empty, &broken.path] {
        let arguments = ["serve", "--port", "0", "--on-demand", model];
        let error = finish(&mut program(&home, "http://127.0.0.1:9", &arguments), b"").failed(1);
        assert!(error.starts_with(&format!("error: {model}")), "{error}");
    }
}
