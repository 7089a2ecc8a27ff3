//! [`Which`]: the service that a command is about.

use super::systemd::Manager;

/// Service that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Which {
    /// Service of the user who runs the command
    #[arg(long, conflicts_with = "system")]
    pub(super) user: bool,
    /// Service of the machine
    #[arg(long)]
    pub(super) system: bool,
    /// Name of the service
    #[arg(long, value_name = "NAME", default_value = "leyden", value_parser = name)]
    pub(super) name: String,
}

impl Which {
    /// Returns the manager with this service.
    pub(super) fn manager(&self) -> Manager {
        let is_user = self.user || (!self.system && !rustix::process::geteuid().is_root());
        Manager { is_user }
    }

    /// Returns the name of the unit.
    pub(super) fn unit(&self) -> String {
        format!("{}.service", self.name)
    }
}

/// Checks the name of a service.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || text.len() > 64 || text.starts_with('-') || !text.chars().all(is_plain) {
        return Err("want up to 64 letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}
