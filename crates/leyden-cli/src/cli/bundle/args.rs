//! Arguments of `leyden bundle`.

use std::path::PathBuf;

use crate::cli::notes::Notes;

/// Writes models, this program, their evidence, licences and a list of all components into one signed file, for machines
/// without a network. There, `leyden bundle install` verifies it and adds the models to the store. README.txt in the file says
/// how to verify it the first time, with common tools alone.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "leyden bundle [OPTIONS] <MODEL>... -o <FILE>\n       leyden bundle verify [OPTIONS] <FILE>\n       \
    leyden bundle install [OPTIONS] <FILE>",
    after_help = "Examples:\n  leyden bundle smollm2:135m intents=./banking77 -o room.tar\n  \
    leyden bundle verify room.tar --key sender.pub\n  leyden bundle install room.tar --key sender.pub"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    #[command(flatten)]
    pub(super) create: Create,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Verify a bundle: signature and every byte
    Verify(Verify),
    /// Verify a bundle, and add its models to the store
    Install(Install),
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Models: names of pulled models, files or folders; NAME=PATH gives a file or folder another name than its own
    #[arg(value_name = "MODEL")]
    pub(super) models: Vec<PathBuf>,
    /// File for the bundle, such as room.tar
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Program to put into it, such as one for another machine; by default this one
    #[arg(long, value_name = "FILE")]
    pub(super) program: Option<PathBuf>,
    /// Evidence of leyden verify about one of the models, besides MODEL.evidence.json beside a model; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) evidence: Vec<PathBuf>,
    /// Calibration of leyden calibrate, besides MODEL.calibration.json beside a model; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Vec<PathBuf>,
    /// Licence text of a model, besides files such as LICENSE beside it; may be repeated
    #[arg(long, visible_alias = "license", value_name = "FILE")]
    pub(super) licence: Vec<PathBuf>,
    /// Key that signs; by default leyden/verify.key in the user's configuration folder, made when it is first needed
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Days until a key that is made now expires
    #[arg(long, value_name = "DAYS", default_value_t = leyden_verify::DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(super) key_days: u32,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
}

/// Key that is trusted.
#[derive(Debug, clap::Args)]
pub(super) struct Trust {
    /// Key of the sender: a .pub file of leyden verify, or its 64 hexadecimal digits; by default leyden/verify.key in the
    /// user's configuration folder
    #[arg(long, value_name = "KEY", conflicts_with = "any_key")]
    pub(super) key: Option<String>,
    /// Accept any key: finds damage, but does not tell who made the bundle
    #[arg(long)]
    pub(super) any_key: bool,
}

/// Compares signature, checksums and every other byte. The first entry that is damaged, missing, in excess or doubled is an
/// error that names it. Memory use does not depend on the size.
#[derive(Debug, clap::Args)]
pub(super) struct Verify {
    /// Bundle, or the folder into which it was unpacked
    #[arg(value_name = "FILE")]
    pub(super) bundle: PathBuf,
    #[command(flatten)]
    pub(super) trust: Trust,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Verifies everything before any of it is visible, then adds the models to the store under their names, and puts the
/// program into DIR/bin and the other files into DIR/share/leyden/bundles. Uses no network.
#[derive(Debug, clap::Args)]
pub(super) struct Install {
    /// Bundle
    #[arg(value_name = "FILE")]
    pub(super) bundle: PathBuf,
    #[command(flatten)]
    pub(super) trust: Trust,
    /// Folder for the program and papers; by default .local in the user's home
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Replace models of the same names and the program, where they differ
    #[arg(long)]
    pub(super) replace: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
}
