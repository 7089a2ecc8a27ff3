//! LoRA adapters in the PEFT format.

use crate::random::random;
use std::io;
use std::path::Path;

/// Writes an adapter of rank 4 for the embedded storyteller model: for queries, values and the outputs of feed-forward
/// layers. Its values follow from `seed`, and it changes the model's answers.
///
/// # Errors
/// If the folder cannot be written to.
pub fn storyteller_adapter(folder: &Path, seed: u64) -> io::Result<()> {
    const WIDTH: usize = 256;
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for layer in 0..4 {
        for (part, rows, k) in [
            ("self_attn.q_proj", WIDTH, WIDTH),
            ("self_attn.v_proj", 128, WIDTH),
            ("mlp.down_proj", WIDTH, 768),
        ] {
            for (half, rows, k) in [("A", 4, k), ("B", rows, 4)] {
                let (start, number) = (data.len(), header.len() as u64);
                for i in 0..(rows * k) as u64 {
                    let x = random((seed << 40) + (number << 20) + i) >> 40;
                    data.extend((x as f32 / (1 << 24) as f32 - 0.5).to_le_bytes());
                }
                header.push(format!(
                    r#""base_model.model.model.layers.{layer}.{part}.lora_{half}.weight":{{"dtype":"F32","shape":[{rows},{k}],"data_offsets":[{start},{}]}}"#,
                    data.len()
                ));
            }
        }
    }
    let header = format!("{{{}}}", header.join(","));
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    let config = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 4, "bias": "none", "target_modules": ["q_proj", "v_proj", "down_proj"]}"#;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("adapter_config.json"), config)?;
    std::fs::write(folder.join("adapter_model.safetensors"), file)
}
