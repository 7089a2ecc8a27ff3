//! Labels that a command line names: the option `--labels` of `leyden classify` and `extract`.

use super::failure::Failure;
use leyden_rows::{Format, Reader};
use std::path::{Path, PathBuf};

/// Maximum number of labels of a file.
const MAX_LABELS: usize = 1 << 16;

/// Labels in words of any kind.
#[derive(Debug, clap::Args)]
pub(super) struct Labels {
    /// Labels in words of any kind, instead of the model's own: person,city,"date of birth"; the option may be given several times
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',', conflicts_with = "labels_file")]
    labels: Vec<String>,
    /// File with labels: one on each line, for `classify` with a tab and a description behind it where the label itself says
    /// too little; several lines may describe one label
    #[arg(long, value_name = "FILE")]
    labels_file: Option<PathBuf>,
}

impl Labels {
    /// `true` if the command line names labels.
    pub(super) fn are_given(&self) -> bool {
        !self.labels.is_empty() || self.labels_file.is_some()
    }

    /// Labels with their descriptions, in order; a label without a description describes itself.
    ///
    /// # Errors
    /// The file cannot be read or has no labels, or a label is empty or the name of a file.
    pub(super) fn described(&self) -> Result<Vec<(String, String)>, Failure> {
        let Some(path) = &self.labels_file else {
            return self.labels.iter().map(|label| of_line(label)).collect();
        };
        let mut reader = Reader::open(path, Some(Format::Text))?;
        let name = path.display();
        let mut labels = Vec::new();
        while let Some(row) = reader.next()? {
            let line =
                row.text(None).map_err(|what| Failure::new(format!("{name}: {}: {what}", row.place)))?;
            if line.trim().is_empty() {
                continue;
            }
            if labels.len() == MAX_LABELS {
                return Err(Failure::new(format!("{name}: more than {MAX_LABELS} labels")));
            }
            let (label, description) = line.trim().split_once('\t').unwrap_or((line.trim(), line.trim()));
            labels.push((label.to_owned(), description.to_owned()));
        }
        match labels.is_empty() {
            true => Err(Failure::new(format!("{name}: no labels")).hint("write one on a line")),
            false => Ok(labels),
        }
    }

    /// Names of the labels, each once.
    ///
    /// # Errors
    /// As [`described`](Self::described).
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        let mut names: Vec<String> = Vec::new();
        for (label, _) in self.described()? {
            if self.labels_file.is_none() || !names.contains(&label) {
                names.push(label);
            }
        }
        Ok(names)
    }
}

/// A label of the command line.
fn of_line(label: &str) -> Result<(String, String), Failure> {
    if label.contains(['.', '/']) && Path::new(label).is_file() {
        return Err(Failure::usage(format!("--labels {label}: this is a file"))
            .hint(format!("say --labels-file {label} for the labels in it")));
    }
    match label.trim() {
        "" => Err(Failure::usage("--labels: a label is empty").hint("say --labels person,city")),
        label => Ok((label.to_owned(), label.to_owned())),
    }
}
