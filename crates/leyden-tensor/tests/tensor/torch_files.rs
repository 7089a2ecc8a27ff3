//! Checkpoints as PyTorch writes them: `tests/golden/make_torch.py`.

use leyden_tensor::{DType, Safetensors, WeightSource, quant};

const TIED: &[u8] = include_bytes!("../golden/tied.bin");

fn open(bytes: &[u8]) -> Result<Safetensors, String> {
    Safetensors::from_vec(bytes.to_vec(), "m.bin").map_err(|e| e.to_string())
}

#[test]
fn checkpoints_of_pytorch_are_read_where_they_lie() {
    let file = open(TIED).unwrap();
    let counting = |name: &str, dtype: DType, shape: &[usize], start: u16| {
        let tensor = file.require(name).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (dtype, shape), "{name}");
        let mut values = vec![0.0; shape.iter().product()];
        quant::decode_row(dtype, tensor.bytes(), &mut values);
        let want: Vec<f32> = (start..).take(values.len()).map(f32::from).collect();
        assert_eq!(values, want, "{name}");
    };
    counting("embeddings.weight", DType::F32, &[4, 3], 1);
    counting("decoder.weight", DType::F32, &[4, 3], 1);
    counting("part.weight", DType::F16, &[2, 2], 104);
    counting("half.bias", DType::BF16, &[3], 7);
    assert_eq!(file.raw("position_ids").unwrap().0.type_name, "I64");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pytorch_model.bin"), TIED).unwrap();
    assert_eq!(Safetensors::open(folder.path()).unwrap().tensor_names().len(), 5);
    // Safetensors take precedence.
    std::fs::write(folder.path().join("model.safetensors"), b"x").unwrap();
    assert!(Safetensors::open(folder.path()).is_err());
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let turned = open(include_bytes!("../golden/turned.bin")).unwrap_err();
    assert!(turned.starts_with("m.bin: turned.weight: is not stored row by row"), "{turned}");
    for end in 0..TIED.len() {
        let error = open(&TIED[..end]).unwrap_err();
        assert!(error.starts_with("m.bin: "), "{error}");
    }
    let cut = open(&TIED[..TIED.len() / 2]).unwrap_err();
    assert_eq!(
        cut,
        "m.bin: archive: the directory at its end is missing or damaged: was all of it downloaded?"
    );
    // Any byte may become any other: the result is an answer or an error, within the file's bytes.
    for at in 0..TIED.len() {
        for byte in [0, 1, 0x7f, 0xff, TIED[at] ^ 0x80] {
            let mut changed = TIED.to_vec();
            changed[at] = byte;
            if let Ok(file) = open(&changed) {
                let total: usize = file.tensor_info().iter().map(|info| info.bytes).sum();
                assert!(total <= 2 * TIED.len(), "{at}");
            }
        }
    }
}
