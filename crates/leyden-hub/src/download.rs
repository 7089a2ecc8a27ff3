//! Download of one file from the hub into a partial file: resumed, counted and hashed on the way.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::{Answer, Client};
use crate::digest::{self, CHUNK, Digest, Hasher};
use crate::durable;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::options::{PROGRESS, SLOWEST};

/// File to download.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Path at the endpoint.
    pub(crate) address: String,
    /// Path of the file in the repository.
    pub(crate) path: &'a str,
    pub(crate) size: u64,
    pub(crate) digest: Option<Digest>,
}

/// File being downloaded: the bytes on the disk and the hashed bytes are always the same.
struct Arriving<'a> {
    file: File,
    path: &'a Path,
    have: u64,
    hasher: Hasher,
    wanted: Digest,
    size: u64,
    /// True if the file was partly downloaded before.
    resumed: bool,
    /// Number of bytes received over the network, discarded ones included.
    received: u64,
}

/// Downloads a file into `partial`, or the rest of it, and returns the SHA-256 and the number of bytes received. The
/// file is flushed and has the length and content that the hub lists; if an error says that it has not, it is removed.
pub(crate) fn download(
    client: &Client,
    job: &Job<'_>,
    partial: &Path,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<(String, u64)> {
    let wanted = job.digest.clone().ok_or_else(|| Error::new(job.path, ErrorKind::NoChecksum))?;
    let mut arriving = Arriving::open(partial, wanted, job.size)?;
    arriving.hash_what_is_there(client, on)?;
    let mut failures = 0;
    // A server that ignores ranges and always breaks at the same place makes no progress.
    let mut farthest = arriving.have;
    loop {
        let result = arriving.fetch(client, job, on);
        if arriving.have.saturating_sub(farthest) >= PROGRESS {
            failures = 0;
            farthest = arriving.have;
        }
        match result {
            Ok(()) => {
                let hashed = arriving.hasher.clone().finish();
                let found = hashed.like(&arriving.wanted);
                if found == arriving.wanted {
                    arriving.file.sync_all().map_err(Error::io("flush", partial))?;
                    return Ok((hashed.sha256, arriving.received));
                }
                if !arriving.resumed {
                    durable::remove_file(partial)?;
                    let (wanted, found) = (arriving.wanted.to_string(), found.to_string());
                    return Err(Error::new(job.path, ErrorKind::Checksum { wanted, found }));
                }
                // The rest of an earlier run may be damaged, for instance by a loss of power.
                on(Event::StartOver { path: job.path });
                arriving.clear()?;
            }
            Err(error) if error.is_passing() => {
                failures += 1;
                let (wait, error) = client.pause(failures, error.or_at(job.path))?;
                on(Event::Retry { error: &error, wait });
                client.wait(wait)?;
            }
            Err(error) => {
                if matches!(error.kind(), ErrorKind::Length { .. } | ErrorKind::Checksum { .. }) {
                    durable::remove_file(partial)?;
                }
                return Err(error.or_at(job.path));
            }
        }
    }
}

impl<'a> Arriving<'a> {
    fn open(path: &'a Path, wanted: Digest, size: u64) -> Result<Self> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io("create", path))?;
        Ok(Self {
            file,
            path,
            have: 0,
            hasher: Hasher::new(&wanted, size),
            wanted,
            size,
            resumed: false,
            received: 0,
        })
    }

    /// Hashes the bytes of an earlier run.
    fn hash_what_is_there(&mut self, client: &Client, on: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let length = self.file.metadata().map_err(Error::io("examine", self.path))?.len();
        if length > self.size {
            return self.clear();
        }
        let mut heard = |bytes| {
            on(Event::At { bytes });
            client.check_stopped()
        };
        self.have = digest::of_file(&mut self.file, self.path, &mut self.hasher, &mut heard)?;
        self.resumed = self.have > 0;
        Ok(())
    }

    /// Discards everything.
    fn clear(&mut self) -> Result<()> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map_err(Error::io("write", self.path))?;
        self.have = 0;
        self.resumed = false;
        self.hasher = Hasher::new(&self.wanted, self.size);
        Ok(())
    }

    /// Requests the rest once. Success means that the length is right.
    fn fetch(&mut self, client: &Client, job: &Job<'_>, on: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        if self.have == self.size && self.size > 0 {
            return Ok(());
        }
        let answer = client.get(&job.address, self.have)?;
        self.agree(&answer)?;
        match answer.status {
            206 => self.check_range(&answer)?,
            // The server ignores ranges, or has fewer bytes than the partial file; in both cases start over.
            200 => self.clear()?,
            _ if self.have > 0 => {
                self.clear()?;
                return self.fetch(client, job, on);
            }
            status => {
                return Err(Error::new("", ErrorKind::Protocol(format!("status {status} for a whole file"))));
            }
        }
        let encoding = answer.headers.get("content-encoding");
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return Err(Error::new("", ErrorKind::Protocol("the file comes compressed, unasked".to_owned())));
        }
        if let Some(length) = number(&answer, "content-length")
            && length != self.size - self.have
        {
            return Err(self.wrong_length(self.have.saturating_add(length)));
        }
        self.receive(client, answer, on)
    }

    fn receive(&mut self, client: &Client, mut answer: Answer, on: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let stall = client.options().timeouts.stall;
        let mut window = (Instant::now(), self.have);
        let mut buffer = vec![0; CHUNK];
        loop {
            client.check_stopped()?;
            let n = answer.body.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            if n as u64 > self.size - self.have {
                return Err(self.wrong_length(self.have.saturating_add(n as u64)));
            }
            self.file.write_all(&buffer[..n]).map_err(Error::io("write", self.path))?;
            self.hasher.update(&buffer[..n]);
            self.have += n as u64;
            self.received += n as u64;
            on(Event::At { bytes: self.have });
            let elapsed = window.0.elapsed();
            if elapsed > stall {
                if too_slow(self.have - window.1, elapsed) && self.have < self.size {
                    let host = answer.body.host().to_owned();
                    return Err(Error::new(
                        "",
                        ErrorKind::Timeout { host, what: "noticeable amount of data" },
                    ));
                }
                window = (Instant::now(), self.have);
            }
        }
        if self.have < self.size {
            let why = format!("ended after {} of {} bytes", self.have, self.size);
            return Err(Error::new("", ErrorKind::Connection { host: answer.body.host().to_owned(), why }));
        }
        Ok(())
    }

    /// Checks that the endpoint's statement about the file matches the listing.
    fn agree(&mut self, answer: &Answer) -> Result<()> {
        let linked = &answer.linked;
        if let Some(size) = linked.size.filter(|size| *size != self.size) {
            return Err(self.wrong_length(size));
        }
        let Some(sha256) = linked.sha256.as_deref().and_then(Digest::sha256) else { return Ok(()) };
        match &self.wanted {
            Digest::Sha256(_) if sha256 == self.wanted => Ok(()),
            Digest::Sha256(_) => {
                let (wanted, found) = (self.wanted.to_string(), sha256.to_string());
                Err(Error::new("", ErrorKind::Checksum { wanted, found }))
            }
            // The listing only knew git's pointer to a file in large-file storage.
            Digest::GitBlob(_) => {
                self.wanted = sha256;
                Ok(())
            }
        }
    }

    fn check_range(&self, answer: &Answer) -> Result<()> {
        let range =
            answer.headers.get("content-range").and_then(|value| value.to_str().ok()).unwrap_or("none");
        let wrong =
            || Error::new("", ErrorKind::Protocol(format!("range `{range}` for bytes {} on", self.have)));
        let (part, total) =
            range.strip_prefix("bytes ").and_then(|range| range.split_once('/')).ok_or_else(wrong)?;
        let (first, _) = part.split_once('-').ok_or_else(wrong)?;
        if first.trim().parse() != Ok(self.have) {
            return Err(wrong());
        }
        match total.trim().parse::<u64>() {
            Ok(total) if total != self.size => Err(self.wrong_length(total)),
            _ => Ok(()),
        }
    }

    fn wrong_length(&self, found: u64) -> Error {
        Error::new("", ErrorKind::Length { wanted: self.size, found })
    }
}

fn number(answer: &Answer, header: &str) -> Option<u64> {
    answer.headers.get(header)?.to_str().ok()?.trim().parse().ok()
}

fn too_slow(bytes: u64, time: Duration) -> bool {
    (bytes as f64) < SLOWEST as f64 * time.as_secs_f64()
}
