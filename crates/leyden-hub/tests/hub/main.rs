//! Pulls from a hub on the loopback interface: correct ones, over bad connections, and from misbehaving hubs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![forbid(unsafe_code)]

mod connections;
mod header;
mod hostile;
mod pulling;
mod refusals;
mod secure;
mod server;
mod storing;

use std::path::Path;
use std::time::Duration;

use leyden_hub::{Client, Error, Event, Options, Pulled, Retries, Store, Timeouts, Token, pull};
use tempfile::TempDir;

/// Returns options with short waits. The timeouts of a response are long enough for a busy machine.
pub(crate) fn options(endpoint: &str) -> Options {
    Options {
        endpoint: endpoint.to_owned(),
        token: Some(Token::new("hf_secret").unwrap()),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(5),
            stall: Duration::from_secs(5),
            answer: Duration::from_secs(10),
        },
        retries: Retries {
            attempts: 3,
            first_wait: Duration::from_millis(5),
            longest_wait: Duration::from_millis(1500),
        },
        ..Options::default()
    }
}

/// Store in a temporary folder.
pub(crate) struct Shelf {
    folder: TempDir,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn store(&self) -> Store {
        Store::at(self.folder.path().join("models"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn pull(&self, options: &Options, reference: &str) -> Result<Pulled, Error> {
        self.pull_noting(options, reference).0
    }

    /// Pulls and records the events.
    pub(crate) fn pull_noting(
        &self,
        options: &Options,
        reference: &str,
    ) -> (Result<Pulled, Error>, Vec<String>) {
        let client = Client::new(options.clone()).unwrap();
        let mut notes = Vec::new();
        let result = pull(&client, &self.store(), &reference.parse().unwrap(), &mut |event| match event {
            Event::At { .. } => {}
            event => notes.push(format!("{event:?}")),
        });
        (result, notes)
    }

    /// Returns the message and hint of a pull that must fail and leave no model.
    #[track_caller]
    pub(crate) fn refused(&self, options: &Options, reference: &str) -> (String, String) {
        let error = self.pull(options, reference).unwrap_err();
        let contents = self.store().contents().unwrap();
        assert!(contents.models.is_empty() && contents.problems.is_empty(), "{contents:?}");
        (error.to_string(), error.hint().unwrap_or_default())
    }

    /// Returns all files below the folder, as sorted relative paths, without locks.
    pub(crate) fn files(&self) -> Vec<String> {
        fn walk(folder: &Path, root: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, root, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut found = Vec::new();
        walk(self.path(), self.path(), &mut found);
        found.retain(|path| !path.starts_with("models/locks/"));
        found.sort();
        found
    }
}

/// Returns bytes without a pattern, so that a shift or a repetition is detected.
pub(crate) fn content(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}
