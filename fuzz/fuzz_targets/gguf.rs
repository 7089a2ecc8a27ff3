//! Any bytes as a GGUF file are refused, or opened and can be read.
#![no_main]

use leyden_tensor::{Gguf, WeightSource, quant};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::from_vec(bytes.to_vec(), "fuzz.gguf") else { return };
    let meta = file.metadata();
    for (key, _) in meta.iter() {
        let _ = (meta.u32(key), meta.i64(key), meta.f32(key), meta.bool(key), meta.str(key));
        let _ = (meta.opt_array_i32(key), meta.opt_array_f32(key), meta.opt_array_bool(key));
        let _ = meta.opt_array_str(key).map(|strings| strings.map(|s| s.iter().map(<[u8]>::len).max()));
    }
    for view in file.tensor_names().iter().filter_map(|name| file.tensor(name)) {
        quant::decode_row(view.dtype(), view.row(view.rows() - 1), &mut vec![0.0; view.cols()]);
    }
});
