//! The options `--labels` and `--labels-file` of `leyden classify` and `extract`.

use super::failure::Failure;
use leyden_rows::{Format, Reader};
use std::path::{Path, PathBuf};

/// Maximum number of labels in a file.
const MAX_LABELS: usize = 1 << 16;

/// Labels given by the user.
#[derive(Debug, clap::Args)]
pub(super) struct Labels {
    /// Labels instead of the model's own, any words: person,city,"date of birth". May be repeated
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',', conflicts_with = "labels_file")]
    labels: Vec<String>,
    /// File with one label on each line. For `classify`, a tab and a description may follow the label; several lines
    /// may describe the same label
    #[arg(long, value_name = "FILE")]
    labels_file: Option<PathBuf>,
}

impl Labels {
    /// Returns true if there are labels.
    pub(super) fn are_given(&self) -> bool {
        !self.labels.is_empty() || self.labels_file.is_some()
    }

    /// Returns the labels with their descriptions, in order; a label without a description is its own.
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
            true => Err(Failure::new(format!("{name}: no labels")).hint("write one label on each line")),
            false => Ok(labels),
        }
    }

    /// Returns the names of the labels, each once.
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

/// Parses a label of the command line.
fn of_line(label: &str) -> Result<(String, String), Failure> {
    if label.contains(['.', '/']) && Path::new(label).is_file() {
        return Err(Failure::usage(format!("--labels {label}: this is a file"))
            .hint(format!("use --labels-file {label} for the labels in it")));
    }
    match label.trim() {
        "" => Err(Failure::usage("--labels: a label is empty").hint("example: --labels person,city")),
        label => Ok((label.to_owned(), label.to_owned())),
    }
}
