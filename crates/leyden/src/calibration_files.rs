//! Calibrations of classifiers: their binding to the files of a model, and decisions on texts.

use crate::error::Error;
use crate::model::Model;
use leyden_tasks::calibration::{Calibration, CalibrationError, Decider, MadeFor, Promise};
use leyden_tensor::WeightSource;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files of a folder that change the scores of a classifier, beside its weights.
const SETTINGS: [&str; 15] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
];
/// Size of the buffer for reading files, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

impl Model {
    /// Computes the SHA-256 of the model's files in 64 hexadecimal digits: of a single file that of its content, and of a
    /// folder that of the lines `SHA256  NAME` of its weights and of the settings that change results, in the order of
    /// their names.
    ///
    /// # Errors
    /// A file cannot be read any more, or the model was not loaded from a file.
    pub fn sha256(&self) -> Result<String, Error> {
        let mut lines: Vec<(String, String)> = Vec::new();
        for path in files(self.weights()) {
            let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            lines.push((name, sha256_of_file(&path)?));
        }
        lines.sort();
        lines.dedup();
        match &lines[..] {
            [] => {
                let what = "a model that is not in a file cannot be identified".to_owned();
                Err(self.calibration_error(CalibrationError::Document(what)))
            }
            [(_, one)] => Ok(one.clone()),
            _ => {
                let text: String = lines.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
                Ok(hex(&Sha256::digest(text.as_bytes())))
            }
        }
    }

    /// Returns the identity of the model and its settings, to which a calibration is bound. It reads all files of the
    /// model.
    ///
    /// # Errors
    /// As [`sha256`](Self::sha256), or the model has adapters.
    pub fn made_for(&self, truncate: bool) -> Result<MadeFor, Error> {
        if !self.adapters().is_empty() {
            return Err(self.calibration_error(CalibrationError::Other {
                what: "adapters",
                stated: "a model without them".to_owned(),
                found: format!("a model with {}", self.adapters().len()),
            }));
        }
        let (int8, exact) = self.arithmetic();
        let max_tokens = self.config().context;
        Ok(MadeFor { sha256: self.sha256()?, int8, exact, truncate, max_tokens })
    }

    /// Returns the decider of a promise, for [`Embedder::decide`](crate::Embedder::decide), after a comparison of the
    /// calibration with the model's files, labels and settings. A set with more than `max_set` labels is an abstention.
    ///
    /// ```no_run
    /// use leyden::calibration::{Calibration, Promise};
    /// use leyden::{EmbedOptions, LoadOptions, Model};
    ///
    /// let model = Model::open("banking77-s80", &LoadOptions::new())?;
    /// let bytes = std::fs::read("banking77-s80.calibration.json").expect("a file");
    /// let calibration = Calibration::from_json(&bytes).expect("a calibration");
    /// let promise = Promise::Coverage { coverage: 0.95, per_class: false };
    /// let decider = model.decider(&calibration, promise, None)?;
    /// let mut embedder = model.embedder(&EmbedOptions::default())?;
    /// for decision in embedder.decide(&["Where is my card?"], &decider)? {
    ///     println!("{} {:?}", decision.answer.name(), decision.labels);
    /// }
    /// # Ok::<(), leyden::Error>(())
    /// ```
    ///
    /// # Errors
    /// The calibration is for another model or other settings, or has too few rows for the promise.
    pub fn decider(
        &self,
        calibration: &Calibration,
        promise: Promise,
        max_set: Option<usize>,
    ) -> Result<Decider, Error> {
        self.check_calibration(calibration)?;
        Decider::new(calibration, promise, max_set).map_err(|error| self.calibration_error(error))
    }

    /// Checks that a calibration is for this model and its settings.
    ///
    /// # Errors
    /// It is for another model or other settings.
    pub fn check_calibration(&self, calibration: &Calibration) -> Result<(), Error> {
        let Some(classifier) = self.config().classifier() else {
            let what = "the model has no head that gives texts labels";
            return Err(self.calibration_error(CalibrationError::Head(what)));
        };
        let checked = calibration
            .check_labels(classifier)
            .map_err(|error| self.calibration_error(error))
            .and_then(|()| self.made_for(calibration.made_for.truncate));
        calibration.check_model(&checked?).map_err(|error| self.calibration_error(error))
    }

    pub(crate) fn calibration_error(&self, error: CalibrationError) -> Error {
        Error::Calibration { file: self.weights().path().display().to_string(), error }
    }
}

/// Returns the files of a model that change its results.
fn files(weights: &dyn WeightSource) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = weights.paths().into_iter().map(Path::to_owned).collect();
    if weights.config_json().is_some()
        && let Some(folder) = folder(weights.path())
    {
        all.extend(SETTINGS.iter().map(|name| folder.join(name)).filter(|path| path.is_file()));
    }
    all
}

/// Returns the folder with the settings of a model: its own, that of its file, or the one around it.
fn folder(path: &Path) -> Option<&Path> {
    path.ancestors().take(3).find(|folder| folder.join("config.json").is_file())
}

fn sha256_of_file(path: &Path) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::Calibration {
        file: path.display().to_string(),
        error: CalibrationError::Document(format!("cannot read: {error}")),
    };
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path).map_err(|error| failed(&error))?.is_file() {
        return Err(failed(&"not a regular file"));
    }
    let mut file = File::open(path).map_err(|error| failed(&error))?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(|error| failed(&error))? {
            0 => return Ok(hex(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
