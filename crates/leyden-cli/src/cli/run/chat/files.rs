//! Files that a conversation reads and writes.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use leyden::Message;
use leyden_files::OutputOptions;

use crate::cli::failure::Failure;

/// Maximum size of a file in bytes: more than fits any context.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum number of completions.
const MAX_NAMES: usize = 200;

/// Reads a text file.
pub(super) fn read(file: &str) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{file}: cannot read: {error}"));
    let mut bytes = Vec::new();
    File::open(file).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::new(format!("{file}: longer than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("{file}: not UTF-8 text: byte {at}"))
    })
}

/// Reads the messages of a file that `/save` wrote as JSON, or of any array of objects with `role` and `content`.
pub(super) fn read_messages(file: &str) -> Result<Vec<Message>, Failure> {
    let text = read(file)?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::new(format!("{file}: not a conversation in JSON: {error}"))
            .hint("/save talk.json writes one")
    })
}

/// Writes messages, as JSON if the file's name ends in .json.
pub(super) fn save(file: &str, messages: &[Message]) -> Result<(), Failure> {
    let json = Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let text = if json {
        serde_json::to_string_pretty(messages).map_err(|error| Failure::new(format!("{file}: {error}")))?
            + "\n"
    } else {
        messages.iter().map(|message| format!("{}: {}\n\n", message.role, message.content.trim())).collect()
    };
    // An existing file is not overwritten: it may be worth more than this conversation.
    leyden_files::write(Path::new(file), text.as_bytes(), OutputOptions::new().new_only())
        .map_err(|error| Failure::new(format!("{file}: cannot save: {error}")))
}

/// Returns the paths that begin with the typed text.
pub(super) fn completions(typed: &str) -> Vec<String> {
    let (folder, front) = typed.rfind('/').map_or(("", typed), |at| typed.split_at(at + 1));
    let Ok(entries) = fs::read_dir(if folder.is_empty() { "." } else { folder }) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let hidden = name.starts_with('.') && !front.starts_with('.');
            let ending = if entry.path().is_dir() { "/" } else { "" };
            (name.starts_with(front) && !hidden).then(|| format!("{folder}{name}{ending}"))
        })
        .take(MAX_NAMES)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["note.txt", "nothing", ".notes"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("new")).unwrap();
        let at = folder.path().display().to_string();
        assert_eq!(completions(&format!("{at}/no")), [format!("{at}/note.txt"), format!("{at}/nothing")]);
        assert_eq!(completions(&format!("{at}/ne")), [format!("{at}/new/")]);
        assert!(completions("/nonexistent/x").is_empty());
    }
}
