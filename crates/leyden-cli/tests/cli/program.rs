//! Running the program, and files to run it on.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leyden_tensor::{Array, DType, Gguf, GgufWriter, Value, WeightSource};
use tempfile::TempDir;

/// Exit code and outputs of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Standard output of a run that must have succeeded in silence.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        self.out
    }

    /// Standard output of such a run, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The message of a run that must have failed with `code` and printed no data.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{self:?}");
        // With --json the error is JSON, too.
        let begins = ["error: ", "{\"error\":"].iter().any(|begin| self.err.starts_with(begin));
        assert!(begins && !self.err.contains("panicked"), "{self:?}");
        self.err
    }
}

/// The words that start a program which was built beside the tests: itself, or behind the emulator that
/// `LEYDEN_TEST_RUNNER` names (with its arguments) where it was built for another architecture.
pub(crate) fn built(program: &str) -> Vec<String> {
    let runner = std::env::var("LEYDEN_TEST_RUNNER").unwrap_or_default();
    runner.split_whitespace().chain([program]).map(str::to_owned).collect()
}

/// Such a program, not yet started.
pub(crate) fn start(program: &str) -> Command {
    let words = built(program);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The program, not yet started, in an environment without settings.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = start(env!("CARGO_BIN_EXE_leyden"));
    command.args(args).env_remove("LEYDEN_MAX_ISA").stdin(Stdio::null());
    command
}

/// Runs the program with nothing on standard input.
pub(crate) fn leyden(args: &[&str]) -> Run {
    finish(&mut command(args), b"")
}

/// Runs the program with `input` on standard input.
pub(crate) fn leyden_with_input(args: &[&str], input: &[u8]) -> Run {
    finish(command(args).stdin(Stdio::piped()), input)
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        // The program may fail before it reads.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with files to name on the command line.
pub(crate) struct Files {
    dir: TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Writes a file and returns its path.
    pub(crate) fn add(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The path of a file that may not exist.
    pub(crate) fn path(&self, name: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }
}

/// The ids of the special tokens in [`vocabulary`].
pub(crate) const BOS: u32 = 260;
pub(crate) const END: u32 = 261;

/// A writer with a tokenizer: a token for every byte, `he`, `ll`, `hell`, `hello`, and two special tokens.
pub(crate) fn vocabulary() -> GgufWriter<'static> {
    // Bytes that print stand for themselves in this notation, the others for letters from U+0100 on.
    let mut next = 0x100;
    let mut tokens: Vec<String> = (0u8..=255)
        .map(|byte| {
            let printed = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            let letter = if printed { u32::from(byte) } else { next };
            next += u32::from(!printed);
            char::from_u32(letter).unwrap().to_string()
        })
        .collect();
    tokens.extend(["he", "ll", "hell", "hello", "<|begin|>", "<|end|>"].map(str::to_owned));
    let mut types = vec![1; 260];
    types.extend([3, 3]);
    let mut writer = GgufWriter::new();
    writer
        .set("general.architecture", Value::from("llama"))
        .set("general.name", Value::from("tiny"))
        .set("llama.context_length", Value::U32(64))
        .set("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5))
        .set("tokenizer.ggml.model", Value::from("gpt2"))
        .set("tokenizer.ggml.pre", Value::from("gpt-2"))
        .set("tokenizer.ggml.tokens", Value::Array(Array::from_strs(&tokens)))
        .set("tokenizer.ggml.token_type", Value::Array(Array::from_i32(&types)))
        .set("tokenizer.ggml.merges", Value::Array(Array::from_strs(["h e", "l l", "he ll", "hell o"])))
        .set("tokenizer.ggml.bos_token_id", Value::U32(BOS))
        .set("tokenizer.ggml.eos_token_id", Value::U32(END))
        .set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    writer
}

/// A file with a tokenizer, a chat template and a few tensors.
pub(crate) fn model() -> Vec<u8> {
    let mut writer = vocabulary();
    writer.set("tokenizer.chat_template", Value::from("{{ bos_token }}{{ messages[0].content }}\n"));
    writer.add_tensor("token_embd.weight", DType::F16, &[262, 32], vec![0; 262 * 64]).unwrap();
    writer.add_tensor("blk.0.attn_q.weight", DType::Q8_0, &[32, 32], vec![0; 32 * 34]).unwrap();
    writer.to_vec().unwrap()
}

/// The embedded model as a file.
pub(crate) const STORYTELLER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../leyden/model/storyteller-q8_0.gguf");

/// The embedded model with another value for a key.
pub(crate) fn storyteller_with(key: &str, changed: impl Into<Value>) -> Vec<u8> {
    storyteller_with_all(&[(key, changed.into())])
}

/// The embedded model with other values for some keys.
pub(crate) fn storyteller_with_all(changed: &[(&str, Value)]) -> Vec<u8> {
    let file = Gguf::open(Path::new(STORYTELLER)).unwrap();
    let mut writer = GgufWriter::new();
    for (key, value) in file.metadata().iter() {
        writer.set(key, value.clone());
    }
    for (key, value) in changed {
        writer.set(key, value.clone());
    }
    for name in file.tensor_names() {
        let tensor = file.require(name).unwrap();
        writer.add_tensor(name, tensor.dtype(), tensor.shape(), tensor.bytes()).unwrap();
    }
    writer.to_vec().unwrap()
}

/// The embedded model with a chat template.
pub(crate) fn storyteller_with_template(template: &str) -> Vec<u8> {
    storyteller_with("tokenizer.chat_template", template)
}
