//! Another llama-bench, run in turns: on a shared machine only figures of the same minute are comparable.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::args::Args;
use super::test_case::Test;
use crate::cli::failure::Failure;
use crate::cli::model_file;
use leyden::Replicas;

/// Other program.
pub(super) struct Versus {
    program: String,
    arguments: Vec<String>,
    model: PathBuf,
}

impl Versus {
    /// Parses a command line, without a shell.
    pub(super) fn new(line: &str, args: &Args) -> Result<Versus, Failure> {
        let mut words = split(line).map_err(Failure::usage)?.into_iter();
        let program = words.next().ok_or_else(|| Failure::usage("--versus: the program is missing"))?;
        if args.parallel.iter().any(|n| *n > 1) {
            return Err(Failure::usage("--versus needs --parallel 1: llama-bench has no such option"));
        }
        if args.replicas.iter().any(|n| *n != Replicas::Count(1)) {
            return Err(Failure::usage("--versus needs --replicas 1: llama-bench has no such option"));
        }
        let Some(model) = args.model() else {
            return Err(Failure::usage("--versus needs -m FILE: the other program reads the same file"));
        };
        let model = model_file::locate(model)?;
        Ok(Versus { program, arguments: words.collect(), model })
    }

    /// Runs one repetition of a test. Returns the tokens per second.
    pub(super) fn run(&self, test: &Test) -> Result<f64, Failure> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("-m").arg(&self.model);
        let mut number = |option: &str, n: usize| {
            command.arg(option).arg(n.to_string());
        };
        let both = test.prompt > 0 && test.generate > 0;
        number("-p", if both { 0 } else { test.prompt });
        number("-n", if both { 0 } else { test.generate });
        number("-r", 1);
        number("-ub", test.batch);
        if test.depth > 0 {
            number("-d", test.depth);
        }
        let reading = test.threads_batch.filter(|_| test.generate == 0);
        if let Some(threads) = reading.or(test.threads) {
            number("-t", threads);
        }
        if both {
            command.arg("-pg").arg(format!("{},{}", test.prompt, test.generate));
        }
        command.args(["-o", "json"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let failed = |what: String| Failure::new(format!("{}: {what}", self.program));
        let output = command.output().map_err(|e| failed(format!("cannot run it: {e}")))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("").to_owned();
            return Err(failed(format!("{}: {last}", output.status)));
        }
        rate(&output.stdout).map_err(failed)
    }
}

/// Returns the rate in llama-bench's output, an array of one result.
fn rate(stdout: &[u8]) -> Result<f64, String> {
    // Some builds print lines before the array.
    let start = stdout.iter().position(|b| *b == b'[').ok_or("its output has no JSON array")?;
    let mut values = serde_json::Deserializer::from_slice(&stdout[start..]).into_iter::<serde_json::Value>();
    let value = match values.next() {
        Some(Ok(value)) => value,
        Some(Err(e)) => return Err(format!("its output is not valid JSON: {e}")),
        None => return Err("its output has no JSON".into()),
    };
    let rate = value.get(0).and_then(|r| r.get("avg_ts")).and_then(serde_json::Value::as_f64);
    rate.filter(|r| r.is_finite() && *r > 0.0).ok_or_else(|| "its result has no `avg_ts`".into())
}

/// Splits a command line at white space outside quotation marks.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("--versus: a quotation mark is not closed".into());
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_cut_like_a_shell_would() {
        assert_eq!(split("a  'b c' d\"e f\"").unwrap(), ["a", "b c", "de f"]);
        assert!(split("a 'b").is_err());
        assert!(split("  ").unwrap().is_empty());
    }

    #[test]
    fn results_are_found_behind_other_lines() {
        assert_eq!(rate(b"warning\n[ {\"avg_ts\": 12.5, \"n_gen\": 1} ]\n").unwrap(), 12.5);
        assert!(rate(b"nothing").is_err());
        assert!(rate(b"[{}]").is_err());
        assert!(rate(b"[{\"avg_ts\":").is_err());
    }
}
