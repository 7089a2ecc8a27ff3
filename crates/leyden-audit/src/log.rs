//! [`AuditLog`]: a log that is open for writing.

use crate::clock::Clock;
use crate::content::Recipient;
use crate::digest::hex;
use crate::error::Error;
use crate::key;
use crate::line::{Kind, OpenBody, VERSION, Why};
use crate::record::Record;
use crate::writer::{Command, Counts, Done, Rules, Writer, json, new_segment};
use crate::{folder, line, scan};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Records after which a checkpoint is written.
const CHECKPOINT_RECORDS: u64 = 256;
/// Time after which a checkpoint is written, if there were records.
const CHECKPOINT_TIME: Duration = Duration::from_secs(5);
/// Bytes after which a segment is full.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Bytes that stay free below the limit of a log, for its checkpoints.
const MIN_LIMIT_BYTES: u64 = 64 << 10;

/// Options of a log.
#[derive(Clone, Debug)]
pub struct Options {
    /// File of the key that signs checkpoints, made at first use.
    pub key: PathBuf,
    /// Version of the program.
    pub program: String,
    /// Reader of the contents; without one no content is written.
    pub recipient: Option<Recipient>,
    /// Records after which a checkpoint is written.
    pub checkpoint_records: u64,
    /// Time after which a checkpoint is written, if there were records.
    pub checkpoint_time: Duration,
    /// Bytes after which a new segment is begun.
    pub segment_bytes: u64,
    /// Bytes of all segments above which records are refused.
    pub limit_bytes: Option<u64>,
}

impl Options {
    /// Returns the default options: a checkpoint after 256 records or five seconds, segments of 64 MiB, no content.
    #[must_use]
    pub fn new(key: impl Into<PathBuf>, program: impl Into<String>) -> Options {
        Options {
            key: key.into(),
            program: program.into(),
            recipient: None,
            checkpoint_records: CHECKPOINT_RECORDS,
            checkpoint_time: CHECKPOINT_TIME,
            segment_bytes: SEGMENT_BYTES,
            limit_bytes: None,
        }
    }

    /// Returns the default place of a log's key: beside its folder, so that a copy of the folder has no secret.
    #[must_use]
    pub fn default_key(folder: &Path) -> PathBuf {
        let mut name = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).into_os_string();
        name.push(".key");
        name.into()
    }
}

/// Counts of a log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Records that are on the disk.
    pub records: u64,
    /// Records and checkpoints that could not be written.
    pub errors: u64,
    /// Flushes to the disk.
    pub flushes: u64,
    /// Seconds that callers waited, added up.
    pub waited_seconds: f64,
}

/// A log that is open for writing. It is shared by reference or in an [`Arc`]; if it is dropped without
/// [`close`](Self::close), what was appended is on the disk all the same.
#[derive(Debug)]
pub struct AuditLog {
    commands: Sender<Command>,
    writer: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
    log: String,
    key: String,
    recipient: Option<Recipient>,
}

impl AuditLog {
    /// Opens the log in a folder, which is made if it does not exist. An unfinished last line, as a crash leaves it, is
    /// cut off, and a line tells so.
    ///
    /// # Errors
    /// Folder or key cannot be read or written, another process writes the log, or the log was damaged.
    pub fn open(folder: &Path, options: Options) -> Result<AuditLog, Error> {
        AuditLog::open_with(folder, options, Opening::default())
    }

    pub(crate) fn open_with(folder: &Path, options: Options, parts: Opening) -> Result<AuditLog, Error> {
        let Options { recipient, limit_bytes, .. } = &options;
        if limit_bytes.is_some_and(|limit| limit < MIN_LIMIT_BYTES) {
            return Err(Error::new(format!(
                "the limit of an audit log: want at least {MIN_LIMIT_BYTES} bytes"
            )));
        }
        let recipient = recipient.clone();
        folder::create(folder)?;
        let lock = folder::lock(folder)?;
        let found = scan::find(folder)?;
        let key = key::signing(&options.key, found.log.is_none())?;
        let log = match &found.log {
            None => random_id()?,
            Some((_, of_log)) if *of_log != key.id() => {
                let what = format!("is not the key of this audit log, which is {of_log}");
                return Err(Error::file(&options.key, what));
            }
            Some((log, _)) => log.clone(),
        };
        let file = match found.segment {
            0 => new_segment(folder, 1)?,
            number => existing(folder, number, found.bytes)?,
        };
        let counts = Arc::new(Counts::default());
        let rules = Rules {
            checkpoint_records: options.checkpoint_records.max(1),
            checkpoint_time: options.checkpoint_time,
            segment_bytes: options.segment_bytes,
            limit_bytes: options.limit_bytes,
        };
        let mut writer = Writer {
            folder: folder.to_owned(),
            file,
            segment: found.segment.max(1),
            bytes: found.bytes,
            bytes_before: found.bytes_before,
            is_dirty: false,
            chain: found.chain,
            unsigned: 0,
            signed_at: Instant::now(),
            log: log.clone(),
            key,
            clock: parts.clock,
            rules,
            counts: Arc::clone(&counts),
            _lock: lock,
            #[cfg(test)]
            faults: parts.faults,
        };
        let back = found.chain.stamp.map_or(0, |before| writer.clock.now().jump_back_since(before));
        let open = OpenBody {
            format: line::FORMAT.to_owned(),
            version: VERSION,
            log: log.clone(),
            leyden: options.program,
            key: writer.key.id(),
            recipient: recipient.as_ref().map(Recipient::id),
            clock_back_micros: (back != 0).then(|| i64::try_from(back).unwrap_or(i64::MIN)),
        };
        let mut group = writer.group();
        writer.add(&mut group, Kind::Open, &json(&open));
        if let Some(cut) = &found.cut {
            writer.add(&mut group, Kind::Cut, &json(cut));
        }
        writer.add_checkpoint(&mut group, Why::Open)?;
        writer.write(&group)?;
        writer.publish(&group)?;
        let key = writer.key.id();
        let (commands, receiver) = mpsc::channel();
        let thread = thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&receiver));
        let thread = thread
            .map_err(|error| Error::new(format!("cannot start the thread of the audit log: {error}")))?;
        Ok(AuditLog { commands, writer: Mutex::new(Some(thread)), counts, log, key, recipient })
    }

    /// Returns the random id of the log.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.log
    }

    /// Returns the public key of the checkpoints in hexadecimal digits.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns true if the log writes contents, so that records should have them.
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        self.recipient.is_some()
    }

    /// Writes a record. Returns its number when it is on the disk.
    ///
    /// # Errors
    /// The disk is full or failed, the log has reached its limit, or the content cannot be encrypted.
    pub fn append(&self, record: &Record) -> Result<u64, Error> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Writes records. Returns the number of the last one when all are on the disk.
    ///
    /// # Errors
    /// As [`append`](Self::append), and if there is no record; then none of them is written.
    pub fn append_all(&self, records: &[Record]) -> Result<u64, Error> {
        if records.is_empty() {
            return Err(Error::new("no records to write"));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        self.put(records, Box::new(move |result| drop(sender.send(result))));
        receiver.recv().unwrap_or_else(|_| Err(ended()))
    }

    /// Writes a record, and calls `done` on the writer's thread with its number when it is on the disk, or with the error.
    /// `done` must not wait.
    pub fn submit(&self, record: &Record, done: impl FnOnce(Result<u64, Error>) + Send + 'static) {
        self.put(std::slice::from_ref(record), Box::new(done));
    }

    fn put(&self, records: &[Record], done: Done) {
        let bodies: Result<Vec<_>, Error> = records.iter().map(|record| self.body(record)).collect();
        let bodies = match bodies {
            Ok(bodies) => bodies,
            Err(error) => {
                self.counts.errors.fetch_add(1, Ordering::Relaxed);
                return done(Err(error));
            }
        };
        let (started, counts) = (Instant::now(), Arc::clone(&self.counts));
        let done: Done = Box::new(move |result| {
            let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            counts.waited_micros.fetch_add(micros, Ordering::Relaxed);
            done(result);
        });
        if let Err(mpsc::SendError(Command::Append(_, done))) =
            self.commands.send(Command::Append(bodies, done))
        {
            done(Err(ended()));
        }
    }

    /// Returns the JSON of a record, with its content encrypted.
    fn body(&self, record: &Record) -> Result<Vec<u8>, Error> {
        let body = match (&self.recipient, &record.content) {
            (Some(recipient), Some(content)) => {
                let sealed = recipient.seal(content, &record.place(&self.log))?;
                serde_json::to_vec(&Record { sealed: Some(sealed), content: None, ..record.clone() })
            }
            _ => serde_json::to_vec(record),
        };
        body.map_err(|error| Error::new(format!("cannot write the record: {error}")))
    }

    /// Returns the counts since the log was opened.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Figures {
            records: of(&self.counts.records),
            errors: of(&self.counts.errors),
            flushes: of(&self.counts.flushes),
            waited_seconds: of(&self.counts.waited_micros) as f64 / 1e6,
        }
    }

    /// Writes a last checkpoint and closes the log. Records that are appended afterwards are refused.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub fn close(&self) -> Result<(), Error> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let done: Done = Box::new(move |result| drop(sender.send(result)));
        if self.commands.send(Command::Close(done)).is_err() {
            // Closed before.
            return Ok(());
        }
        let result = receiver.recv().unwrap_or(Ok(0));
        if let Some(thread) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
        result.map(drop)
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Parts of an opening that tests replace.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) clock: Clock,
    #[cfg(test)]
    pub(crate) faults: Arc<std::sync::atomic::AtomicU64>,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            clock: Clock::start(),
            #[cfg(test)]
            faults: Arc::default(),
        }
    }
}

fn ended() -> Error {
    Error::new("the audit log is closed")
}

fn random_id() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(format!("the system gives no random bytes for the id of a log: {error}"))
    })?;
    Ok(hex(&bytes))
}

/// Opens a segment for appending, and cuts off what is behind its complete lines.
fn existing(folder: &Path, number: u64, bytes: u64) -> Result<File, Error> {
    let path = folder::segment(folder, number);
    let failed = |error: std::io::Error| Error::file(&path, format!("cannot open for writing: {error}"));
    let file = File::options().append(true).open(&path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > bytes {
        file.set_len(bytes).map_err(failed)?;
    }
    // Lines that an earlier process wrote and did not flush become part of the chain.
    file.sync_all().map_err(failed)?;
    Ok(file)
}
