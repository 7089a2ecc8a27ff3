//! [`Record`] of a batch, as it is kept on the disk and shown to its owner.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// State of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

impl Status {
    /// Returns true if nothing happens to the batch any more.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Status::Failed | Status::Completed | Status::Expired | Status::Cancelled)
    }
}

/// Error of a batch's input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputError {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) line: Option<u64>,
}

/// A batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    /// Place in the order of creation.
    pub(crate) number: u64,
    /// Name of the key that it belongs to; empty without keys.
    pub(crate) owner: String,
    pub(crate) endpoint: String,
    pub(crate) input_file_id: String,
    pub(crate) completion_window: String,
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Seconds until its outputs are deleted.
    pub(crate) output_lifetime: Option<u64>,
    pub(crate) status: Status,
    pub(crate) errors: Vec<InputError>,
    /// Ids of the outputs, chosen before they are written, so that they are written once.
    pub(crate) output_file_id: Option<String>,
    pub(crate) error_file_id: Option<String>,
    /// State in which it ends once its outputs are written.
    pub(crate) ends_as: Option<Status>,
    /// Times in seconds since 1970.
    pub(crate) created_at: u64,
    pub(crate) expires_at: u64,
    pub(crate) in_progress_at: Option<u64>,
    pub(crate) finalizing_at: Option<u64>,
    pub(crate) completed_at: Option<u64>,
    pub(crate) failed_at: Option<u64>,
    pub(crate) expired_at: Option<u64>,
    pub(crate) cancelling_at: Option<u64>,
    pub(crate) cancelled_at: Option<u64>,
    /// Numbers of rows.
    pub(crate) total: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

impl Record {
    /// Sets the state, and its time.
    pub(crate) fn set(&mut self, status: Status, now: u64) {
        self.status = status;
        let at = match status {
            Status::Validating => return,
            Status::Failed => &mut self.failed_at,
            Status::InProgress => &mut self.in_progress_at,
            Status::Finalizing => &mut self.finalizing_at,
            Status::Completed => &mut self.completed_at,
            Status::Expired => &mut self.expired_at,
            Status::Cancelling => &mut self.cancelling_at,
            Status::Cancelled => &mut self.cancelled_at,
        };
        *at = Some(now);
    }

    /// Returns the batch in OpenAI's form.
    pub(crate) fn shown(&self) -> Value {
        let errors = (!self.errors.is_empty()).then(|| json!({ "object": "list", "data": self.errors }));
        // Files that are being written are not there yet.
        let file = |id: &Option<String>| self.status.is_final().then(|| id.clone()).flatten();
        json!({
            "id": self.id, "object": "batch", "endpoint": self.endpoint, "errors": errors,
            "input_file_id": self.input_file_id, "completion_window": self.completion_window, "status": self.status,
            "output_file_id": file(&self.output_file_id), "error_file_id": file(&self.error_file_id),
            "created_at": self.created_at, "in_progress_at": self.in_progress_at, "expires_at": self.expires_at,
            "finalizing_at": self.finalizing_at, "completed_at": self.completed_at, "failed_at": self.failed_at,
            "expired_at": self.expired_at, "cancelling_at": self.cancelling_at, "cancelled_at": self.cancelled_at,
            "request_counts": { "total": self.total, "completed": self.completed, "failed": self.failed },
            "metadata": self.metadata,
        })
    }
}
