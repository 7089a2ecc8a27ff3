//! Arguments of `leyden batch`.

use std::path::{Path, PathBuf};

use leyden::{Aggregation, KvType, Pooling};
use leyden_batch::Shard;
use leyden_rows::Format;
use serde_json::Value;

use super::template::Template;
use super::texts::Texts;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::inputs::read_text;
use crate::cli::labels::Labels;
use crate::cli::notes::Notes;
use crate::cli::obtain::Hub;
use crate::cli::packs::Packs;
use crate::cli::run::{Sampling, kv_type};

/// Task of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Task {
    /// Answers to conversations
    Chat,
    /// Continuations of texts
    Complete,
    /// Vectors of texts
    Embed,
    /// Labels of texts
    Classify,
    /// Entities in texts
    Extract,
    /// Relevance of documents for queries
    Rerank,
}

impl Task {
    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Task::Chat => "chat",
            Task::Complete => "complete",
            Task::Embed => "embed",
            Task::Classify => "classify",
            Task::Extract => "extract",
            Task::Rerank => "rerank",
        }
    }
}

/// Every row of IN gets one row of OUT, in the same order: its fields and the result, or `error` with the reason. Rows
/// are computed together, many at a time; results do not depend on that. The same command continues a run that was
/// interrupted or killed. docs/batch.md describes formats and guarantees.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Input: .jsonl, .csv, .tsv, .parquet, .json or text lines, also compressed (.csv.gz); a folder of documents (.txt,
    /// .md, .html, .docx, .pdf); `-` is standard input
    #[arg(value_name = "IN")]
    pub(super) input: PathBuf,
    /// Output file: .jsonl, .json, .csv, .tsv, .parquet or, for vectors, .npy
    #[arg(value_name = "OUT")]
    pub(super) output: PathBuf,
    /// Model: a name, file or folder
    #[arg(long, short, value_name = "M")]
    pub(super) model: Option<PathBuf>,
    /// Task; without it, rows must be requests of OpenAI's batch format
    #[arg(long, value_name = "TASK")]
    pub(super) task: Option<Task>,
    /// Format of the input, instead of that of the file's ending: text, csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Column or field with the text; default `text`, or `prompt` for chat and complete
    #[arg(long, value_name = "NAME", conflicts_with = "prompt_template")]
    pub(super) column: Option<String>,
    /// Template of the text over the fields of a row, as a file or as text: 'Translate: {{ text }}'
    #[arg(long, value_name = "TEMPLATE")]
    pub(super) prompt_template: Option<String>,
    /// System message of chats
    #[arg(long, visible_alias = "system-prompt", value_name = "TEXT")]
    pub(super) system: Option<String>,
    /// JSON schema that answers of chat and complete follow: a file, or the schema itself
    #[arg(long, visible_alias = "json-schema", value_name = "SCHEMA")]
    pub(super) schema: Option<String>,
    /// Maximum number of tokens to generate for a row without `max_tokens`; by default until the model ends
    #[arg(short = 'n', long = "max-tokens", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_tokens: Option<u32>,
    #[command(flatten)]
    pub(super) labels: Labels,
    /// Number of labels of classify, the best first; with several, rows have them in `labels`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) top: u32,
    /// Aggregation of tokens to entities, as in `leyden extract`
    #[arg(long, value_name = "STRATEGY", default_value_t)]
    pub(super) aggregation: Aggregation,
    /// Minimum score of an entity, from 0 to 1; with --labels
    #[arg(long, value_name = "SCORE", default_value_t = 0.5)]
    pub(super) threshold: f32,
    /// Allow entities within entities; with --labels
    #[arg(long)]
    pub(super) nested: bool,
    /// Pooling of hidden states to vectors: mean, cls or last; by default as the model specifies, else mean
    #[arg(long, value_name = "POOLING")]
    pub(super) pooling: Option<Pooling>,
    /// Number of dimensions of vectors; by default all
    #[arg(long, value_name = "N")]
    pub(super) dimensions: Option<usize>,
    /// Leave vectors at their length instead of scaling them to length 1
    #[arg(long)]
    pub(super) no_normalize: bool,
    /// Name of the model's prompt to put before each text of embed
    #[arg(long, value_name = "NAME")]
    pub(super) prompt_name: Option<String>,
    /// Query of rerank for rows without `query`
    #[arg(long, value_name = "TEXT")]
    pub(super) query: Option<String>,
    /// Truncate texts that are too long for the model; by default they are errors
    #[arg(long)]
    pub(super) truncate: bool,
    /// Read texts in windows of N characters, for classify and embed: a label has its best score and the place of that
    /// window, a row of embed a vector for each window
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) window: Option<u32>,
    /// Compute part K of N alone; the outputs of all N parts together have each row once
    #[arg(long, value_name = "K/N")]
    pub(super) shard: Option<Shard>,
    /// Begin anew: forget an interrupted run, and replace OUT
    #[arg(long)]
    pub(super) restart: bool,
    /// Maximum time of a row in seconds, for chat and complete; a row that takes longer gets an error
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(super) row_timeout: Option<u64>,
    /// Folder of an audit log: a row counts as done after its record
    #[arg(long, value_name = "DIR")]
    pub(super) audit: Option<PathBuf>,
    /// Maximum number of rows that generate at the same time (also `-np`)
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) parallel: u32,
    /// Context: maximum of tokens in prompt and answer; 0, the default, for the model's own context
    #[arg(long, short, visible_alias = "ctx-size", value_name = "N")]
    pub(super) ctx: Option<usize>,
    /// Type of the KV cache: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    /// Number of threads; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) packs: Packs,
    #[command(flatten)]
    pub(super) hub: Hub,
    /// Print the counts of the run as a JSON object
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
    // Last, because its help heading applies to all options after it.
    #[command(flatten)]
    pub(super) sampling: Box<Sampling>,
}

impl Args {
    /// Returns the texts of rows.
    pub(super) fn texts(&self) -> Result<Texts, Failure> {
        let template = self.prompt_template.as_deref().map(Template::read).transpose()?;
        let columns = match (&self.column, self.task) {
            (Some(column), _) => vec![column.clone()],
            (None, Some(Task::Chat | Task::Complete)) => vec!["prompt".to_owned(), "text".to_owned()],
            (None, _) => vec!["text".to_owned()],
        };
        Ok(Texts::new(columns, template))
    }
}

/// Reads a schema: the text itself, or a file.
pub(super) fn schema(text: &str) -> Result<Value, Failure> {
    let is_text = text.trim_start().starts_with('{');
    let (name, text) =
        if is_text { ("--schema", text.to_owned()) } else { (text, read_text(Path::new(text))?) };
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("{name}: not JSON: {error}")))
}
