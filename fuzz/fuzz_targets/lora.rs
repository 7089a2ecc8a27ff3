//! Any bytes as a LoRA adapter of a tiny model are refused by name, or read. Bytes that begin like GGUF are such a file;
//! others are an `adapter_config.json` and, after a zero byte, a safetensors file or the JSON of its header.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use leyden_kernels::{Cpu, Tier};
use leyden_models::{HfModel, Network};
use leyden_tensor::Json;

/// Maximum number of bytes after a header that is given alone.
const MAX_DATA: u64 = 1 << 20;

struct Loaded {
    cpu: Cpu,
    network: Arc<dyn Network>,
    folder: PathBuf,
}

fn loaded() -> &'static Loaded {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    LOADED.get_or_init(|| {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leyden-engine/tests/fixtures/hf/llama");
        let cpu = Cpu::new(Tier::best(), 1).unwrap();
        let model = HfModel::open(Path::new(model)).unwrap();
        let network = leyden_models::load(Arc::new(model), &cpu, &mut |_, _| {}).unwrap();
        let folder = std::env::temp_dir().join(format!("leyden-fuzz-lora-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("peft")).unwrap();
        Loaded { cpu, network, folder }
    })
}

/// Returns a safetensors file with this header, and as much data as its offsets need.
fn framed(header: &[u8]) -> Vec<u8> {
    let parsed = Json::parse(header, "header").ok();
    let ends = parsed
        .iter()
        .flat_map(|json| json.object().values())
        .filter_map(|tensor| tensor.get("data_offsets")?.get(1)?.as_u64());
    let data = ends.max().unwrap_or(0).min(MAX_DATA) as usize;
    [&(header.len() as u64).to_le_bytes(), header, &vec![0x3c; data]].concat()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Loaded { cpu, network, folder } = loaded();
    let path = if bytes.starts_with(b"GGUF") {
        let path = folder.join("adapter.gguf");
        std::fs::write(&path, bytes).unwrap();
        path
    } else {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let weights = bytes.get(end + 1..).unwrap_or_default();
        let weights = if weights.starts_with(b"{") { framed(weights) } else { weights.to_vec() };
        let path = folder.join("peft");
        std::fs::write(path.join("adapter_config.json"), &bytes[..end]).unwrap();
        std::fs::write(path.join("adapter_model.safetensors"), weights).unwrap();
        path
    };
    match network.adapter(cpu, &path) {
        Ok(adapter) => assert!((1..=1024).contains(&adapter.rank()) && adapter.bytes() > 0),
        Err(error) => {
            let text = error.to_string();
            let named = text.strip_prefix(&folder.display().to_string());
            assert!(named.is_some() && !text.contains(char::is_control), "{text:?}");
        }
    }
});
