//! Options of commands that write an audit log.

use std::path::PathBuf;

use leyden_audit::{AuditLog, Options, Recipient};

use crate::cli::failure::Failure;
use crate::cli::sizes;

/// Options of commands that write an audit log.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct AuditOptions {
    /// Folder of an audit log, in which each answer is recorded before it is given; see docs/audit.md
    #[arg(long, value_name = "DIR")]
    pub(crate) audit: Option<PathBuf>,
    /// File of the key that signs the audit log, made at first use; by default DIR.key, beside the folder
    #[arg(long, value_name = "FILE", requires = "audit")]
    audit_key: Option<PathBuf>,
    /// Keep requests and answers in the audit log, encrypted to this recipient: what `leyden audit keygen` prints, or the
    /// file that it writes with `.pub` at its end
    #[arg(long, value_name = "RECIPIENT", requires = "audit")]
    audit_content: Option<String>,
    /// Size above which the audit log takes no more records, such as 10GiB; then no answers are given
    #[arg(long, value_name = "SIZE", requires = "audit", value_parser = sizes::bytes)]
    audit_max: Option<u64>,
}

impl AuditOptions {
    /// Opens the log; `None` without `--audit`.
    pub(crate) fn open(&self) -> Result<Option<AuditLog>, Failure> {
        let Some(folder) = &self.audit else { return Ok(None) };
        let key = self.audit_key.clone().unwrap_or_else(|| Options::default_key(folder));
        let mut options = Options::new(key, env!("CARGO_PKG_VERSION"));
        let recipient = self.audit_content.as_deref().map(Recipient::read).transpose();
        options.recipient = recipient.map_err(|error| Failure::usage(format!("--audit-content: {error}")))?;
        options.limit_bytes = self.audit_max;
        Ok(Some(AuditLog::open(folder, options)?))
    }
}
