//! [`fetch_header`]: sizes of a model on the hub, without its weights.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::error::{Error, ErrorKind, Result};
use crate::events::Event;
use crate::listing::{self, Listed};
use crate::model::Format;
use crate::names;
use crate::reference::Reference;
use crate::select::{self, Selection};

/// Bytes of a GGUF file after which its header is tried first; each next try has twice as many.
const FIRST_BYTES: usize = 1 << 20;
/// Maximum number of bytes of a header. The largest vocabularies take some 40 MB.
const MAX_HEADER_BYTES: usize = 256 << 20;
/// Maximum number of bytes of `config.json`.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
const CONFIG: &str = "config.json";
/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// Beginning of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Header {
    /// GGUF file, or first part of a split one: its header, and zeros in place of the weights. The zeros take no space
    /// on most file systems.
    Gguf(PathBuf),
    /// `config.json` of a model in other files.
    Config(PathBuf),
}

/// Downloads a model's header into `folder`: of a GGUF file the bytes before the weights, of other files `config.json`.
/// Files are chosen as by [`pull`](crate::pull). `is_whole` says whether some first bytes of a GGUF file contain the
/// whole header, or can never do so. Nothing is written to the store.
///
/// # Errors
/// If the network, the hub or the disk fails, the client is offline, a [`Stopper`](crate::Stopper) ends the download, or
/// a header is longer than 256 MiB.
pub fn fetch_header(
    client: &Client,
    reference: &Reference,
    folder: &Path,
    is_whole: &mut dyn FnMut(&[u8]) -> bool,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Header> {
    let at = reference.to_string();
    if client.options().offline {
        return Err(Error::new(at, ErrorKind::Offline));
    }
    let mut fetch = || -> Result<Header> {
        let listing = client.retrying(&mut |error, wait| on(Event::Retry { error, wait }), || {
            listing::fetch(client, reference)
        })?;
        let address = |file: &str| {
            let path = names::percent_encoded(file, true);
            format!("/{}/resolve/{}/{path}", reference.repo(), listing.commit)
        };
        let Selection { format, files, main, chosen_of } =
            select::select(&listing.files, reference.file()).map_err(|kind| Error::new(at.as_str(), kind))?;
        if format != Format::Gguf {
            let bytes = client.retrying(&mut |error, wait| on(Event::Retry { error, wait }), || {
                client.document(&address(CONFIG), MAX_CONFIG_BYTES)
            })?;
            let path = folder.join(CONFIG);
            write(&path, &bytes, bytes.len() as u64)?;
            return Ok(Header::Config(path));
        }
        if let (Some(file), 2..) = (&main, chosen_of) {
            on(Event::Chosen { file, of: chosen_of });
        }
        let mut paths = Vec::new();
        for Listed { path, size, .. } in &files {
            let name = path.rsplit('/').next().unwrap_or_default();
            names::check_file(name)
                .map_err(|why| Error::new(at.as_str(), ErrorKind::UnsafeName { name: path.clone(), why }))?;
            let bytes = client.retrying(&mut |error, wait| on(Event::Retry { error, wait }), || {
                first_bytes(client, &address(path), *size, is_whole)
            })?;
            let place = folder.join(name);
            write(&place, &bytes, *size)?;
            paths.push(place);
        }
        let first = paths.into_iter().next();
        first
            .map(Header::Gguf)
            .ok_or_else(|| Error::new(at.as_str(), ErrorKind::NoModel("no files".to_owned())))
    };
    fetch().map_err(|error| error.or_at(&at))
}

/// Reads a file of `size` bytes from its beginning until `is_whole`, or to its end.
fn first_bytes(
    client: &Client,
    address: &str,
    size: u64,
    is_whole: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<Vec<u8>> {
    let mut answer = client.get(address, 0)?;
    if answer.status != 200 {
        let what = format!("status {} for a file", answer.status);
        return Err(Error::new("", ErrorKind::Protocol(what)));
    }
    let (mut bytes, mut buffer, mut next) = (Vec::new(), vec![0; CHUNK], FIRST_BYTES);
    loop {
        let n = answer.body.read(&mut buffer)?;
        if bytes.len() as u64 + n as u64 > size {
            return Err(Error::new("", ErrorKind::Protocol(format!("more than the listed {size} bytes"))));
        }
        bytes.extend_from_slice(&buffer[..n]);
        if n == 0 {
            return Ok(bytes);
        }
        if bytes.len() >= next {
            if is_whole(&bytes) {
                return Ok(bytes);
            }
            if bytes.len() >= MAX_HEADER_BYTES {
                return Err(Error::new("", ErrorKind::TooLarge { limit: MAX_HEADER_BYTES as u64 }));
            }
            next = bytes.len().saturating_mul(2).min(MAX_HEADER_BYTES);
        }
        client.check_stopped()?;
    }
}

/// Writes a file of `size` bytes, zeros after `bytes`.
fn write(path: &Path, bytes: &[u8], size: u64) -> Result<()> {
    let mut file = File::create(path).map_err(Error::io("create", path))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.set_len(size).map_err(Error::io("write", path))
}
