//! [`verify`]: checks of a whole log.

use crate::clock::{self, Stamp};
use crate::content::shown;

use crate::error::Error;
use crate::folder::{self, HEAD, Lines, Next};
use crate::line::{self, CheckpointBody, ClockBody, CutBody, Hash, Kind, Line, OpenBody, Why};
use crate::record::{Phase, Record};
use crate::report::{Finding, KeySource, Report};
use leyden_verify::Key;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Maximum number of problems and of warnings that are told.
const MAX_FINDINGS: usize = 100;

/// Keys and copies of checkpoints with which a log is compared.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Copies of the head, of any age, that were kept elsewhere.
    pub anchors: Vec<PathBuf>,
    /// File of the key that signed, its public part is enough; without it the key in the first anchor, or else in the log
    /// itself.
    pub key: Option<PathBuf>,
}

/// A checkpoint from outside of the segments.
struct Anchor {
    path: PathBuf,
    seq: u64,
    hash: Hash,
    log: String,
    /// True once the line with its number was compared.
    is_met: bool,
}

/// State of the checks.
struct Checks {
    report: Report,
    folder: PathBuf,
    key: Option<Key>,
    anchors: Vec<Anchor>,
    seq: u64,
    prev: Hash,
    stamp: Option<Stamp>,
    /// Streams that have begun, with the places of their records.
    open: HashMap<String, (String, u64)>,
    last_kind: Option<(Kind, Option<Why>)>,
}

/// Checks a log: that each line continues the one before it, that checkpoints have the right signature, and that the
/// head and the anchors are lines of it.
///
/// # Errors
/// The folder, an anchor or the key cannot be read. Differences are no errors but problems of the report.
pub fn verify(folder: &Path, options: &VerifyOptions) -> Result<Report, Error> {
    let in_use = folder::is_in_use(folder);
    // The head is read first: a log that is being written may have a newer one at the end.
    let head_path = folder.join(HEAD);
    let head = folder::read_head(&head_path);
    let mut checks = Checks {
        report: Report { in_use, ..Report::default() },
        folder: folder.to_owned(),
        key: None,
        anchors: Vec::new(),
        seq: 0,
        prev: [0; 32],
        stamp: None,
        open: HashMap::new(),
        last_kind: None,
    };
    if let Some(path) = &options.key {
        checks.trust(Key::read(path)?, KeySource::File);
    }
    for path in &options.anchors {
        let line = folder::read_head(path)?.ok_or_else(|| Error::file(path, "there is no such anchor"))?;
        checks.anchor(path, &line, true).map_err(|what| Error::line(path, 1, what))?;
    }
    let numbers = match folder::segments(folder) {
        Ok(numbers) => numbers,
        Err(error) if folder.is_dir() => {
            checks.problem_of(folder, &error);
            return Ok(checks.report);
        }
        Err(error) => return Err(error),
    };
    if numbers.is_empty() && matches!(head, Ok(None)) && options.anchors.is_empty() {
        return Err(Error::file(folder, "no audit log: there is no segment-000001.jsonl"));
    }
    let first = folder::segment(folder, 1);
    match head {
        Ok(Some(line)) => {
            // The key of the log is known only from its first line, if no other is trusted.
            checks.trust_first_line(&first);
            if let Err(what) = checks.anchor(&head_path, &line, false) {
                checks.problem(&head_path, Some(1), what);
            }
        }
        Ok(None) => {
            checks.trust_first_line(&first);
            checks.problem(&head_path, None, "missing: every log has one from its first checkpoint on");
        }
        Err(error) => {
            checks.trust_first_line(&first);
            checks.problem_of(&head_path, &error);
        }
    }
    let last = numbers.last().copied().unwrap_or(0);
    checks.report.segments = numbers.len() as u64;
    let mut end = (first, 1);
    for number in 1..=last.max(1) {
        let path = folder::segment(folder, number);
        if numbers.binary_search(&number).is_err() {
            checks.problem(&path, Some(1), "missing");
            continue;
        }
        end = checks.segment(path, number == last)?;
    }
    checks.end(&end.0, end.1);
    Ok(checks.report)
}

impl Checks {
    fn problem(&mut self, path: &Path, line: Option<u64>, what: impl Into<String>) {
        Self::tell(&mut self.report.problems, &mut self.report.problems_left_out, path, line, what.into());
    }

    /// Tells of an error, at its own place or else that of `path`.
    fn problem_of(&mut self, path: &Path, error: &Error) {
        let (file, line) = error.place();
        self.problem(file.map_or(path, Path::new), line, error.what());
    }

    fn warning(&mut self, path: &Path, line: Option<u64>, what: impl Into<String>) {
        Self::tell(&mut self.report.warnings, &mut self.report.warnings_left_out, path, line, what.into());
    }

    fn tell(list: &mut Vec<Finding>, left_out: &mut u64, path: &Path, line: Option<u64>, what: String) {
        if list.len() < MAX_FINDINGS {
            list.push(Finding { file: path.display().to_string(), line, what });
        } else {
            *left_out += 1;
        }
    }

    fn trust(&mut self, key: Key, from: KeySource) {
        if self.key.is_none() {
            (self.report.key, self.report.key_from) = (key.id(), from);
            self.key = Some(key);
        }
    }

    /// Trusts the key in the first line of the log, if no other is.
    fn trust_first_line(&mut self, path: &Path) {
        if self.key.is_some() {
            return;
        }
        let mut bytes = Vec::new();
        let next = Lines::open(path.to_owned()).and_then(|mut lines| lines.next(&mut bytes));
        if !matches!(next, Ok(Next::Line)) {
            return;
        }
        // A line that is wrong is told of when the segment is checked.
        let body = line::parse(&bytes).and_then(|line| line.body::<OpenBody>());
        if let Ok(key) = body.map(|body| Key::of_public(&body.key))
            && let Some(key) = key
        {
            self.trust(key, KeySource::Log);
        }
    }

    /// Adds a checkpoint from outside of the segments. `is_trusted`: its key is trusted if none is yet.
    fn anchor(&mut self, path: &Path, bytes: &[u8], is_trusted: bool) -> Result<(), String> {
        let line = line::parse(bytes)?;
        if line.kind != Kind::Checkpoint {
            return Err("kind: not a checkpoint".to_owned());
        }
        let body: CheckpointBody = line.body()?;
        if is_trusted {
            let key = Key::of_public(&body.key).ok_or("key: want 64 hexadecimal digits of an Ed25519 key")?;
            self.trust(key, KeySource::Anchor);
        }
        self.check_signature(&line, &body)?;
        let (path, seq, hash, log) = (path.to_owned(), line.seq, line::hash(bytes), body.log);
        self.anchors.push(Anchor { path, seq, hash, log, is_met: false });
        Ok(())
    }

    fn check_signature(&self, line: &Line<'_>, body: &CheckpointBody) -> Result<(), String> {
        let Some(key) = &self.key else {
            return Err(
                "signature: cannot be checked, because the first line of the log has no key".to_owned()
            );
        };
        if body.key != key.id() {
            return Err(format!("key: signed with {}, not with {}", shown(&body.key), key.id()));
        }
        match line.is_signed_by(key) {
            true => Ok(()),
            false => Err("signature: not that of this line: it was changed or forged".to_owned()),
        }
    }

    /// Checks a segment. Returns its path and the number of its last line.
    fn segment(&mut self, path: PathBuf, is_last: bool) -> Result<(PathBuf, u64), Error> {
        let mut lines = Lines::open(path)?;
        let mut bytes = Vec::new();
        loop {
            let next = lines.next(&mut bytes)?;
            let (path, at) = (lines.path().to_owned(), lines.number);
            match next {
                Next::Line => self.line(&path, at, &bytes),
                Next::Unfinished if is_last && self.report.in_use => {
                    self.warning(&path, Some(at), "being written at present");
                }
                Next::Unfinished => self.problem(
                    &path,
                    Some(at),
                    "unfinished line: cut off by a crash or by an editor; the next start cuts it off and records that",
                ),
                Next::TooLong => {
                    self.problem(&path, Some(at), "longer than a line can be");
                    return Ok((path, at));
                }
                Next::End => {
                    if at == 0 && !is_last {
                        self.problem(&path, Some(1), "no lines");
                    }
                    return Ok((path, at.max(1)));
                }
            }
        }
    }

    /// Checks a line.
    fn line(&mut self, path: &Path, at: u64, bytes: &[u8]) {
        let hash = line::hash(bytes);
        self.report.records += 1;
        self.report.unsigned += 1;
        let line = match line::parse(bytes) {
            Ok(line) => line,
            Err(what) => {
                self.problem(path, Some(at), what);
                (self.seq, self.prev, self.last_kind) = (self.seq.saturating_add(1), hash, None);
                return;
            }
        };
        if line.seq != self.seq {
            let (found, wanted) = (line.seq, self.seq);
            let what = match found > wanted {
                true => "lines before it were removed or moved",
                false => "it was inserted or moved",
            };
            self.problem(path, Some(at), format!("seq: {found} where {wanted} follows: {what}"));
        }
        if line.prev != self.prev {
            self.problem(
                path,
                Some(at),
                "prev: not the hash of the line before: that line was changed, or this one does not belong here",
            );
        }
        for anchor in &mut self.anchors {
            anchor.is_met |= anchor.seq == line.seq;
        }
        let wrong = |anchor: &&Anchor| anchor.seq == line.seq && anchor.hash != hash;
        let others: Vec<PathBuf> =
            self.anchors.iter().filter(wrong).map(|anchor| anchor.path.clone()).collect();
        for other in others {
            self.problem(
                path,
                Some(at),
                format!("not the checkpoint in {}: this log was written anew", other.display()),
            );
        }
        self.check_clock(path, at, &line);
        let why = match self.body(path, at, &line) {
            Ok(why) => why,
            Err(what) => {
                self.problem(path, Some(at), what);
                None
            }
        };
        self.last_kind = Some((line.kind, why));
        if self.report.first.is_none() {
            self.report.first = Some(clock::written(line.stamp.time));
        }
        self.report.last = Some(clock::written(line.stamp.time));
        (self.seq, self.prev, self.stamp) = (line.seq.saturating_add(1), hash, Some(line.stamp));
    }

    fn check_clock(&mut self, path: &Path, at: u64, line: &Line<'_>) {
        let Some(before) = self.stamp else { return };
        if line.kind == Kind::Open {
            let told = line.body::<OpenBody>().is_ok_and(|body| body.clock_back_micros.is_some());
            if line.stamp.jump_back_since(before) != 0 && !told {
                self.problem(
                    path,
                    Some(at),
                    "time: before that of the line above, which the line does not tell",
                );
            } else if told {
                self.warning(path, Some(at), "the clock was set back between two starts");
            }
            return;
        }
        if line.stamp.tick < before.tick {
            self.problem(path, Some(at), "tick: smaller than in the line above");
        } else if line.stamp.jump_since(before) != 0 && line.kind != Kind::Clock {
            self.problem(
                path,
                Some(at),
                "time: passed otherwise than `tick` tells, without a line that the clock was set",
            );
        }
    }

    /// Checks a body. Returns the reason of a checkpoint.
    fn body(&mut self, path: &Path, at: u64, line: &Line<'_>) -> Result<Option<Why>, String> {
        if self.report.log.is_empty() && line.kind != Kind::Open {
            return Err("kind: the first line of a log is `open`".to_owned());
        }
        match line.kind {
            Kind::Open => self.open(path, at, &line.body()?)?,
            Kind::Entry => {
                self.report.entries += 1;
                self.entry(path, at, line.body()?);
            }
            Kind::Checkpoint => {
                let body: CheckpointBody = line.body()?;
                if body.log != self.report.log {
                    return Err(format!("log: {} in the log {}", shown(&body.log), self.report.log));
                }
                self.check_signature(line, &body)?;
                self.report.checkpoints += 1;
                self.report.unsigned = 0;
                return Ok(Some(body.why));
            }
            Kind::Clock => {
                let ClockBody { set_by_micros } = line.body()?;
                let seconds = set_by_micros as f64 / 1e6;
                self.warning(path, Some(at), format!("the clock was set by {seconds:+.3} s"));
            }
            Kind::Cut => {
                let CutBody { bytes, segment, .. } = line.body()?;
                let what = format!(
                    "after a crash, {bytes} bytes of an unfinished line were cut off segment {segment}"
                );
                self.warning(path, Some(at), what);
            }
        }
        Ok(None)
    }

    fn open(&mut self, path: &Path, at: u64, body: &OpenBody) -> Result<(), String> {
        if body.format != line::FORMAT || body.version != line::VERSION {
            return Err(format!("format: want `{}` version {}", line::FORMAT, line::VERSION));
        }
        if !matches!(self.last_kind, None | Some((Kind::Checkpoint, Some(Why::Close)))) {
            self.warning(
                path,
                Some(at),
                "the log was not closed before this start: the process was killed or crashed",
            );
        }
        self.streams_end(path, at);
        if self.report.log.is_empty() {
            self.report.log = shown(&body.log);
        } else if self.report.log != body.log {
            return Err(format!("log: {} in the log {}", shown(&body.log), self.report.log));
        }
        match &self.key {
            Some(key) if body.key != key.id() => {
                Err(format!("key: {} writes this log, not {}", shown(&body.key), key.id()))
            }
            _ => Ok(()),
        }
    }

    fn entry(&mut self, path: &Path, at: u64, record: Record) {
        match record.phase {
            Phase::Whole => {}
            Phase::Start => {
                self.open.insert(record.id, (path.display().to_string(), at));
            }
            Phase::End => {
                if self.open.remove(&record.id).is_none() {
                    self.problem(
                        path,
                        Some(at),
                        format!("id: the end of `{}`, which did not begin", shown(&record.id)),
                    );
                }
            }
        }
    }

    /// Tells of streams without an end.
    fn streams_end(&mut self, path: &Path, at: u64) {
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|(_, (_, line))| *line);
        for (id, (file, line)) in open {
            let what = format!("the stream `{}` has no end before {}:{at}", shown(&id), path.display());
            self.warning(Path::new(&file), Some(line), what);
        }
    }

    fn end(&mut self, path: &Path, at: u64) {
        if !self.report.in_use {
            self.streams_end(path, at);
        }
        let (log, seq) = (self.report.log.clone(), self.seq);
        let missing: Vec<String> = self
            .anchors
            .iter()
            .filter_map(|anchor| {
                let name = anchor.path.display();
                if !log.is_empty() && anchor.log != log {
                    return Some(format!("the log {log} is not that of {name}, which is {}", shown(&anchor.log)));
                }
                (!anchor.is_met).then(|| {
                    format!(
                        "the log ends before line {} of {name}, which has {seq}: its end was removed, or this is an old copy",
                        anchor.seq
                    )
                })
            })
            .collect();
        for what in missing {
            self.problem(path, Some(at), what);
        }
        self.report.closed = self.last_kind == Some((Kind::Checkpoint, Some(Why::Close)));
        if !self.report.closed && !self.report.in_use {
            let unsigned = self.report.unsigned;
            self.warning(
                path,
                Some(at),
                format!("not closed; the last {unsigned} lines have no signature behind them"),
            );
        }
        if self.report.key_from == KeySource::Log {
            let folder = self.folder.clone();
            let what = "signatures were checked with the key that the log itself names; give a key or an anchor that was kept elsewhere";
            self.warning(&folder, None, what);
        }
    }
}
