//! [`Calibrated`]: the calibration of a served classifier, with its default promise and the model for abstained texts.

use leyden_tasks::calibration::{Calibration, CalibrationError, Decider, Promise};
use std::sync::Arc;

/// Maximum number of labels of a set in an answer; a larger one is an abstention.
pub(crate) const MAX_SET: usize = 256;

/// Calibration of a classifier.
#[derive(Clone, Debug)]
pub struct Calibrated {
    pub(crate) calibration: Arc<Calibration>,
    /// Decider of requests that state no promise.
    pub(crate) usual: Option<Arc<Decider>>,
    /// Name of the model that answers the texts from which this one abstains.
    pub(crate) fallback: Option<String>,
}

impl Calibrated {
    /// Returns a calibration with the promise of requests that state none. The caller has compared it with the model.
    ///
    /// # Errors
    /// The calibration does not support the promise.
    pub fn new(
        calibration: Calibration,
        usual: Option<(Promise, Option<usize>)>,
        fallback: Option<String>,
    ) -> Result<Calibrated, CalibrationError> {
        let decider = |(promise, max_set): (Promise, Option<usize>)| {
            let most = max_set.map_or(MAX_SET, |most| most.min(MAX_SET));
            Decider::new(&calibration, promise, Some(most)).map(Arc::new)
        };
        let usual = usual.map(decider).transpose()?;
        Ok(Calibrated { calibration: Arc::new(calibration), usual, fallback })
    }
}
