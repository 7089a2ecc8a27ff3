//! [`Batches`]: batches of requests and the files that they read and write, in a folder.
//!
//! A batch is a file `batches/ID.json` and, while it runs, the journal of its finished rows, so that it goes on after a restart.
//! Its rows are computed by a thread of its own (`batch_runner`).

mod input;
mod record;

pub(crate) use self::input::{BATCH_ENDPOINTS, Input, RowRequest, check};
pub(crate) use self::record::{InputError, Record, Status};
use crate::error::ApiError;
use crate::failure::Error;
use crate::file_store::{self, FileStore, StoredFile, broken};
use crate::ids::Ids;
use crate::limits::Limits;
use crate::timestamp::unix_time;
use hyper::StatusCode;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of finished batches of a key that are kept; their files are kept without them.
const MAX_FINISHED: usize = 10_000;

/// Fields of a new batch.
#[derive(Debug)]
pub(crate) struct NewBatch {
    pub(crate) owner: String,
    pub(crate) endpoint: String,
    pub(crate) input_file_id: String,
    pub(crate) completion_window: String,
    /// Time of the window in seconds.
    pub(crate) window: u64,
    pub(crate) metadata: Option<Map<String, Value>>,
    pub(crate) output_lifetime: Option<u64>,
}

/// Files and batches of all keys.
#[derive(Debug)]
pub(crate) struct Batches {
    pub(crate) files: FileStore,
    folder: PathBuf,
    limits: Limits,
    ids: Ids,
    records: Mutex<BTreeMap<u64, Record>>,
    changed: Condvar,
    /// Lock that keeps a second server out of the folder.
    _lock: File,
}

impl Batches {
    /// Opens the folder, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be read or written, is used by another server, or something in it is damaged.
    pub(crate) fn open(folder: &Path, limits: &Limits) -> Result<Batches, Error> {
        let files = FileStore::open(folder.join("files"), limits)?;
        let lock =
            File::create(folder.join("lock")).map_err(|e| broken(folder, format!("cannot write: {e}")))?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(broken(folder, "another server uses this folder".to_owned()));
        }
        let batches = folder.join("batches");
        let described: Vec<Record> = file_store::descriptions(&batches)?;
        let records = described.into_iter().map(|record| (record.number, record)).collect();
        let opened = Batches {
            files,
            folder: batches,
            limits: limits.clone(),
            ids: Ids::default(),
            records: Mutex::new(records),
            changed: Condvar::new(),
            _lock: lock,
        };
        for record in opened.lock().values().filter(|record| record.status.is_final()) {
            opened.remove_journal(record);
        }
        Ok(opened)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a batch.
    ///
    /// # Errors
    /// 404: the key has no such file. 400: too many unfinished batches. 500: the disk is full or failed.
    pub(crate) fn create(&self, new: NewBatch) -> Result<Record, ApiError> {
        if self.files.get(&new.owner, &new.input_file_id).is_none() {
            let message = "`input_file_id`: there is no such file";
            let error = ApiError::new(StatusCode::NOT_FOUND, "file_not_found", message);
            return Err(ApiError { param: Some("input_file_id".to_owned()), ..error });
        }
        let mut records = self.lock();
        let own = records.values().filter(|record| record.owner == new.owner);
        let open = own.filter(|record| !record.status.is_final()).count();
        if open >= self.limits.batches {
            let message =
                format!("this key has {open} unfinished batches, the maximum; wait for one, or cancel one");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "batch_limit_exceeded", message));
        }
        let now = unix_time();
        let record = Record {
            id: format!("batch_{}", self.ids.next()),
            number: records.last_key_value().map_or(0, |(number, _)| number + 1),
            owner: new.owner,
            endpoint: new.endpoint,
            input_file_id: new.input_file_id,
            completion_window: new.completion_window,
            metadata: new.metadata,
            output_lifetime: new.output_lifetime,
            status: Status::Validating,
            errors: Vec::new(),
            output_file_id: None,
            error_file_id: None,
            ends_as: None,
            created_at: now,
            expires_at: now + new.window,
            in_progress_at: None,
            finalizing_at: None,
            completed_at: None,
            failed_at: None,
            expired_at: None,
            cancelling_at: None,
            cancelled_at: None,
            total: 0,
            completed: 0,
            failed: 0,
        };
        self.save(&record).map_err(|error| not_written(&error))?;
        self.forget_oldest(&mut records, &record.owner);
        records.insert(record.number, record.clone());
        self.changed.notify_all();
        Ok(record)
    }

    /// Removes the oldest finished batch of a key that has too many.
    fn forget_oldest(&self, records: &mut BTreeMap<u64, Record>, owner: &str) {
        let finished = || records.values().filter(|record| record.owner == owner && record.status.is_final());
        if finished().count() < MAX_FINISHED {
            return;
        }
        let Some((number, id)) = finished().next().map(|record| (record.number, record.id.clone())) else {
            return;
        };
        let _ = fs::remove_file(self.folder.join(format!("{id}.json")));
        records.remove(&number);
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        file_store::save(&self.folder, &record.id, record)
    }

    /// Returns the batches of a key, the oldest first.
    pub(crate) fn list(&self, owner: &str) -> Vec<Record> {
        self.lock().values().filter(|record| record.owner == owner).cloned().collect()
    }

    /// Returns a batch of a key.
    pub(crate) fn get(&self, owner: &str, id: &str) -> Option<Record> {
        self.lock().values().find(|record| record.owner == owner && record.id == id).cloned()
    }

    /// Returns the batch with this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<Record> {
        self.lock().get(&number).cloned()
    }

    /// Returns the id of an unfinished batch that reads a file.
    pub(crate) fn reader_of(&self, file: &str) -> Option<String> {
        let records = self.lock();
        let mut open = records.values().filter(|record| !record.status.is_final());
        open.find(|record| record.input_file_id == file).map(|record| record.id.clone())
    }

    /// Begins to cancel a batch of a key; one that is being cancelled stays as it is.
    ///
    /// # Errors
    /// 404: there is no such batch. 409: it has ended, or its outputs are being written. 500: the disk is full or failed.
    pub(crate) fn cancel(&self, owner: &str, id: &str) -> Result<Record, ApiError> {
        let record = self.get(owner, id).ok_or_else(unknown)?;
        let mut refused = None;
        let record = self.change(record.number, |record| match record.status {
            Status::Validating | Status::InProgress => record.set(Status::Cancelling, unix_time()),
            Status::Cancelling => {}
            _ => refused = Some(record.status),
        });
        if refused.is_some() {
            let message = "the batch has ended, or its outputs are being written";
            return Err(ApiError::new(StatusCode::CONFLICT, "batch_ended", message));
        }
        record.map_err(|error| not_written(&error))?.ok_or_else(unknown)
    }

    /// Changes a batch, and writes it to the disk. Returns it as it is then.
    ///
    /// # Errors
    /// The disk is full or failed; the batch is as it was.
    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut Record)) -> io::Result<Option<Record>> {
        let mut records = self.lock();
        let Some(record) = records.get_mut(&number) else { return Ok(None) };
        let mut new = record.clone();
        change(&mut new);
        if new != *record {
            self.save(&new)?;
            *record = new;
            self.changed.notify_all();
        }
        Ok(Some(record.clone()))
    }

    /// Sets the numbers of rows of a batch that have an answer and that have an error, without writing them: the journal has them.
    pub(crate) fn count(&self, number: u64, completed: u64, failed: u64) {
        if let Some(record) = self.lock().get_mut(&number) {
            (record.completed, record.failed) = (completed, failed);
        }
    }

    /// Returns an unfinished batch beside those that `running` lists: of the key with the fewest running batches the oldest.
    /// Batches of keys that are not `known` wait.
    pub(crate) fn next(&self, running: &[u64], known: impl Fn(&str) -> bool) -> Option<u64> {
        let records = self.lock();
        let mut by_owner: HashMap<&str, usize> = HashMap::new();
        for record in running.iter().filter_map(|number| records.get(number)) {
            *by_owner.entry(&record.owner).or_default() += 1;
        }
        let waiting = records
            .values()
            .filter(|r| !r.status.is_final() && !running.contains(&r.number) && known(&r.owner));
        waiting
            .min_by_key(|r| (by_owner.get(r.owner.as_str()).copied().unwrap_or(0), r.number))
            .map(|r| r.number)
    }

    /// Waits until a batch changes, or for this time.
    pub(crate) fn wait(&self, time: Duration) {
        drop(self.changed.wait_timeout(self.lock(), time));
    }

    /// Returns the path beside which the journal of a batch lies.
    pub(crate) fn journal(&self, record: &Record) -> PathBuf {
        self.folder.join(format!("{}.jsonl", record.id))
    }

    /// Removes the journal of a batch that has ended.
    pub(crate) fn remove_journal(&self, record: &Record) {
        let _ = fs::remove_file(self.folder.join(format!("{}.jsonl.unfinished", record.id)));
    }

    /// Opens the input of a batch.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn input(&self, record: &Record) -> io::Result<Input> {
        let file: Option<StoredFile> = self.files.get(&record.owner, &record.input_file_id);
        let file =
            file.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the input file was deleted"))?;
        Ok(Input::new(self.files.read(&file)?, file.bytes, &self.limits))
    }
}

/// Returns the error of a batch that the key does not have.
pub(crate) fn unknown() -> ApiError {
    let error = ApiError::new(StatusCode::NOT_FOUND, "batch_not_found", "there is no such batch");
    ApiError { param: Some("batch_id".to_owned()), ..error }
}

/// Returns the error of a disk that is full or failed.
pub(crate) fn not_written(error: &io::Error) -> ApiError {
    ApiError::internal(format!("the folder of batches cannot be written: {}", error.kind()))
}
