//! Error type of this crate: the kind of the failure, the model, file or setting concerned, and a hint.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::short_name_table;

/// Error with the model, file or setting that it is about.
///
/// ```
/// let error = "hf:tiny".parse::<leyden_hub::Reference>().unwrap_err();
/// assert_eq!(error.to_string(), "hf:tiny: not a reference to a model on the hub: no `/` between organisation and repository");
/// assert!(error.hint().unwrap().starts_with("write hf:ORG/REPO or hf:ORG/REPO:FILE"));
/// ```
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
    at: Box<str>,
}

/// Kind of an [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Text is not the name of a model on the hub.
    #[error("not a reference to a model on the hub: {0}")]
    Reference(&'static str),
    /// Text cannot become the name of a model.
    #[error("this cannot be a model's name: {0}")]
    Name(&'static str),
    /// Environment variable has an invalid value.
    #[error("{0}")]
    Setting(String),
    /// Network is needed but not allowed.
    #[error("not in the store, and the network may not be used")]
    Offline,
    /// Hub requires authentication: 401.
    #[error(
        "the hub has no such model, or shows it to its owners only (401; {}){}",
        if *.token { "the token is not accepted" } else { "no token was sent" },
        Said(.said)
    )]
    Unauthorized {
        /// True if a token was sent.
        token: bool,
        /// Message of the hub, if any.
        said: Option<String>,
    },
    /// Hub denies access to this account: 403, or a gated repository.
    #[error("the hub refuses access (403){}", Said(.said))]
    Forbidden {
        /// True if a token was sent.
        token: bool,
        /// Message of the hub, if any.
        said: Option<String>,
    },
    /// Repository, revision or file does not exist: 404.
    #[error("{what} on the hub (404)")]
    NotFound {
        /// Part of the reference that does not exist.
        what: Missing,
        /// True if a token was sent.
        token: bool,
    },
    /// Too many requests: 429.
    #[error("too many requests, the hub says (429){}", Wait(*.wait))]
    RateLimited {
        /// Time to wait, if the hub says so.
        wait: Option<Duration>,
    },
    /// Server failed or answered with an unexpected status.
    #[error("{} answered with status {status}{}", Shown(.host), Said(.said))]
    Status {
        /// Status code.
        status: u16,
        /// Host that answered.
        host: String,
        /// Message of the host, if any.
        said: Option<String>,
    },
    /// Connection failed or broke.
    #[error("connection to {}: {}", Shown(.host), Shown(.why))]
    Connection {
        /// Host.
        host: String,
        /// Reason.
        why: String,
    },
    /// Host is unreachable: no network, or no such host.
    #[error("cannot reach {}: {}", Shown(.host), Shown(.why))]
    Unreachable {
        /// Host.
        host: String,
        /// Reason.
        why: String,
    },
    /// Host did not answer in time.
    #[error("{}: no {what} in time", Shown(.host))]
    Timeout {
        /// Host.
        host: String,
        /// Part of the response that was awaited.
        what: &'static str,
    },
    /// Connection could not be encrypted.
    #[error("no secure connection to {}: {}", Shown(.host), Shown(.why))]
    Tls {
        /// Host.
        host: String,
        /// Reason.
        why: String,
    },
    /// This processor lacks instructions that encrypted connections need.
    #[error("encrypted connections need processor features missing here: {}", .0.join(", "))]
    Processor(Vec<&'static str>),
    /// No certificate authority is known, so no server can be verified.
    #[error("this system has no certificates of authorities to check servers with{}", Shown(.0))]
    NoRootCertificates(String),
    /// Redirect is not allowed.
    #[error("redirected to {}: {why}", Shown(.to))]
    Redirect {
        /// Target of the redirect.
        to: String,
        /// Reason.
        why: &'static str,
    },
    /// Hub's response does not follow its interface.
    #[error("the hub's answer makes no sense: {}", Shown(.0))]
    Protocol(String),
    /// Response is too large.
    #[error("the hub's answer is longer than {limit} bytes")]
    TooLarge {
        /// Maximum number of bytes read.
        limit: u64,
    },
    /// Name must not become a path.
    #[error("the name `{}` is not accepted: {why}", Shown(.name))]
    UnsafeName {
        /// Name.
        name: String,
        /// Reason.
        why: &'static str,
    },
    /// Several files fit.
    #[error("several models fit:{}", Candidates(.candidates))]
    Ambiguous {
        /// Candidates, as they can be written after the colon, and their sizes in bytes.
        candidates: Vec<(String, u64)>,
    },
    /// No file fits.
    #[error("no such file in this repository; it has:{}", Candidates(.candidates))]
    NoMatch {
        /// Files of the repository, and their sizes in bytes.
        candidates: Vec<(String, u64)>,
    },
    /// Repository has no model that leyden can run.
    #[error("{0}")]
    NoModel(String),
    /// Hub states no checksum, so the content could not be verified.
    #[error("the hub states no checksum for this file")]
    NoChecksum,
    /// File has the wrong length.
    #[error("wrong length: the hub lists {wanted} bytes, the server has {found}")]
    Length {
        /// Length listed by the hub.
        wanted: u64,
        /// Actual length.
        found: u64,
    },
    /// File has the wrong content.
    #[error("wrong content: the hub lists checksum {wanted}, the file has {found}")]
    Checksum {
        /// Checksum listed by the hub.
        wanted: String,
        /// Actual checksum.
        found: String,
    },
    /// Disk has too little space.
    #[error("not enough space: {needed} bytes are to come, {free} are free")]
    DiskSpace {
        /// Number of bytes still to download.
        needed: u64,
        /// Number of free bytes.
        free: u64,
    },
    /// File operation failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// Operation, for example `create`.
        action: &'static str,
        /// Reason.
        source: io::Error,
    },
    /// Record of the store is malformed.
    #[error("the store's record is damaged: {}", Shown(.0))]
    Record(String),
    /// Another process or thread changes the repository's folder.
    #[error("a download of this repository is at work")]
    Busy,
    /// Stopped by the user; downloaded data is kept.
    #[error("stopped")]
    Stopped,
    /// Neither a file nor a model in the store.
    #[error("{}", if *.path_too { "no such file, and no such model in the store" } else { "no such model in the store" })]
    NoSuchModel {
        /// True if the name could also have been a path.
        path_too: bool,
    },
    /// A reference to the hub whose model is not in the store.
    #[error("not in the store")]
    NotPulled,
    /// Model in the store lacks files, or they have the wrong length.
    #[error("{0}")]
    Damaged(String),
}

/// Part of a reference that the hub does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Repository.
    Repository,
    /// Branch, tag or commit.
    Revision,
    /// File.
    File,
    /// One of these; the hub does not say which.
    Unknown,
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(at: impl Into<String>, kind: ErrorKind) -> Self {
        Self { kind: Box::new(kind), at: at.into().into_boxed_str() }
    }

    /// Returns a conversion for `map_err` on file operations.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let at: PathBuf = path.to_owned();
        move |source| Self::new(at.display().to_string(), ErrorKind::Io { action, source })
    }

    /// Sets the model, file or setting that the error is about, unless it is set already.
    pub(crate) fn or_at(mut self, at: &str) -> Self {
        if self.at.is_empty() {
            self.at = at.into();
        }
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Returns the model, file or setting that the error is about.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Returns true if the command itself is wrong, as opposed to an operation that failed.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(*self.kind, ErrorKind::Reference(_) | ErrorKind::Name(_) | ErrorKind::Setting(_))
    }

    /// Returns true if a retry may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match &*self.kind {
            ErrorKind::Connection { .. }
            | ErrorKind::Unreachable { .. }
            | ErrorKind::Timeout { .. }
            | ErrorKind::RateLimited { .. } => true,
            ErrorKind::Status { status, .. } => matches!(status, 408 | 500 | 502..=504),
            _ => false,
        }
    }

    /// Returns true if the host is unreachable, which waiting does not change soon.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(&*self.kind, ErrorKind::Unreachable { .. })
    }

    /// Returns a hint about what to do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match &*self.kind {
            ErrorKind::Reference(_) => {
                "write hf:ORG/REPO or hf:ORG/REPO:FILE, or one of the short names that leyden models lists"
            }
            ErrorKind::Name(_) => "a name is such as my-model, my-model:v2 or me/my-model",
            ErrorKind::Offline => {
                "leave out --offline and unset LEYDEN_OFFLINE and HF_HUB_OFFLINE to use the network"
            }
            ErrorKind::Unauthorized { token: false, .. } => {
                "check the name; if the model is private or gated, set HF_TOKEN to an access token of the hub"
            }
            ErrorKind::Unauthorized { token: true, .. } => {
                "check the name; if it is right, the token in HF_TOKEN or in the hub's token file is not accepted"
            }
            ErrorKind::Forbidden { token: false, .. } => {
                "accept the model's conditions on its page, then set HF_TOKEN to an access token of the hub"
            }
            ErrorKind::Forbidden { token: true, .. } => {
                "accept the model's conditions on its page with the account that the token belongs to"
            }
            ErrorKind::NotFound { what: Missing::Revision, .. } => {
                "without --revision the branch `main` is taken"
            }
            ErrorKind::NotFound { token: false, .. } => "check the name; a private model needs HF_TOKEN",
            ErrorKind::NotFound { token: true, .. } => {
                "check the name, and that the token may read this model"
            }
            ErrorKind::RateLimited { .. } => {
                "wait a little, then run the same command; it goes on where it stopped"
            }
            ErrorKind::Unreachable { .. } => {
                "is there a network, or a proxy to name in HTTPS_PROXY? a model that is here already runs by its name or path"
            }
            ErrorKind::Status { status: 500.., .. }
            | ErrorKind::Connection { .. }
            | ErrorKind::Timeout { .. } => "run the same command again; it goes on where it stopped",
            ErrorKind::Tls { .. } => {
                "if a proxy of your network re-encrypts traffic, put its certificate in SSL_CERT_FILE"
            }
            ErrorKind::Processor(_) => "get the file on another machine and copy it; a path works everywhere",
            ErrorKind::NoRootCertificates(_) => {
                "install the system's package of certificates (ca-certificates), or set SSL_CERT_FILE"
            }
            ErrorKind::Ambiguous { .. } => {
                "name one of them; of a reference it stands after the colon: hf:ORG/REPO:FILE"
            }
            ErrorKind::Busy => "let it finish or stop it first",
            ErrorKind::Length { .. } | ErrorKind::Checksum { .. } => {
                "nothing was kept under the model's name; run the command again, and if it fails again, tell the \
                 owner of the model or of the mirror"
            }
            ErrorKind::DiskSpace { .. } => "free some space, or put the store elsewhere with LEYDEN_MODELS",
            ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space, or put the store elsewhere with LEYDEN_MODELS"
            }
            ErrorKind::Record(_) => {
                "leyden pull makes the record anew; leyden rm ORG/REPO removes everything of it"
            }
            ErrorKind::NoSuchModel { path_too: true } => {
                let near = short_name_table::near(&self.at);
                let near = near.map_or(String::new(), |name| format!("did you mean {name}? "));
                let rest = "leyden models lists short names, leyden list what was pulled, and leyden pull \
                            hf:ORG/REPO gets a model; if it is a file, check the path";
                return Some(near + rest);
            }
            ErrorKind::NoSuchModel { path_too: false } => "leyden list shows what is in the store",
            ErrorKind::NotPulled | ErrorKind::Damaged(_) => return Some(format!("leyden pull {}", self.at)),
            _ => return None,
        };
        Some(text.to_owned())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", Shown(&self.at))?;
        }
        self.kind.fmt(f)
    }
}

/// Text from outside, made safe for a terminal and a log line: control and bidirectional characters are escaped and
/// long text is cut.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 300;
        let mut chars = self.0.chars();
        for c in chars.by_ref().take(MOST) {
            match c {
                '\'' | '"' | '\\' => write!(f, "{c}")?,
                c => write!(f, "{}", c.escape_debug())?,
            }
        }
        if chars.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Message of a server in quotation marks.
struct Said<'a>(&'a Option<String>);

impl Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, ": \"{}\"", Shown(text)),
            None => Ok(()),
        }
    }
}

/// Time that the hub asks to wait.
struct Wait(Option<Duration>);

impl Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(wait) => write!(f, "; it asks to wait {} s", wait.as_secs()),
            None => Ok(()),
        }
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Repository => "no such repository",
            Missing::Revision => "no such revision",
            Missing::File => "no such file",
            Missing::Unknown => "no such repository, revision or file",
        })
    }
}

/// List with one line for each of the first few candidates.
struct Candidates<'a>(&'a [(String, u64)]);

impl Display for Candidates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 40;
        for (name, size) in self.0.iter().take(MOST) {
            write!(f, "\n  {} ({:.2} GB)", Shown(name), *size as f64 / 1e9)?;
        }
        match self.0.len() {
            0 => f.write_str(" nothing that leyden could run"),
            n if n > MOST => write!(f, "\n  and {} more", n - MOST),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_escapes_and_cuts_what_comes_from_outside() {
        let said = Some(format!("a\u{1b}[31m\u{202e}{}", "x".repeat(100_000)));
        let error = Error::new("hf:a/b", ErrorKind::Status { status: 500, host: "h".into(), said });
        let text = error.to_string();
        assert!(text.starts_with("hf:a/b: h answered with status 500: \"a\\u{1b}[31m\\u{202e}xxx"), "{text}");
        assert!(text.len() < 500);
    }

    #[test]
    fn long_lists_are_cut() {
        let candidates = (0..50).map(|i| (format!("m{i}.gguf"), 1 << 30)).collect();
        let text = Error::new("hf:a/b", ErrorKind::Ambiguous { candidates }).to_string();
        assert!(text.contains("\n  m39.gguf (1.07 GB)") && text.ends_with("\n  and 10 more"), "{text}");
    }
}
