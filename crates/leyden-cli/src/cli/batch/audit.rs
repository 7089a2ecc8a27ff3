//! Records of rows in an audit log.

use super::args::{Args, Task};
use crate::cli::failure::Failure;
use leyden::Model;
use leyden_audit::{AuditLog, ModelFacts, Options, Record, sha256};
use leyden_batch::{Answer, Item, Recorder};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Audit log of a run.
struct Rows {
    log: AuditLog,
    model: ModelFacts,
    task: String,
    /// Records that are not written yet.
    waiting: Vec<Record>,
}

/// Opens the log of `--audit`, if it is given.
pub(super) fn recorder(args: &Args, model: &Model, task: Task) -> Result<Option<Box<dyn Recorder>>, Failure> {
    let Some(folder) = &args.audit else { return Ok(None) };
    let options = Options::new(Options::default_key(folder), env!("CARGO_PKG_VERSION"));
    let log = AuditLog::open(folder, options).map_err(Failure::new)?;
    let name =
        args.model.as_ref().map_or_else(|| leyden::EMBEDDED.to_owned(), |path| path.display().to_string());
    let sha256 = match &args.model {
        None => Some(leyden_hub::sha256_of_bytes(Model::embedded_file())),
        Some(_) => {
            let files: Vec<PathBuf> = model.weights().paths().into_iter().map(Path::to_owned).collect();
            leyden_hub::sha256_of_files(&files, None).ok()
        }
    };
    let model = ModelFacts { name, sha256, ..ModelFacts::default() };
    Ok(Some(Box::new(Rows { log, model, task: format!("batch {}", task.name()), waiting: Vec::new() })))
}

impl Recorder for Rows {
    fn record(&mut self, item: &Item, answer: &Answer) -> Result<(), String> {
        let input = Value::Object(item.row.fields.clone()).to_string();
        let place = Map::from_iter([("row".to_owned(), Value::from(item.index))]);
        self.waiting.push(Record {
            id: item.id.clone().unwrap_or_else(|| item.index.to_string()),
            task: self.task.clone(),
            model: Some(self.model.clone()),
            error: answer.error.clone(),
            input_sha256: Some(sha256(input.as_bytes())),
            output_sha256: Some(sha256(answer.row.as_bytes())),
            other: place,
            ..Record::default()
        });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.log.append_all(&self.waiting).map_err(|error| error.to_string())?;
        self.waiting.clear();
        Ok(())
    }
}
