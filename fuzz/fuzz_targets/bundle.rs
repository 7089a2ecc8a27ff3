//! Any bytes as a bundle are refused, and so is a bundle with any change. The first byte chooses between the two.
#![no_main]

use std::ops::ControlFlow::Continue;
use std::path::PathBuf;
use std::sync::OnceLock;

use leyden_bundle::{Contents, Entry, Prepared, verify};
use leyden_verify::{Key, Time};

struct Made {
    key: Key,
    bytes: Vec<u8>,
    path: PathBuf,
}

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("leyden-fuzz-{}.bundle", std::process::id()));
        let key = Key::generate(Time::now(), 1).unwrap();
        let entries = vec![
            Entry::bytes("licences/LICENSE", "Apache-2.0"),
            Entry::bytes("models/tiny/config.json", "{}"),
        ];
        let contents = Contents::new(None, Vec::new());
        let prepared = Prepared::new(entries, &|_| Vec::new(), &contents, &key, &mut |_| Continue(())).unwrap();
        let mut bytes = Vec::new();
        prepared.write(&mut bytes, &path, &mut |_| Continue(())).unwrap();
        Made { key, bytes, path }
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Made { key, bytes: good, path } = made();
    let Some((which, rest)) = bytes.split_first() else { return };
    let mut file = rest.to_vec();
    if which & 1 == 1 {
        file = good.clone();
        for &[low, high, value] in rest.as_chunks().0 {
            let at = usize::from(u16::from_le_bytes([low, high])) % file.len();
            file[at] = value;
        }
        file.truncate(file.len() - usize::from(which >> 1) * file.len() / 512);
    }
    std::fs::write(path, &file).unwrap();
    let result = verify(path, Some(key), &mut |_| Continue(()));
    assert_eq!(result.is_ok(), file == *good);
    if let Err(error) = result {
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains(char::is_control), "{text:?}");
    }
});
