mod attacks;
mod killed;
mod writing;

use crate::log::Opening;
use crate::{AuditLog, Content, ModelFacts, Options, Phase, Record, Report, VerifyOptions, verify};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A log in a folder of its own, with its key beside it.
struct Place {
    _root: tempfile::TempDir,
    folder: PathBuf,
    options: Options,
}

impl Place {
    fn new() -> Place {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("log");
        let mut options = Options::new(root.path().join("key"), "1.2.3");
        options.checkpoint_time = Duration::from_secs(3600);
        Place { _root: root, folder, options }
    }

    fn open(&self) -> AuditLog {
        AuditLog::open(&self.folder, self.options.clone()).unwrap()
    }

    fn open_with(&self, parts: Opening) -> AuditLog {
        AuditLog::open_with(&self.folder, self.options.clone(), parts).unwrap()
    }

    fn verify(&self) -> Report {
        verify(&self.folder, &VerifyOptions::default()).unwrap()
    }

    fn segment(&self, number: u64) -> PathBuf {
        crate::folder::segment(&self.folder, number)
    }
}

fn record(id: impl std::fmt::Display, phase: Phase) -> Record {
    Record {
        id: id.to_string(),
        phase,
        task: "/v1/chat/completions".to_owned(),
        model: Some(ModelFacts {
            name: "tiny".to_owned(),
            sha256: Some("ab".repeat(32)),
            template_sha256: Some("cd".repeat(32)),
            adapters: Vec::new(),
        }),
        settings: serde_json::from_str(r#"{"temperature":0.7,"top_k":40}"#).unwrap(),
        seed: Some(12345),
        prompt_tokens: Some(17),
        completion_tokens: Some(23),
        finish: Some("stop".to_owned()),
        status: Some(200),
        input_sha256: Some("12".repeat(32)),
        output_sha256: Some("34".repeat(32)),
        result_sha256: Some("56".repeat(32)),
        content: Some(Content { input: Some("question".to_owned()), output: Some("answer".to_owned()) }),
        ..Record::default()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn problems(report: &Report) -> String {
    report.problems.iter().map(|problem| format!("{problem}\n")).collect()
}
