//! Whole safetensors models: files by the library and from the hub are read, any layout that is valid
//! is read back, and the other files of a folder are found and bounded.

use leyden_testkit::shared;
use std::fmt::Write as _;
use std::path::Path;

use leyden_tensor::{DType, HfFile, HfFolder, Safetensors, WeightSource, quant};
use proptest::prelude::*;

/// A file of F32 tensors, each filled with its number in the list.
fn file(tensors: &[(&str, usize)], metadata: &str) -> Vec<u8> {
    let (mut header, mut data) = (format!("{{\"__metadata__\":{{{metadata}}}"), Vec::new());
    for (i, (name, n)) in tensors.iter().enumerate() {
        let begin = data.len();
        data.extend((0..*n).flat_map(|_| (i as f32).to_le_bytes()));
        write!(
            header,
            r#","{name}":{{"dtype":"F32","shape":[{n}],"data_offsets":[{begin},{}]}}"#,
            data.len()
        )
        .expect("strings grow");
    }
    header.push('}');
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

const INDEX: &str = r#"{"metadata": {"total_size": 1}, "weight_map": {
    "a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors"}}"#;

fn write_sharded(folder: &Path) {
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("folder is writable");
    write("model-00001-of-00002.safetensors", &file(&[("b", 3)], r#""format":"pt""#));
    write("model-00002-of-00002.safetensors", &file(&[("c", 2), ("a", 4)], r#""format":"np""#));
    write("model.safetensors.index.json", INDEX.as_bytes());
    write("config.json", br#"{"model_type": "llama", "hidden_size": 64}"#);
}

#[test]
fn file_by_the_library_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/library.safetensors");
    let file = Safetensors::open(path.as_ref()).unwrap();
    assert_eq!(file.path(), Path::new(path));
    assert_eq!(file.metadata().str("format").unwrap(), "pt");
    assert_eq!(file.metadata().str("é\n").unwrap(), "\"quoted\"");
    for (name, dtype) in [("w.f32", DType::F32), ("w.f16", DType::F16), ("w.bf16", DType::BF16)] {
        let w = file.require(name).unwrap();
        assert_eq!((w.dtype(), w.shape()), (dtype, &[3, 4][..]));
        let mut row = [0.0; 4];
        quant::decode_row(dtype, w.row(1), &mut row);
        assert_eq!(row, [1.0, 1.25, 1.5, 1.75], "{name}");
    }
    let scalar = file.require("scalar").unwrap();
    assert_eq!((scalar.shape(), scalar.bytes()), (&[][..], &2.5f32.to_le_bytes()[..]));
    assert_eq!(file.require("empty").unwrap().shape(), &[0, 4]);
    for (name, ty) in [("ids", "I64 (27)"), ("flags", "BOOL"), ("f8", "F8_E4M3")] {
        let error = file.require(name).unwrap_err().to_string();
        assert_eq!(error, format!("{path}: {name}: tensor type {ty} is not supported"));
        assert!(file.tensor(name).is_none());
    }
    assert_eq!(file.tensor_info().len(), 8);
    file.check_intact().unwrap();
}

#[test]
fn shared_tensor_has_both_names() {
    let bytes = file(&[("a", 2), ("b", 1)], r#""c":"a","b":"a","d":"gone","format":"pt""#);
    let file = Safetensors::from_vec(bytes, "m.safetensors").unwrap();
    assert_eq!((file.require("c").unwrap().name(), file.require("b").unwrap().name()), ("a", "b"));
    assert!(file.optional("d").unwrap().is_none() && file.optional("format").unwrap().is_none());
    assert_eq!(file.require("d").unwrap_err().to_string(), "m.safetensors: d: required tensor is missing");
    assert_eq!(file.tensor_names(), ["a", "b"]);
}

/// The model in the shared folder, as it came from the hub.
#[test]
fn model_from_the_hub_is_read() {
    let Some(path) = shared("data/llm/TinyStories-656K") else { return };
    let folder = HfFolder::open(&path).unwrap();
    assert!(HfFolder::is_at(&path) && !HfFolder::is_at(&path.join("config.json")));
    let config = folder.config();
    assert_eq!(config.opt_array_str("architectures").unwrap(), Some(vec!["LlamaForCausalLM"]));
    assert_eq!((config.u32("num_hidden_layers").unwrap(), config.f32("rope_theta").unwrap()), (2, 10_000.0));
    assert_eq!(config.opt_f32("rope_scaling.factor").unwrap(), None);
    assert_eq!(config.opt_u32_or_array("eos_token_id").unwrap(), Some(vec![2]));
    assert!(folder.json(HfFile::GenerationConfig).unwrap().is_some());
    assert!(folder.json(HfFile::TokenizerConfig).unwrap().unwrap().get("bos_token").is_some());
    assert!(folder.read(HfFile::Tokenizer).unwrap().unwrap().starts_with(b"{"));
    assert_eq!(folder.read(HfFile::ChatTemplate).unwrap(), None);
    let embedding = folder.weights().require("model.embed_tokens.weight").unwrap();
    assert_eq!((embedding.dtype(), embedding.shape()), (DType::F32, &[2048, 128][..]));
    assert_eq!(embedding.name(), "lm_head.weight", "written once for both names");
    let mut row = [0.0; 128];
    quant::decode_row(DType::F32, embedding.row(5), &mut row);
    assert!(row.iter().all(|v| v.is_finite() && v.abs() < 10.0) && row.iter().any(|&v| v != 0.0));
}

#[test]
fn sharded_model_is_read_from_folder_and_index() {
    let folder = tempfile::tempdir().unwrap();
    write_sharded(folder.path());
    for path in [folder.path().to_path_buf(), folder.path().join("model.safetensors.index.json")] {
        let file = Safetensors::open(&path).unwrap();
        assert_eq!(file.path(), path);
        let shards = [1, 2].map(|i| folder.path().join(format!("model-0000{i}-of-00002.safetensors")));
        assert_eq!(file.paths(), shards);
        assert_eq!(file.tensor_names(), ["b", "c", "a"]);
        assert_eq!(file.metadata().str("format").unwrap(), "pt");
        for (name, n, value) in [("a", 4, 1f32), ("b", 3, 0.0), ("c", 2, 0.0)] {
            assert_eq!(file.require(name).unwrap().bytes(), value.to_le_bytes().repeat(n), "{name}");
        }
        let missing = file.require("d").unwrap_err().to_string();
        assert_eq!(missing, format!("{}: d: required tensor is missing", path.display()));
    }
    // A model in one file takes precedence over an index, as in the hub's own library.
    std::fs::write(folder.path().join("model.safetensors"), file(&[("whole", 1)], "")).unwrap();
    assert_eq!(Safetensors::open(folder.path()).unwrap().tensor_names(), ["whole"]);
}

/// Downloads are kept as links into a folder of blobs.
#[test]
fn links_are_followed() {
    let cache = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (cache.path().join("blobs"), cache.path().join("snapshot"));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(&snapshot).unwrap();
    write_sharded(&blobs);
    for entry in std::fs::read_dir(&blobs).unwrap() {
        let path = entry.unwrap().path();
        std::os::unix::fs::symlink(&path, snapshot.join(path.file_name().unwrap())).unwrap();
    }
    let folder = HfFolder::open(&snapshot).unwrap();
    assert_eq!(folder.weights().tensor_names(), ["b", "c", "a"]);
}

#[test]
fn truncation_of_a_shard_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    write_sharded(folder.path());
    let shard = folder.path().join("model-00002-of-00002.safetensors");
    std::fs::write(&shard, file(&[("c", 2), ("a", 1 << 16)], "")).unwrap();
    let folder = HfFolder::open(folder.path()).unwrap();
    folder.check_intact().unwrap();
    let a = folder.weights().require("a").unwrap();
    folder.weights().advise_willneed("a");
    folder.weights().advise_dontneed("a", 0..usize::MAX);
    assert!(a.bytes().ends_with(&1f32.to_le_bytes()));
    std::fs::OpenOptions::new().write(true).open(&shard).unwrap().set_len(4096).unwrap();
    assert!(a.bytes().ends_with(&[0; 100]) && folder.weights().truncated());
    let error = folder.check_intact().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: part of the file", shard.display())), "{error}");
}

#[test]
fn folder_without_its_files_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let error = || HfFolder::open(path).unwrap_err().to_string();
    assert_eq!(error(), format!("{}: the folder has no config.json", path.display()));
    std::fs::write(path.join("config.json"), "{}").unwrap();
    let wanted = "model.safetensors, model.safetensors.index.json or pytorch_model.bin";
    assert_eq!(error(), format!("{}: the folder has no {wanted}", path.display()));
    std::fs::create_dir(path.join("model.safetensors")).unwrap();
    assert_eq!(error(), format!("{}/model.safetensors: not a regular file", path.display()));
    std::fs::write(path.join("config.json"), vec![b' '; (4 << 20) + 1]).unwrap();
    let size = "file size is 4194305, at most 4194304 is possible";
    assert_eq!(error(), format!("{}/config.json: {size}", path.display()));
    std::fs::write(path.join("config.json"), "{\"a\": [1,}").unwrap();
    assert_eq!(error(), format!("{}/config.json: line 1 column 10: expected value", path.display()));
}

#[test]
fn files_beside_the_weights_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_sharded(path);
    let model = HfFolder::open(path).unwrap();
    assert_eq!(model.additional_chat_templates().unwrap(), []);
    std::fs::write(path.join("chat_template.jinja"), "{{ messages }}").unwrap();
    assert_eq!(model.read(HfFile::ChatTemplate).unwrap().unwrap(), b"{{ messages }}");
    std::fs::create_dir(path.join("additional_chat_templates")).unwrap();
    for (name, text) in [("tool_use.jinja", "t"), ("rag.jinja", "r"), ("README.md", "no")] {
        std::fs::write(path.join("additional_chat_templates").join(name), text).unwrap();
    }
    let templates = model.additional_chat_templates().unwrap();
    assert_eq!(templates, [("rag".to_owned(), b"r".to_vec()), ("tool_use".to_owned(), b"t".to_vec())]);
    for i in 0..63 {
        std::fs::write(path.join(format!("additional_chat_templates/{i}.jinja")), "").unwrap();
    }
    let error = model.additional_chat_templates().unwrap_err().to_string();
    assert!(error.ends_with("number of chat templates is 65, at most 64 is possible"), "{error}");
    // Sparse, so that the limits can be exceeded at no cost.
    for file in [HfFile::Tokenizer, HfFile::TokenizerConfig, HfFile::ChatTemplate, HfFile::SpecialTokensMap] {
        let big = std::fs::File::create(path.join(file.name())).unwrap();
        big.set_len(file.max_bytes() + 1).unwrap();
        let error = model.read(file).unwrap_err().to_string();
        assert!(error.contains(file.name()) && error.contains("file size is"), "{error}");
    }
    std::fs::remove_file(path.join("tokenizer.json")).unwrap();
    std::fs::create_dir(path.join("tokenizer.json")).unwrap();
    assert!(
        model
            .read(HfFile::Tokenizer)
            .unwrap_err()
            .to_string()
            .ends_with("tokenizer.json: not a regular file")
    );
    assert!(HfFolder::open("/dev/null".as_ref()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any tensors in any order of the header and of the data, with any names.
    #[test]
    fn what_is_written_is_read_back(
        tensors in prop::collection::btree_map(
            "\\PC{1,20}",
            (0usize..3, prop::collection::vec(0usize..5, 0..4), any::<u8>(), any::<u64>()),
            0..8,
        ),
        texts in prop::collection::btree_map("\\PC{1,10}", any::<String>(), 0..4),
        padding in 0usize..9,
    ) {
        const TYPES: [(&str, DType); 3] = [("F32", DType::F32), ("F16", DType::F16), ("BF16", DType::BF16)];
        // Data in the order of the random keys, the header in that of the names.
        let mut order: Vec<_> = tensors.iter().collect();
        order.sort_by_key(|(_, tensor)| tensor.3);
        let mut data = Vec::new();
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".to_owned(), serde_json::to_value(&texts).unwrap());
        let mut wanted = Vec::new();
        for (name, (ty, shape, fill, _)) in order {
            let (type_name, dtype) = TYPES[*ty];
            let begin = data.len();
            let n = shape.iter().product::<usize>() * dtype.block_bytes();
            data.extend((0..n).map(|i| fill.wrapping_add(i as u8)));
            let entry = serde_json::json!({"dtype": type_name, "shape": shape, "data_offsets": [begin, data.len()]});
            header.insert(name.clone(), entry);
            wanted.push((name, dtype, shape, begin..data.len()));
        }
        header.sort_keys();
        let mut header = serde_json::to_string(&header).unwrap();
        header.push_str(&" ".repeat(padding));
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
        let file = Safetensors::from_vec(bytes, "w.safetensors").unwrap();
        for (key, text) in &texts {
            prop_assert_eq!(file.metadata().str(key).unwrap(), text);
        }
        prop_assert_eq!(file.tensor_info().len(), wanted.len());
        for (name, dtype, shape, range) in wanted {
            let view = file.require(name).unwrap();
            prop_assert_eq!((view.name(), view.dtype(), view.shape()), (&name[..], dtype, &shape[..]));
            prop_assert!(view.bytes() == &data[range]);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let framed = [&(bytes.len() as u64 + 1).to_le_bytes()[..], b"{", &bytes].concat();
        for bytes in [bytes, framed] {
            if let Err(e) = Safetensors::from_vec(bytes, "any.safetensors") {
                prop_assert!(e.to_string().starts_with("any.safetensors: "));
            }
        }
    }
}
