//! Any bytes as a document of any format are refused with a reason, or are text within the limits. The first byte chooses
//! the format. Documents are read in a thread, so that their readers run under the fuzzer's instruments.
#![no_main]

use leyden_documents::{Format, Limits, read};

const NAMES: [&str; 5] = ["text", "markdown", "html", "docx", "pdf"];
const MAX_TEXT: usize = 1 << 20;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(*which) % NAMES.len()];
    let format = Format::of_name(name).unwrap();
    let path = std::env::temp_dir().join(format!("leyden-fuzz-{}.{}", std::process::id(), match format {
        Format::Markdown => "md",
        Format::Text => "txt",
        _ => name,
    }));
    std::fs::write(&path, bytes).unwrap();
    let mut limits = Limits::default();
    (limits.unpacked_bytes, limits.text_bytes, limits.pages) = (4 << 20, MAX_TEXT, 100);
    match read(&path, &limits) {
        Ok(document) => assert!(document.text.len() <= MAX_TEXT),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("leyden-fuzz-") && !text.contains(char::is_control), "{text:?}");
        }
    }
});
