//! Reading in a child process, which the operating system limits.

use crate::document::{read_here, too_slow};
use crate::limits::{Limits, size};
use crate::{Document, Format};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// First argument of the child process.
const ARGUMENT: &str = "read-this-document";
/// Time beyond the limit in which the child can say itself that it was too slow.
const GRACE: Duration = Duration::from_secs(2);

/// Answers the parent process if this one was started to read a document; a program calls it first in its `main` and ends with
/// the code that it returns.
#[must_use]
pub fn answer() -> Option<ExitCode> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let [_, first, limits, path] = arguments.as_slice() else { return None };
    if first != ARGUMENT {
        return None;
    }
    let limits = Limits::of_argument(limits.to_str()?)?;
    confine(&limits);
    let reply = match read_here(Path::new(path), &limits) {
        Ok(document) => {
            json!({ "text": document.text, "format": document.format.name(), "pages": document.pages })
        }
        Err(reason) => json!({ "error": reason }),
    };
    let written = std::io::stdout().lock().write_all(reply.to_string().as_bytes());
    Some(if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets the limits of this process. A limit that the system refuses leaves the others, and the parent's clock.
fn confine(limits: &Limits) {
    let at_most = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    let _ = setrlimit(Resource::As, at_most(limits.memory_bytes));
    let _ = setrlimit(Resource::Cpu, at_most(limits.seconds + GRACE.as_secs()));
    let _ = setrlimit(Resource::Core, at_most(0));
    let _ = setrlimit(Resource::Fsize, at_most(0));
}

/// Reads a document in a child process of `program`.
pub(crate) fn read(program: &Path, path: &Path, limits: &Limits) -> Result<Document, String> {
    let mut child = Command::new(program)
        .arg(ARGUMENT)
        .arg(limits.argument())
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let stdout = child.stdout.take();
    // A character of text takes at most six bytes of JSON, a page's start at most 21.
    let most = limits.text_bytes as u64 * 6 + limits.pages as u64 * 21 + (1 << 20);
    let (sender, receiver) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut reply = Vec::new();
        if let Some(stdout) = stdout {
            let _ = stdout.take(most).read_to_end(&mut reply);
        }
        let _ = sender.send(reply);
    });
    let reply = receiver.recv_timeout(Duration::from_secs(limits.seconds) + GRACE);
    if reply.is_err() {
        // It may have ended meanwhile.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("cannot wait for {}: {error}", program.display()))?;
    let _ = reading.join();
    let Ok(reply) = reply else { return Err(too_slow(limits)) };
    if let Some(signal) = status.signal() {
        return Err(match rustix::process::Signal::from_named_raw(signal) {
            Some(rustix::process::Signal::XCPU | rustix::process::Signal::KILL) => too_slow(limits),
            Some(rustix::process::Signal::ABORT) => {
                format!(
                    "needs more memory than the limit of {}, or is nested too deep",
                    size(limits.memory_bytes)
                )
            }
            _ => format!("its reader was ended by signal {signal}: the file is damaged or hostile"),
        });
    }
    parse(&reply).unwrap_or_else(|| Err(format!("{} gave no readable answer ({status})", program.display())))
}

/// Returns the child's answer; `None` if it is anything else.
fn parse(reply: &[u8]) -> Option<Result<Document, String>> {
    let mut reply: Value = serde_json::from_slice(reply).ok()?;
    if let Some(error) = reply["error"].as_str() {
        return Some(Err(error.to_owned()));
    }
    let format = Format::of_name(reply["format"].as_str()?)?;
    let pages = reply["pages"]
        .as_array()?
        .iter()
        .map(|page| usize::try_from(page.as_u64()?).ok())
        .collect::<Option<_>>()?;
    let Value::String(text) = reply["text"].take() else { return None };
    Some(Ok(Document { text, format, pages }))
}
