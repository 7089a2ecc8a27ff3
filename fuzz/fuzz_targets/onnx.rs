//! Any bytes as an ONNX model are refused, or opened and can be read.
#![no_main]

use leyden_tensor::{Onnx, WeightSource};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Onnx::from_vec(bytes.to_vec(), "fuzz.onnx") else { return };
    for name in file.tensor_names() {
        let (info, values) = file.raw(name).unwrap();
        assert_eq!(info.bytes, values.len());
        let _ = file.optional(name);
    }
    for node in &file.graph().nodes {
        assert!(!node.op.is_empty());
        let _ = (node.int("axis"), node.ints("perm"), node.tensor("value"));
    }
});
