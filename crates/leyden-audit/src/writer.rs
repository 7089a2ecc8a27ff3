//! The thread that writes: it gathers what callers submit, and writes it with one flush.

use crate::clock::Clock;
use crate::error::Error;
use crate::folder::{self, MAX_LINE_BYTES};
use crate::line::{self, CheckpointBody, ClockBody, Kind, Why};
use crate::scan::Chain;
use leyden_verify::Key;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Bytes of records after which a group is written, though more wait.
const GROUP_BYTES: usize = 8 << 20;

/// Function that gets the number of the last line, or the error.
pub(crate) type Done = Box<dyn FnOnce(Result<u64, Error>) + Send>;

/// Command for the writer.
pub(crate) enum Command {
    /// Bodies of records to be written.
    Append(Vec<Vec<u8>>, Done),
    /// End of the log, with a last checkpoint.
    Close(Done),
}

/// Counts for [`Figures`](crate::Figures).
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) records: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) waited_micros: AtomicU64,
}

/// Rules of the writer.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) checkpoint_records: u64,
    pub(crate) checkpoint_time: Duration,
    pub(crate) segment_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
}

/// State of the writer.
pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) file: File,
    /// Number of the segment.
    pub(crate) segment: u64,
    /// Bytes of the segment that are on the disk.
    pub(crate) bytes: u64,
    /// Bytes of the segments before it.
    pub(crate) bytes_before: u64,
    /// True if bytes behind those may be in the file.
    pub(crate) is_dirty: bool,
    pub(crate) chain: Chain,
    /// Lines since the last checkpoint.
    pub(crate) unsigned: u64,
    pub(crate) signed_at: Instant,
    pub(crate) log: String,
    pub(crate) key: Key,
    pub(crate) clock: Clock,
    pub(crate) rules: Rules,
    pub(crate) counts: Arc<Counts>,
    /// Lock of the log.
    pub(crate) _lock: File,
    /// Number of writes that fail, in tests.
    #[cfg(test)]
    pub(crate) faults: Arc<AtomicU64>,
}

/// Lines that are written together.
pub(crate) struct Group {
    text: Vec<u8>,
    chain: Chain,
    lines: u64,
    /// Start and end of the last line in `text`, if it is a checkpoint.
    checkpoint: Option<(usize, usize)>,
}

impl Writer {
    /// Begins a group of lines.
    pub(crate) fn group(&self) -> Group {
        Group { text: Vec::new(), chain: self.chain, lines: 0, checkpoint: None }
    }

    /// Adds a line to a group, and before it a line that the clock was set, if it was.
    pub(crate) fn add(&self, group: &mut Group, kind: Kind, body: &[u8]) {
        let stamp = self.clock.now();
        if kind != Kind::Open
            && let Some(before) = group.chain.stamp
            && let jump @ (..=-1 | 1..) = stamp.jump_since(before)
        {
            let set_by_micros = i64::try_from(jump).unwrap_or(if jump < 0 { i64::MIN } else { i64::MAX });
            self.line(group, stamp, Kind::Clock, &json(&ClockBody { set_by_micros }));
        }
        self.line(group, stamp, kind, body);
    }

    fn line(&self, group: &mut Group, stamp: crate::clock::Stamp, kind: Kind, body: &[u8]) {
        let from = group.text.len();
        line::write(&mut group.text, (group.chain.seq, &group.chain.prev), stamp, kind, body);
        Self::end_line(group, from, stamp);
        group.checkpoint = None;
    }

    /// Ends the line that begins at `from`.
    fn end_line(group: &mut Group, from: usize, stamp: crate::clock::Stamp) {
        let hash = line::hash(&group.text[from..]);
        group.text.push(b'\n');
        group.lines += 1;
        group.chain = Chain { seq: group.chain.seq + 1, prev: hash, stamp: Some(stamp) };
    }

    /// Adds a checkpoint to a group.
    pub(crate) fn add_checkpoint(&self, group: &mut Group, why: Why) -> Result<(), Error> {
        let body = json(&CheckpointBody { why, log: self.log.clone(), key: self.key.id() });
        let stamp = self.clock.now();
        if let Some(before) = group.chain.stamp
            && stamp.jump_since(before) != 0
        {
            let jump = i64::try_from(stamp.jump_since(before)).unwrap_or(i64::MAX);
            self.line(group, stamp, Kind::Clock, &json(&ClockBody { set_by_micros: jump }));
        }
        let from = group.text.len();
        line::write(&mut group.text, (group.chain.seq, &group.chain.prev), stamp, Kind::Checkpoint, &body);
        line::sign(&mut group.text, from, &self.key)?;
        let to = group.text.len();
        Self::end_line(group, from, stamp);
        group.checkpoint = Some((from, to));
        Ok(())
    }

    /// Writes a group to the disk. The state changes only if all of it is there.
    pub(crate) fn write(&mut self, group: &Group) -> Result<(), Error> {
        let path = folder::segment(&self.folder, self.segment);
        self.try_write(&group.text).map_err(|error| {
            // Half a group must not stay, or the chain would go on behind it.
            self.is_dirty = self.clean().is_err();
            Error::file(&path, format!("cannot write the audit log: {error}"))
        })?;
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.bytes += group.text.len() as u64;
        self.chain = group.chain;
        self.unsigned += group.lines;
        if group.checkpoint.is_some() {
            (self.unsigned, self.signed_at) = (0, Instant::now());
        }
        Ok(())
    }

    fn try_write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.is_dirty {
            self.clean()?;
            self.is_dirty = false;
        }
        #[cfg(test)]
        if self.faults.load(Ordering::SeqCst) > 0 {
            self.faults.fetch_sub(1, Ordering::SeqCst);
            self.file.write_all(&text[..text.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(text)?;
        self.file.sync_data()
    }

    /// Cuts off what a failed write left.
    fn clean(&mut self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.sync_data()
    }

    /// Writes a group's checkpoint to the head. An older head stays if that fails.
    pub(crate) fn publish(&self, group: &Group) -> Result<(), Error> {
        let Some((from, to)) = group.checkpoint else { return Ok(()) };
        folder::write_head(&self.folder, &group.text[from..to]).inspect_err(|_| {
            self.counts.errors.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Begins a new segment if this one is full.
    fn rotate(&mut self) -> Result<(), Error> {
        if self.bytes < self.rules.segment_bytes {
            return Ok(());
        }
        let mut group = self.group();
        self.add_checkpoint(&mut group, Why::Rotation)?;
        self.write(&group)?;
        // The line is on the disk; the head may stay behind.
        let _ = self.publish(&group);
        let file = new_segment(&self.folder, self.segment + 1)?;
        self.bytes_before += self.bytes;
        (self.file, self.segment, self.bytes) = (file, self.segment + 1, 0);
        Ok(())
    }

    /// Returns the time until a checkpoint is due; `None` if all lines are signed.
    fn due(&self) -> Option<Duration> {
        (self.unsigned > 0).then(|| self.rules.checkpoint_time.saturating_sub(self.signed_at.elapsed()))
    }

    /// Writes until the log is closed or nobody can submit any more.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let first = match self.due() {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => commands.recv_timeout(due),
            };
            let first = match first {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.checkpoint(Why::Interval) {
                        self.counts.errors.fetch_add(1, Ordering::Relaxed);
                        drop(error);
                        // The disk may have room later.
                        self.signed_at = Instant::now();
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // Dropped without `close`.
                    let _ = self.checkpoint(Why::Close);
                    return;
                }
            };
            if let Some(done) = self.serve(first, commands) {
                let closed = self.checkpoint(Why::Close).map(|()| self.chain.seq - 1);
                drop(self);
                done(closed);
                return;
            }
        }
    }

    fn checkpoint(&mut self, why: Why) -> Result<(), Error> {
        let mut group = self.group();
        self.add_checkpoint(&mut group, why)?;
        self.write(&group)?;
        self.publish(&group)
    }

    /// Writes a command and those that wait behind it. Returns the function to call at the end, if one of them closes
    /// the log.
    fn serve(&mut self, first: Command, commands: &Receiver<Command>) -> Option<Done> {
        let rotated = self.rotate();
        let mut group = self.group();
        let (mut waiting, mut close): (Vec<(Done, u64, u64)>, Option<Done>) = (Vec::new(), None);
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                Command::Close(done) => {
                    close = Some(done);
                    break;
                }
                Command::Append(bodies, done) => {
                    let fits = rotated.clone().and_then(|()| self.check(&group, &bodies));
                    if let Err(error) = fits {
                        self.counts.errors.fetch_add(1, Ordering::Relaxed);
                        done(Err(error));
                    } else {
                        bodies.iter().for_each(|body| self.add(&mut group, Kind::Entry, body));
                        waiting.push((done, bodies.len() as u64, group.chain.seq.saturating_sub(1)));
                    }
                }
            }
            if group.text.len() < GROUP_BYTES {
                next = commands.try_recv().ok();
            }
        }
        if waiting.is_empty() {
            return close;
        }
        let is_due = self.unsigned + group.lines >= self.rules.checkpoint_records
            || self.signed_at.elapsed() >= self.rules.checkpoint_time;
        let written = match is_due {
            true => self.add_checkpoint(&mut group, Why::Interval).and_then(|()| self.write(&group)),
            false => self.write(&group),
        };
        for (done, records, last) in waiting {
            let count = if written.is_ok() { &self.counts.records } else { &self.counts.errors };
            count.fetch_add(records, Ordering::Relaxed);
            done(written.clone().map(|()| last));
        }
        if written.is_ok() {
            // The lines are on the disk; the head is written again at the next checkpoint.
            let _ = self.publish(&group);
        }
        close
    }

    /// Checks the sizes of bodies.
    fn check(&self, group: &Group, bodies: &[Vec<u8>]) -> Result<(), Error> {
        if bodies.iter().any(|body| body.len() as u64 > MAX_LINE_BYTES - 1024) {
            return Err(Error::new(format!("the record is longer than {MAX_LINE_BYTES} bytes")));
        }
        let bytes: u64 = bodies.iter().map(|body| body.len() as u64 + 256).sum();
        let all = self.bytes_before + self.bytes + group.text.len() as u64 + bytes;
        match self.rules.limit_bytes {
            Some(limit) if all > limit => Err(Error::file(
                &self.folder,
                format!("the audit log has reached its limit of {limit} bytes; begin one in a new folder"),
            )),
            _ => Ok(()),
        }
    }
}

/// Makes a segment.
pub(crate) fn new_segment(folder: &std::path::Path, number: u64) -> Result<File, Error> {
    let path = folder::segment(folder, number);
    let failed = |error: io::Error| Error::file(&path, format!("cannot make the segment: {error}"));
    // It may exist without a line, if making it failed half way before.
    let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(Error::file(&path, "exists already, with lines in it"));
    }
    leyden_files::sync_folder(folder).map_err(failed)?;
    Ok(file)
}

/// Returns a body as JSON.
pub(crate) fn json(body: &impl Serialize) -> Vec<u8> {
    // Structures of numbers and texts always have a JSON form.
    serde_json::to_vec(body).unwrap_or_default()
}
