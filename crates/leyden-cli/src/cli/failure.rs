//! [`Failure`]: message, hint and exit code of a failed command.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::ExitCode;

use leyden::{TaskErrorKind, TaskKind};
use leyden_engine::ErrorKind as EngineErrorKind;
use leyden_models::ErrorKind as ModelErrorKind;
use leyden_tensor::ErrorKind;

/// Exit code after Ctrl-C, by convention 128 plus the number of the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Hint for a model file that changed while in use.
pub(crate) const IN_USE: &str = "do not copy or download over a model in use; run the command again";

/// Hint for a truncated file.
const INCOMPLETE: &str = "truncated download? the file seems incomplete; download or copy it again";

/// Failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Operation failed: code 1.
    Failed,
    /// Command line is wrong: code 2.
    Usage,
    /// Evidence is too weak for the requested verdict: code 3.
    Inconclusive,
    /// Reader of standard output closed the pipe, which is no failure: silent, code 0.
    ClosedPipe,
    /// User interrupted the command: silent, code 130.
    Interrupted,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// Returns the failure of an operation.
    pub(crate) fn new(message: impl Display) -> Self {
        Self { kind: Kind::Failed, message: message.to_string(), hint: None }
    }

    /// Returns the failure of a wrong command line.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { kind: Kind::Usage, message: message.to_string(), hint: None }
    }

    /// Returns the failure of an inconclusive verdict.
    pub(crate) fn inconclusive(message: impl Display) -> Self {
        Self { kind: Kind::Inconclusive, message: message.to_string(), hint: None }
    }

    /// Returns the failure of an interrupted command.
    pub(crate) fn interrupted() -> Self {
        Self { kind: Kind::Interrupted, message: String::new(), hint: None }
    }

    /// Returns true if the reader of standard output closed the pipe.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.kind == Kind::ClosedPipe
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writes `error: …`, and `hint: …` if there is one.
    pub(crate) fn report(&self, err: &mut dyn Write) {
        if matches!(self.kind, Kind::ClosedPipe | Kind::Interrupted) {
            return;
        }
        // Standard error may be closed, too; the exit code still reports the failure.
        let _ = writeln!(err, "error: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    /// Writes message, hint and kind as one JSON object on a line.
    pub(crate) fn report_json(&self, err: &mut dyn Write) {
        let kind = match self.kind {
            Kind::ClosedPipe | Kind::Interrupted => return,
            Kind::Failed => "failed",
            Kind::Usage => "usage",
            Kind::Inconclusive => "inconclusive",
        };
        let error = serde_json::json!({ "message": self.message, "hint": self.hint, "kind": kind });
        let _ = writeln!(err, "{}", serde_json::json!({ "error": error }));
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self.kind {
            Kind::Failed => ExitCode::from(1),
            Kind::Usage => ExitCode::from(2),
            Kind::Inconclusive => ExitCode::from(3),
            Kind::ClosedPipe => ExitCode::SUCCESS,
            Kind::Interrupted => ExitCode::from(INTERRUPTED),
        }
    }
}

/// Failure of writing to standard output. Errors of reading a file must not be converted so, as they name the file.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { kind: Kind::ClosedPipe, message: String::new(), hint: None };
        }
        Self::new(format!("cannot write to standard output: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

impl From<leyden_tensor::Error> for Failure {
    fn from(error: leyden_tensor::Error) -> Self {
        let hint = match error.kind() {
            ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("check the path; a model is a .gguf file, or a folder with config.json")
            }
            ErrorKind::MissingFile { .. } => Some(
                "a model is a .gguf file, or a folder with config.json, tokenizer.json and safetensors or ONNX; an .onnx file needs config.json and tokenizer.json of the model in its folder",
            ),
            ErrorKind::NotGguf { .. } => Some(
                "a model is a GGUF file, or a folder with config.json and safetensors; name the folder, or convert the model",
            ),
            ErrorKind::NoEncoderConfig => Some(
                "copy config.json and the tokenizer of the model named by `model_name` to this folder, or save the model again with gliner's save_pretrained",
            ),
            ErrorKind::Shrunk => Some(IN_USE),
            ErrorKind::Version(_) => Some("convert the model again with a current converter"),
            ErrorKind::Truncated { .. } | ErrorKind::OutOfFile { .. } => Some(INCOMPLETE),
            // A file truncated within its header has fewer entries than the header says.
            ErrorKind::TooMany { what, .. } if what.starts_with("number of") => Some(INCOMPLETE),
            _ => None,
        };
        let failure = Self::new(&error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<leyden_text::Error> for Failure {
    fn from(error: leyden_text::Error) -> Self {
        Self::new(&error)
    }
}

impl From<leyden_hub::Error> for Failure {
    fn from(error: leyden_hub::Error) -> Self {
        if matches!(error.kind(), leyden_hub::ErrorKind::Stopped) {
            return Self::interrupted();
        }
        let failure = if error.is_usage() { Self::usage(&error) } else { Self::new(&error) };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<leyden_server::Error> for Failure {
    fn from(error: leyden_server::Error) -> Self {
        use leyden_server::ErrorKind;
        let failure = if error.is_usage() { Self::usage(&error) } else { Self::new(&error) };
        match error.kind() {
            ErrorKind::Unprotected { .. } => {
                failure.hint("set keys by LEYDEN_API_KEY, --api-key or --api-keys, or use --no-auth")
            }
            ErrorKind::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                failure.hint("another program uses this port; choose another --port")
            }
            ErrorKind::Keys { .. } => failure.hint(
                "each line is {\"id\":\"NAME\",\"sha256\":\"DIGEST\"}; `printf %s KEY | sha256sum` prints the digest",
            ),
            _ => failure,
        }
    }
}

impl From<leyden_report::Error> for Failure {
    fn from(error: leyden_report::Error) -> Self {
        match error {
            leyden_report::Error::Runs(_) => Self::usage(error),
            _ => Self::new(error),
        }
    }
}

impl From<leyden_load::Error> for Failure {
    fn from(error: leyden_load::Error) -> Self {
        match error.kind() {
            leyden_load::ErrorKind::Stopped => Self::interrupted(),
            _ if error.is_usage() => Self::usage(&error),
            _ => Self::new(&error),
        }
    }
}

impl From<leyden::Error> for Failure {
    fn from(error: leyden::Error) -> Self {
        match error {
            leyden::Error::File(error) => error.into(),
            leyden::Error::Option { .. } => Self::usage(&error),
            leyden::Error::Engine(ref engine)
                if matches!(engine.kind(), EngineErrorKind::Parameter { .. }) =>
            {
                Self::usage(&error)
            }
            leyden::Error::Engine(ref engine) => {
                let failure = Self::new(&error);
                match engine.kind() {
                    EngineErrorKind::Model(model) if matches!(model.kind(), ModelErrorKind::Truncated) => {
                        failure.hint(IN_USE)
                    }
                    EngineErrorKind::Resources(_) => {
                        failure.hint("lower --ctx, or choose a smaller --kv-type")
                    }
                    _ => failure,
                }
            }
            leyden::Error::Model(ref model) if matches!(model.kind(), ModelErrorKind::Truncated) => {
                Self::new(&error).hint(IN_USE)
            }
            leyden::Error::Model(ref model)
                if matches!(model.kind(), ModelErrorKind::UnknownArchitecture { .. }) =>
            {
                Self::new(&error)
                    .hint("`leyden models` lists supported models; docs/models.md lists all architectures")
            }
            leyden::Error::NotGenerative { .. } => {
                Self::new(&error).hint("use `leyden embed`, or `leyden serve` and its /v1/embeddings")
            }
            leyden::Error::Task { error: ref task, .. } => of_task(&error, &task.kind),
            leyden::Error::PromptTooLong { .. } => {
                Self::new(&error).hint("shorten the prompt, or raise --ctx if the model supports it")
            }
            _ => Self::new(&error),
        }
    }
}

/// Returns the failure for an error of a task.
fn of_task(error: &leyden::Error, kind: &TaskErrorKind) -> Failure {
    match kind {
        TaskErrorKind::Unable(TaskKind::Classify) => Failure::new(error)
            .hint("use a model with a head for sequence classification, or `leyden embed`"),
        TaskErrorKind::NeedsLabels => Failure::usage(error)
            .hint("add labels, which may be any words: `leyden extract MODEL TEXT --labels person,organisation`"),
        TaskErrorKind::Unable(TaskKind::ExtractLabels) => Failure::usage(error)
            .hint("remove --labels, use a GLiNER model, or use `leyden classify --labels` for labels of whole texts"),
        TaskErrorKind::LabelsTooLong { .. } => {
            Failure::new(error).hint("use fewer or shorter labels at a time")
        }
        TaskErrorKind::TooLong { .. } => {
            Failure::new(error).hint("shorten the text, or use --truncate")
        }
        TaskErrorKind::Labels(_)
        | TaskErrorKind::Threshold(_)
        | TaskErrorKind::Dimensions { .. }
        | TaskErrorKind::UnknownPrompt { .. } => Failure::usage(error),
        _ => Failure::new(error),
    }
}

impl From<leyden_rows::Error> for Failure {
    fn from(error: leyden_rows::Error) -> Self {
        let failure = if error.usage { Self::usage(&error) } else { Self::new(&error) };
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<leyden_batch::Error<Failure>> for Failure {
    fn from(error: leyden_batch::Error<Failure>) -> Self {
        match error {
            leyden_batch::Error::Rows(error) => error.into(),
            leyden_batch::Error::Computation(failure) => failure,
            error @ leyden_batch::Error::Shorter { .. } => Self::new(&error).hint(
                "give the same input to continue the interrupted run, or begin anew with another output",
            ),
            error => Self::new(&error),
        }
    }
}

impl From<leyden_eval::Error> for Failure {
    fn from(error: leyden_eval::Error) -> Self {
        match error {
            leyden_eval::Error::Model(error) => error.into(),
            leyden_eval::Error::RowFile(error) => error.into(),
            leyden_eval::Error::Stopped => Self::interrupted(),
            leyden_eval::Error::Usage(what) => Self::usage(what),
            error => Self::new(error),
        }
    }
}

impl From<leyden_audit::Error> for Failure {
    fn from(error: leyden_audit::Error) -> Self {
        Self::new(error)
    }
}

impl From<leyden_verify::Error> for Failure {
    fn from(error: leyden_verify::Error) -> Self {
        match error {
            leyden_verify::Error::Floor { .. } => Self::usage(&error),
            _ => Self::new(&error),
        }
    }
}

impl From<leyden_compress::Error> for Failure {
    fn from(error: leyden_compress::Error) -> Self {
        match error {
            leyden_compress::Error::File(error) => error.into(),
            leyden_compress::Error::Stopped => Self::interrupted(),
            error @ leyden_compress::Error::Override { .. } => Self::usage(error),
            error @ leyden_compress::Error::Quantised { .. } => {
                Self::new(error).hint("quantise the F16 or BF16 original, or use --allow-requantize")
            }
            error => Self::new(error),
        }
    }
}

impl From<leyden_bundle::Error> for Failure {
    fn from(error: leyden_bundle::Error) -> Self {
        match error {
            leyden_bundle::Error::Stopped => Self::interrupted(),
            error => Self::new(error),
        }
    }
}

impl From<leyden_plan::Error> for Failure {
    fn from(error: leyden_plan::Error) -> Self {
        match error {
            leyden_plan::Error::Model(error) => leyden::Error::from(error).into(),
            leyden_plan::Error::File(error) => error.into(),
            leyden_plan::Error::Unknown { option, .. } => Self::usage(&error)
                .hint(format!("{option} states it; leyden plan --machines shows what is known")),
            error => Self::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(failure: &Failure) -> String {
        let mut text = Vec::new();
        failure.report(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn an_unknown_architecture_is_named_with_a_hint() {
        let json = leyden_tensor::Json::parse(br#"{"model_type": "warp"}"#, "config.json").unwrap();
        let error = leyden_models::config_of_json(&json).unwrap_err();
        let text = reported(&leyden::Error::from(error).into());
        assert!(
            text.starts_with("error: config.json: model_type: architecture `warp` is not supported"),
            "{text}"
        );
        assert!(text.contains("\nhint: `leyden models` lists"), "{text}");
    }

    #[test]
    fn report_has_a_line_for_error_and_hint() {
        assert_eq!(reported(&Failure::new("no")), "error: no\n");
        assert_eq!(reported(&Failure::usage("no").hint("try")), "error: no\nhint: try\n");
        let mut json = Vec::new();
        Failure::usage("no").hint("try").report_json(&mut json);
        assert_eq!(json, b"{\"error\":{\"message\":\"no\",\"hint\":\"try\",\"kind\":\"usage\"}}\n");
    }

    #[test]
    fn closed_pipe_is_silent() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((reported(&failure).as_str(), failure.kind), ("", Kind::ClosedPipe));
        let json = serde_json::Error::io(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(Failure::from(json).kind, Kind::ClosedPipe);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).kind, Kind::Failed);
    }
}
