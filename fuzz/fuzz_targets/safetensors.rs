//! Any bytes as a safetensors file are refused, or opened and can be read. Bytes that begin like JSON are also tried
//! as a header before 100 bytes of data, as the index of a sharded model and as a configuration.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use leyden_tensor::{Json, Safetensors, WeightSource, quant};

fn read_all(file: &Safetensors) {
    for (key, _) in file.metadata().iter() {
        let _ = (file.metadata().str(key), file.optional(key));
    }
    for view in file.tensor_names().iter().filter_map(|name| file.tensor(name)) {
        let Some(last) = view.rows().checked_sub(1) else { continue };
        quant::decode_row(view.dtype(), view.row(last), &mut vec![0.0; view.cols()]);
    }
}

fn framed(header: &[u8], data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, &vec![0x3c; data]].concat()
}

/// Returns a folder with two shards, into which the index is written.
fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("leyden-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let a = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"F16","shape":[2],"data_offsets":[8,12]}}"#;
        let b = br#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        std::fs::write(folder.join("model-00001-of-00002.safetensors"), framed(a, 12)).unwrap();
        std::fs::write(folder.join("model-00002-of-00002.safetensors"), framed(b, 8)).unwrap();
        folder
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.first() != Some(&b'{') {
        if let Ok(file) = Safetensors::from_vec(bytes.to_vec(), "fuzz.safetensors") {
            read_all(&file);
        }
        return;
    }
    if let Ok(file) = Safetensors::from_vec(framed(bytes, 100), "fuzz.safetensors") {
        read_all(&file);
    }
    if let Ok(config) = Json::parse(bytes, "config.json") {
        for key in config.object().keys() {
            let _ = (config.u32(key), config.f32(key), config.bool(key), config.str(key));
            let _ = (config.opt_u32_or_array(key), config.opt_array_f32(key), config.opt_array_str(key));
        }
        std::fs::write(folder().join("model.safetensors.index.json"), bytes).unwrap();
        if let Ok(file) = Safetensors::open(folder()) {
            read_all(&file);
        }
    }
});
