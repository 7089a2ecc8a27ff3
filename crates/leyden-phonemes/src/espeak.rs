//! The program `espeak-ng`, started once for many words or sentences.
//!
//! It is a program of its own that the user installed; nothing of it is in this one. Texts go to its standard input, a line each, and their
//! IPA comes back on its output, a line each.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::error::Error;
use crate::knobs;

/// Time after which the program is ended.
const MAX_SECONDS: u64 = 20;

/// Largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// An installed `espeak-ng`.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Returns `espeak-ng` from the folders of `PATH`, if it is there.
    #[must_use]
    pub fn find() -> Option<Self> {
        let folders = knobs::path()?;
        let path = std::env::split_paths(&folders)
            .map(|folder| folder.join("espeak-ng"))
            .find(|path| path.is_file())?;
        Some(Self { path })
    }

    /// Returns the program at a path.
    ///
    /// # Errors
    /// If there is no file.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let program = Self { path: path.to_owned() };
        if path.is_file() {
            Ok(program)
        } else {
            Err(program.failed("no such file; give the path of espeak-ng".to_owned()))
        }
    }

    fn failed(&self, problem: String) -> Error {
        Error::Espeak { program: self.path.clone(), problem }
    }

    /// Returns the IPA of each text in a language of the program (`en-us`, `de`, `fr-fr`, …), stress marks included.
    ///
    /// A line break within a text is a space. Marks are not in the answer: give clauses one by one to keep them.
    ///
    /// # Errors
    /// If the program cannot be started, fails, takes more than 20 seconds, or answers with another number of lines.
    pub fn ipa(&self, language: &str, texts: &[String]) -> Result<Vec<String>, Error> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let mut child = Command::new(&self.path)
            .args(["-q", "--ipa", "-b", "1", "-v", language])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| self.failed(format!("cannot be started: {error}")))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(self.failed("no pipes".to_owned()));
        };
        // Without a space and a full stop at its end, a line would be joined with the next one.
        let lines: String = texts.iter().map(|text| format!("{} .\n", one_line(text))).collect();
        let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut answer = Vec::new();
            let read = output.take(MAX_ANSWER_BYTES).read_to_end(&mut answer);
            let _ = sender.send(read.map(|_| answer));
        });
        let answer = receiver.recv_timeout(Duration::from_secs(MAX_SECONDS));
        if answer.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| self.failed(format!("cannot be waited for: {error}")))?;
        let _ = writer.join();
        let answer = answer
            .map_err(|_| self.failed(format!("no answer in {MAX_SECONDS} seconds")))?
            .map_err(|error| self.failed(format!("its answer cannot be read: {error}")))?;
        if !status.success() {
            return Err(self.failed(format!("{status}; does it know the language {language:?}?")));
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let lines: Vec<String> = answer.lines().map(|line| line.trim().to_owned()).collect();
        if lines.len() != texts.len() {
            return Err(self.failed(format!("{} lines for {} texts", lines.len(), texts.len())));
        }
        Ok(lines)
    }
}

/// Returns a text without line breaks and without marks that end a clause, which would end the program's line.
fn one_line(text: &str) -> String {
    let keep = |c: char| {
        c.is_alphanumeric() || matches!(c, '\'' | '-') || unicode_normalization::char::is_combining_mark(c)
    };
    text.chars().map(|c| if keep(c) { c } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_one_start() {
        let Some(program) = Program::find() else {
            // The program is the user's own; no package of the gate has it.
            return;
        };
        let texts: Vec<String> = (0..500).map(|i| format!("word{}", "ab".repeat(i % 7))).collect();
        let lines = program.ipa("en-us", &texts).unwrap();
        assert_eq!(lines.len(), 500);
        assert!(lines[0].contains("wˈɜːd"), "{}", lines[0]);
        let error = program.ipa("zz-none", &texts).unwrap_err().to_string();
        assert!(error.contains("zz-none"), "{error}");
    }

    #[test]
    fn absent_program_is_named() {
        assert!(
            Program::at(Path::new("/nowhere/espeak-ng"))
                .unwrap_err()
                .to_string()
                .contains("/nowhere/espeak-ng")
        );
    }
}
