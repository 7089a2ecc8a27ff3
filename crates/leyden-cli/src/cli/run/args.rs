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

/// With a PROMPT or piped text, prints one answer; otherwise starts a conversation. docs/run.md describes both.
///
/// MODEL is a file or folder, the name of a pulled model, a short name (`leyden models` lists them) or ORG/REPO[:FILE]
/// on the hub; missing models are downloaded. Without MODEL, the embedded toy model answers, and PROMPT must be several
/// words in quotes. The message is the text from standard input and --file, then the PROMPT. The model's chat template
/// is applied, if it has one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a name, file or folder, or ORG/REPO[:FILE]
    #[arg(value_name = "MODEL")]
    pub(super) first: Option<OsString>,
    /// Prompt; after a MODEL, several words need no quotes
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
    /// Text file to put before the prompt; `-` is standard input. May be repeated
    #[arg(long, short, value_name = "FILE")]
    pub(super) file: Vec<PathBuf>,
    /// System message (also `-sys`)
    #[arg(long, visible_alias = "system-prompt", value_name = "TEXT", conflicts_with = "raw")]
    pub(super) system: Option<String>,
    /// Amount of reasoning before the answer, for models that support it
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "on", conflicts_with = "raw")]
    pub(super) think: Option<Think>,
    /// Continue a saved conversation: the newest, or the one with this name (`leyden chats` lists them)
    #[arg(long, value_name = "CHAT", num_args = 0..=1, default_missing_value = "", conflicts_with = "raw")]
    pub(super) resume: Option<String>,
    /// In a conversation, drop the oldest turns when less than a quarter of the context is free
    #[arg(long)]
    pub(super) trim: bool,
    /// Print times, speeds and memory after each answer
    #[arg(long)]
    pub(super) verbose: bool,
    /// Print the model's text unchanged: no Markdown formatting, no line wrapping (also `--no-wordwrap`)
    #[arg(long, aliases = ["nowordwrap", "no-wordwrap"])]
    pub(super) plain: bool,
    /// Continue the prompt without the chat template
    #[arg(long)]
    pub(super) raw: bool,
    /// Allow special tokens such as `<|im_end|>` in messages; by default they are plain text in messages
    #[arg(long, conflicts_with = "raw")]
    pub(super) special_in_content: bool,
    /// Maximum number of tokens to generate; -1, the default, until the model ends or the context is full
    #[arg(short = 'n', long = "max-tokens", visible_aliases = ["n-predict", "predict"], value_name = "N", value_parser = max_tokens, allow_negative_numbers = true)]
    pub(super) max_tokens: Option<TokenLimit>,
    /// Number of threads for decode; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    /// Number of threads for prefill (also `-tb`); by default the same as for decode
    #[arg(long, value_name = "T")]
    pub(super) threads_batch: Option<usize>,
    /// Context: maximum of tokens in prompt and answer; 0, the default, for the model's own context
    #[arg(long, short, visible_aliases = ["ctx-size", "num-ctx"], value_name = "N")]
    pub(super) ctx: Option<usize>,
    /// Type of the KV cache: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) lora: Lora,
    /// Draft model: a smaller model with the same vocabulary, which proposes tokens (speculative decoding). The text is
    /// the same without it
    #[arg(long, visible_aliases = ["model-draft", "draft-model"], value_name = "MODEL")]
    pub(super) draft: Option<PathBuf>,
    /// Do not propose tokens, neither by a draft model nor from repetitions in the text
    #[arg(long, conflicts_with = "draft")]
    pub(super) no_speculation: bool,
    #[command(flatten)]
    pub(super) packs: Packs,
    /// Print one JSON object instead of the text; errors are JSON, too
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
    #[command(flatten)]
    pub(super) constraint: Constraining,
    // Last, because its help heading applies to all options after it.
    #[command(flatten)]
    pub(super) sampling: Box<Sampling>,
}

/// Maximum of tokens; `None` for no limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenLimit(pub(super) Option<usize>);

/// Parses a maximum of tokens. -1 means no limit, and so does llama.cpp's -2, the end of the context.
pub(super) fn max_tokens(text: &str) -> Result<TokenLimit, String> {
    match text.parse::<i64>() {
        Ok(-2 | -1) => Ok(TokenLimit(None)),
        Ok(n) => usize::try_from(n).map(|n| TokenLimit(Some(n))).map_err(|_| format!("{n} is below -1")),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the name of a KV cache type.
pub(in crate::cli) fn kv_type(name: &str) -> Result<KvType, String> {
    let known = KvType::ALL.map(KvType::name).join(", ");
    KvType::from_name(name).ok_or_else(|| format!("no such type; known: {known}"))
}
