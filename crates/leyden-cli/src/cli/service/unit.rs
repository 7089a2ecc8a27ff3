//! Text of a unit: the command, and what the service may not do.
//!
//! A service of the system runs under a user that exists while it runs, sees the machine's files read-only and no home folders,
//! and writes below /var/lib/NAME and /var/cache/NAME alone. The manager of a user cannot hide files; its services are limited
//! in calls of the kernel.

use std::fmt::Write;
use std::path::PathBuf;

/// First words of a unit, by which later commands know it.
pub(super) const MARK: &str = "# Written by `leyden service install`";

/// Limits that need no rights.
const OF_ALL: &str = "NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
UMask=0077
";

/// Limits that the system's manager sets.
const OF_SYSTEM: &str = "DynamicUser=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
CapabilityBoundingSet=
";

/// A unit.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) is_user: bool,
    /// Words of the command: the program, `serve`, its models and options.
    pub(super) command: Vec<String>,
    /// Files that only root may read, with the names under which the service finds them.
    pub(super) credentials: Vec<(String, PathBuf)>,
    /// Variables of the environment.
    pub(super) variables: Vec<(String, String)>,
    /// Time in seconds in which answers end after SIGTERM.
    pub(super) stop_seconds: u64,
}

impl Unit {
    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let name = &self.name;
        let command: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        let mut text = format!(
            "{MARK}; `leyden service uninstall` removes it.\n[Unit]\nDescription=Language models over HTTP ({name})\n\
             After=network.target\n\n[Service]\nType=exec\nExecStart={}\n",
            command.join(" ")
        );
        // Writing to a text does not fail.
        for (credential, path) in &self.credentials {
            let _ = writeln!(
                text,
                "LoadCredential={credential}:{}",
                path.display().to_string().replace('%', "%%")
            );
        }
        for (variable, value) in &self.variables {
            let _ =
                writeln!(text, "Environment={}", quoted(&format!("{variable}={value}")).replace("$$", "$"));
        }
        let _ = write!(
            text,
            "# SIGTERM lets running answers finish, for --lame-duck and --drain-timeout.\n\
             KillSignal=SIGTERM\nTimeoutStopSec={}\nRestart=on-failure\nRestartSec=2\nMemoryMax=90%\nLimitNOFILE=8192\nTasksMax=1024\n\n",
            self.stop_seconds
        );
        if !self.is_user {
            let _ = write!(
                text,
                "StateDirectory={name}\nCacheDirectory={name}\n\
                 Environment=HOME=/var/lib/{name} XDG_CACHE_HOME=/var/cache/{name}\n{OF_SYSTEM}"
            );
        }
        let wanted = if self.is_user { "default.target" } else { "multi-user.target" };
        let _ = write!(text, "{OF_ALL}\n[Install]\nWantedBy={wanted}\n");
        text
    }
}

/// Returns a word of a command as systemd reads it: between quotes if need be, without specifiers and variables. The folder of
/// credentials, `%d/…`, is a specifier.
fn quoted(word: &str) -> String {
    let escaped = word.replace('%', "%%").replace('$', "$$").replace(CREDENTIALS, "%d/");
    let is_plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | ';');
    if !word.is_empty() && escaped.chars().all(is_plain) {
        return escaped;
    }
    let mut quoted = String::from("\"");
    for c in escaped.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Text in the place of the folder of credentials; no word of a command line can have it.
pub(super) const CREDENTIALS: &str = "\0credentials/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_systemd() {
        for (word, wanted) in [
            ("--port", "--port"),
            ("/a b/c", "\"/a b/c\""),
            ("100%", "100%%"),
            ("$HOME", "$$HOME"),
            ("a\"b\\", "\"a\\\"b\\\\\""),
            ("", "\"\""),
            ("\0credentials/keys", "%d/keys"),
        ] {
            assert_eq!(quoted(word), wanted, "{word:?}");
        }
    }
}
