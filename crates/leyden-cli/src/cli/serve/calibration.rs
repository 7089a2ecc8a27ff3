//! Calibration of a served classifier: its settings, and their check against the model.

use std::path::PathBuf;

use leyden::Model;
use leyden::calibration::{Calibration, Promise};

use crate::cli::calibration_file;

/// Settings of a model's calibration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CalibrationSettings {
    /// File of leyden calibrate.
    pub(super) file: Option<PathBuf>,
    pub(super) coverage: Option<f64>,
    pub(super) per_class: bool,
    pub(super) max_set: Option<usize>,
    pub(super) max_error: Option<f64>,
    pub(super) confidence: Option<f64>,
    /// Name of the model that answers the texts from which this one abstains.
    pub(super) fallback: Option<String>,
}

impl CalibrationSettings {
    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// The key of a setting that lacks another one or excludes it, and the reason.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let needs = |key, given: bool, other: &str, has: bool| match given && !has {
            true => Err((key, format!("needs `{other}`"))),
            false => Ok(()),
        };
        let file = self.file.is_some();
        needs("coverage", self.coverage.is_some(), "calibration", file)?;
        needs("max_error", self.max_error.is_some(), "calibration", file)?;
        needs("fallback", self.fallback.is_some(), "calibration", file)?;
        needs("per_class", self.per_class, "coverage", self.coverage.is_some())?;
        needs("max_set", self.max_set.is_some(), "coverage", self.coverage.is_some())?;
        needs("confidence", self.confidence.is_some(), "max_error", self.max_error.is_some())?;
        match self.coverage.is_some() && self.max_error.is_some() {
            true => Err(("max_error", "`coverage` and `max_error` exclude each other".to_owned())),
            false => Ok(()),
        }
    }

    /// Returns the promise of requests that state none.
    fn promise(&self) -> Option<(Promise, Option<usize>)> {
        let coverage =
            self.coverage.map(|coverage| Promise::Coverage { coverage, per_class: self.per_class });
        let error = self.max_error.map(|max_error| Promise::MaxError {
            max_error,
            confidence: self.confidence.unwrap_or(Promise::CONFIDENCE),
        });
        coverage.or(error).map(|promise| (promise, self.max_set))
    }

    /// Reads the file and checks that it supports the promise, without the model.
    ///
    /// # Errors
    /// The file cannot be read or is no calibration, or has too few rows.
    pub(super) fn look(&self) -> Result<Option<(Calibration, leyden_server::Calibrated)>, String> {
        let Some(path) = &self.file else { return Ok(None) };
        let calibration = calibration_file::read(path).map_err(|failure| failure.to_string())?;
        leyden_server::Calibrated::new(calibration.clone(), self.promise(), self.fallback.clone())
            .map(|calibrated| Some((calibration, calibrated)))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the calibration of a loaded model.
    ///
    /// # Errors
    /// As [`look`](Self::look), or it was made for another model or other settings.
    pub(super) fn ready(&self, model: &Model) -> Result<Option<leyden_server::Calibrated>, String> {
        let Some((calibration, calibrated)) = self.look()? else { return Ok(None) };
        let path = self.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        match model.check_calibration(&calibration) {
            Ok(()) => Ok(Some(calibrated)),
            Err(leyden::Error::Calibration { error, .. }) => Err(format!("{path}: {error}")),
            Err(error) => Err(error.to_string()),
        }
    }
}
