//! Any bytes as a segment of an audit log are read to their end with problems, and a change of a log is noticed. The first
//! byte chooses between the two.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use leyden_audit::{AuditLog, Options, Record, VerifyOptions, read, verify};

struct Made {
    folder: PathBuf,
    /// Path of the only segment, and its bytes.
    segment: (PathBuf, Vec<u8>),
    options: VerifyOptions,
}

fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let place = std::env::temp_dir().join(format!("leyden-fuzz-audit-{}", std::process::id()));
        let (folder, key) = (place.join("log"), place.join("key"));
        std::fs::create_dir_all(&place).unwrap();
        let log = AuditLog::open(&folder, Options::new(&key, "1.0")).unwrap();
        for id in ["a", "b", "c"] {
            log.append(&Record { id: id.to_owned(), task: "chat".to_owned(), ..Record::default() }).unwrap();
        }
        log.close().unwrap();
        let paths = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let path = paths.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).next().expect("a segment");
        let bytes = std::fs::read(&path).unwrap();
        let options = VerifyOptions { key: Some(key), ..VerifyOptions::default() };
        Made { folder, segment: (path, bytes), options }
    })
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Made { folder, segment: (path, good), options } = made();
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
    match verify(folder, options) {
        Ok(report) => assert_eq!(report.problems.is_empty(), file == *good, "{:?}", report.problems),
        Err(error) => assert!(file != *good && !error.to_string().contains(char::is_control), "{error}"),
    }
    let _ = read(folder, |_| true);
});
