//! `leyden service`: a server that systemd starts and keeps running.

mod install;
mod status;
mod systemd;
mod unit;
mod which;
mod words;

use std::ffi::OsString;
use std::io::Write;

use super::failure::Failure;
use which::Which;

/// Linux with systemd. A service of a user starts with the user's first login, or with the machine after
/// `loginctl enable-linger`; a service of the system starts with the machine, runs under a user of its own, and sees no
/// home folders. By default it is the system's for root, and the user's for anybody else.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  leyden service install smollm2 --port 8080
  leyden service logs --follow
  leyden service install --system /srv/models/m.gguf --api-keys keys.jsonl")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write a unit for `leyden serve` with these models and options, and start it
    Install(InstallArgs),
    /// Show whether the service runs
    Status(status::Args),
    /// Show the service's log
    Logs(LogArgs),
    /// Start the service
    Start(Which),
    /// Stop the service; answers that run are finished first
    Stop(Which),
    /// Stop the service and remove its unit; models stay
    Uninstall(Which),
}

/// Models and options of `leyden serve`, with those of the service anywhere between them.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "leyden service install [--user|--system] [--name NAME] [--dry-run] [MODEL]... [SERVE OPTIONS]"
)]
struct InstallArgs {
    /// Models and options of `leyden serve`; --user, --system, --name NAME, and --dry-run, which prints the unit and
    /// changes nothing
    #[arg(value_name = "MODEL or OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct LogArgs {
    #[command(flatten)]
    which: Which,
    /// Wait for further lines
    #[arg(long, short)]
    follow: bool,
    /// Number of lines
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: u32,
}

/// Runs the action.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let control = |which: &Which, verb: &str| which.manager().run(&[verb, &which.unit()]).map(drop);
    match &args.action {
        Action::Install(args) => install::execute(args.words.clone(), out),
        Action::Status(args) => status::execute(args, out),
        Action::Start(which) => control(which, "start"),
        Action::Stop(which) => control(which, "stop"),
        Action::Uninstall(which) => install::remove(which),
        Action::Logs(args) => {
            let (lines, unit) = (args.lines.to_string(), args.which.unit());
            let mut words =
                vec!["--unit", &unit[..], "--lines", &lines, "--output", "short-iso", "--no-pager"];
            words.extend(args.follow.then_some("--follow"));
            args.which.manager().show_log(&words)
        }
    }
}
