//! Arguments of `leyden run`.

use std::ffi::OsString;
use std::path::PathBuf;

use leyden::KvType;

use super::constraint::Constraining;
use super::sampling::Sampling;
use super::think::Think;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::lora::Lora;
use crate::cli::notes::Notes;
use crate::cli::obtain::Hub;
use crate::cli::packs::Packs;

/// With a PROMPT, or with text piped to it, answers once; otherwise holds a conversation.
///
/// MODEL is a file or folder, the name of a pulled model, a short name (`leyden models` lists them) or ORG/REPO[:FILE] on
/// the hub; what is not here is pulled. Without MODEL the storyteller inside this program answers, a toy, and a PROMPT is
/// then several words between quotes. Text from standard input and from --file goes before the PROMPT. The prompt goes
/// through the model's chat template, if it has one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a file, a folder, a name, or ORG/REPO[:FILE]
    #[arg(value_name = "MODEL")]
    pub(super) first: Option<OsString>,
    /// Prompt; several words need no quotes behind a MODEL
    #[arg(value_name = "PROMPT")]
    pub(super) rest: Vec<OsString>,
    /// Model, as an option
    #[arg(long, short, value_name = "M")]
    pub(super) model: Option<PathBuf>,
    /// Model of the hub (also `-hf`)
    #[arg(long, visible_alias = "hf-repo", value_name = "ORG/REPO[:FILE]", conflicts_with = "model")]
    pub(super) hf: Option<String>,
    #[command(flatten)]
    pub(super) hub: Hub,
    /// Prompt, as an option
    #[arg(long, short, value_name = "P")]
    pub(super) prompt: Option<String>,
    /// Text that goes before the prompt; `-` is standard input. May be repeated
    #[arg(long, short, value_name = "FILE")]
    pub(super) file: Vec<PathBuf>,
    /// Instruction to the model that precedes the conversation (also `-sys`)
    #[arg(long, visible_alias = "system-prompt", value_name = "TEXT", conflicts_with = "raw")]
    pub(super) system: Option<String>,
    /// Amount of reasoning before the answer, for a model that can reason
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "on", conflicts_with = "raw")]
    pub(super) think: Option<Think>,
    /// Go on with a conversation that was kept: the newest, or the one of this name (`leyden chats` lists them)
    #[arg(long, value_name = "CHAT", num_args = 0..=1, default_missing_value = "", conflicts_with = "raw")]
    pub(super) resume: Option<String>,
    /// In a conversation, drop the oldest turns when the context is full, until a quarter of it is free
    #[arg(long)]
    pub(super) trim: bool,
    /// Tell times, speeds and memory: behind an answer, and in a conversation behind each
    #[arg(long)]
    pub(super) verbose: bool,
    /// Show answers as the model writes them: draw no Markdown, break no lines (also `--no-wordwrap`)
    #[arg(long, aliases = ["nowordwrap", "no-wordwrap"])]
    pub(super) plain: bool,
    /// Continue the prompt as it is, without the chat template
    #[arg(long)]
    pub(super) raw: bool,
    /// Let special tokens such as `<|im_end|>` that a message spells out be such; otherwise they are text, and only the
    /// chat template writes them
    #[arg(long, conflicts_with = "raw")]
    pub(super) special_in_content: bool,
    /// TokenLimit tokens to generate; -1, as by default, until the model ends or the context is full
    #[arg(short = 'n', long = "max-tokens", visible_aliases = ["n-predict", "predict"], value_name = "N", value_parser = max_tokens, allow_negative_numbers = true)]
    pub(super) max_tokens: Option<TokenLimit>,
    /// Threads to generate with; by default one per physical core that may be used
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    /// Threads to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "T")]
    pub(super) threads_batch: Option<usize>,
    /// Longest text in tokens, prompt and answer together; 0, as by default, for what the model was made for
    #[arg(long, short, visible_aliases = ["ctx-size", "num-ctx"], value_name = "N")]
    pub(super) ctx: Option<usize>,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) lora: Lora,
    #[command(flatten)]
    pub(super) packs: Packs,
    /// Print one JSON object instead of the text; errors are JSON too
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
    #[command(flatten)]
    pub(super) constraint: Constraining,
    // Last, because its heading in the help holds for everything after it.
    #[command(flatten)]
    pub(super) sampling: Box<Sampling>,
}

/// Limit of tokens, if any.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenLimit(pub(super) Option<usize>);

/// Parses a limit of tokens. -1 means none; llama.cpp's -2, the end of the context, is the same.
pub(super) fn max_tokens(text: &str) -> Result<TokenLimit, String> {
    match text.parse::<i64>() {
        Ok(-2 | -1) => Ok(TokenLimit(None)),
        Ok(n) => usize::try_from(n).map(|n| TokenLimit(Some(n))).map_err(|_| format!("{n} is below -1")),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the name of a type of keys and values.
pub(in crate::cli) fn kv_type(name: &str) -> Result<KvType, String> {
    let known = KvType::ALL.map(KvType::name).join(", ");
    KvType::from_name(name).ok_or_else(|| format!("no such type; known: {known}"))
}
