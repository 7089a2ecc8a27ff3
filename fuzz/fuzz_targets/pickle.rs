//! Any bytes as a PyTorch checkpoint are refused, or opened and can be read. Bytes that do not begin like an archive are
//! tried as the `data.pkl` of one with two storages.
#![no_main]

use leyden_tensor::{Safetensors, WeightSource, quant};

/// Returns a ZIP archive of these entries, stored uncompressed.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let (size, offset) = (bytes.len() as u32, file.len() as u32);
        // Checksum, size, uncompressed size, length of the name.
        let sizes =
            [&[0; 4][..], &size.to_le_bytes(), &size.to_le_bytes(), &(name.len() as u16).to_le_bytes()]
                .concat();
        file.extend([b"PK\x03\x04", &[0; 10][..], &sizes, &[0; 2], name.as_bytes(), bytes].concat());
        let offset = offset.to_le_bytes();
        directory.extend([b"PK\x01\x02", &[0; 12][..], &sizes, &[0; 12], &offset, name.as_bytes()].concat());
    }
    let (count, at) = ((entries.len() as u16).to_le_bytes(), (file.len() as u32).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    let end = [b"PK\x05\x06", &[0; 4][..], &count, &count, &size, &at, &[0; 2]].concat();
    [file, directory, end].concat()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = match bytes.starts_with(b"PK") {
        true => bytes.to_vec(),
        false => archive(&[("a/data.pkl", bytes), ("a/data/0", &[0x3c; 64]), ("a/data/1", &[0x3f; 400])]),
    };
    let size = file.len();
    match Safetensors::from_vec(file, "fuzz.bin") {
        Ok(file) => {
            let mut all = 0;
            for info in file.tensor_info() {
                all += info.bytes;
                let Ok(view) = file.require(&info.name) else { continue };
                let Some(last) = view.rows().checked_sub(1) else { continue };
                quant::decode_row(view.dtype(), view.row(last), &mut vec![0.0; view.cols()]);
            }
            assert!(all <= 2 * size, "{all} bytes of tensors in a file of {size}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("fuzz.bin: ") && !text.contains(char::is_control), "{text:?}");
        }
    }
});
