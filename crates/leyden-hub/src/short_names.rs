//! [`ShortName`]: `qwen3`, `gemma3:270m` and the like, from the table `short_names.txt`, one model per line.

use crate::error::{Error, ErrorKind, Result};
use crate::file_names;
use crate::reference::{Reference, behind_scheme};
use crate::short_name_table;

/// Commands for encoders.
const COMMANDS: [&str; 4] = ["embed", "rerank", "classify", "extract"];

/// Short name and the model on the hub that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortName {
    /// All its names, the preferred one first.
    pub names: Vec<&'static str>,
    /// Model.
    pub reference: Reference,
    /// Rounded size of the download in bytes.
    pub bytes: u64,
    /// Value of `general.architecture`.
    pub architecture: &'static str,
    /// Bytes of the keys and values of one token in F16, without sliding windows.
    pub kv_bytes: Option<u64>,
    /// Command that the model is for: `run`, or for encoders `embed`, `rerank`, `classify` or `extract`.
    pub command: &'static str,
}

impl ShortName {
    /// Returns all short names.
    ///
    /// ```
    /// let all = leyden_hub::ShortName::all();
    /// assert!(all.iter().any(|short| short.names[0] == "smollm2"));
    /// ```
    #[must_use]
    pub fn all() -> Vec<ShortName> {
        short_name_table::rows().filter_map(row).collect()
    }

    /// Finds a short name: in any case, with `:latest` as in Ollama, or with a dash and a quantisation
    /// (`qwen3:8b-q8_0`).
    ///
    /// ```
    /// let short = leyden_hub::ShortName::find("Qwen3:8b-q8_0").unwrap();
    /// assert_eq!(short.reference.to_string(), "hf:Qwen/Qwen3-8B-GGUF:Q8_0");
    /// ```
    #[must_use]
    pub fn find(name: &str) -> Option<ShortName> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(":latest").unwrap_or(&name);
        let exact = |name: &str| Self::all().into_iter().find(|short| short.names.contains(&name));
        exact(name).or_else(|| {
            let (front, quantisation) = name.rsplit_once('-')?;
            if !file_names::is_quantisation(quantisation) {
                return None;
            }
            let mut short = exact(front)?;
            short.reference = short.reference.with_file(&quantisation.to_ascii_uppercase());
            Some(short)
        })
    }

    /// Returns the short name most similar to the typed text, if any is similar enough.
    #[must_use]
    pub fn near(typed: &str) -> Option<&'static str> {
        short_name_table::near(typed)
    }
}

impl Reference {
    /// Parses a user's name of a model on the hub: a reference, `ORG/REPO[:FILE]`, or a
    /// [`ShortName`].
    ///
    /// # Errors
    /// If it is none of these.
    ///
    /// ```
    /// use leyden_hub::Reference;
    /// assert_eq!(Reference::named("org/model:Q8_0")?.to_string(), "hf:org/model:Q8_0");
    /// assert_eq!(Reference::named("qwen3:4b")?.to_string(), "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M");
    /// # Ok::<(), leyden_hub::Error>(())
    /// ```
    pub fn named(text: &str) -> Result<Self> {
        if let Some(short) = ShortName::find(text) {
            return Ok(short.reference);
        }
        Self::without_scheme(behind_scheme(text).unwrap_or(text))
            .map_err(|why| Error::new(text, ErrorKind::Reference(why)))
    }
}

fn row(line: &'static str) -> Option<ShortName> {
    let mut cells = line.split_whitespace();
    let names = cells.next()?.split(',').collect();
    let reference = Reference::without_scheme(cells.next()?).ok()?;
    let megabytes: u64 = cells.next()?.parse().ok()?;
    let architecture = cells.next()?;
    let last = cells.next();
    let command = last.and_then(|cell| COMMANDS.into_iter().find(|command| cell == *command));
    let kv_bytes = match last.filter(|_| command.is_none()) {
        // One key and one value each.
        Some(sizes) => Some(4 * sizes.split('x').map(|n| n.parse::<u64>().ok()).product::<Option<u64>>()?),
        None => None,
    };
    let bytes = megabytes * 1_000_000;
    Some(ShortName { names, reference, bytes, architecture, kv_bytes, command: command.unwrap_or("run") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_model() {
        let lines = short_name_table::rows().count();
        let all = ShortName::all();
        assert_eq!(all.len(), lines);
        let mut names: Vec<&str> = all.iter().flat_map(|short| short.names.clone()).collect();
        assert!(names.iter().all(|name| *name == name.to_ascii_lowercase()));
        names.sort_unstable();
        let n = names.len();
        names.dedup();
        assert_eq!(names.len(), n, "each name once");
        let llama = ShortName::find("llama3.1").unwrap();
        assert_eq!((llama.kv_bytes, llama.command), (Some(128 << 10), "run"));
        let encoder = ShortName::find("bge-m3").unwrap();
        assert_eq!((encoder.kv_bytes, encoder.command), (None, "embed"));
    }

    #[test]
    fn names_are_found_as_people_write_them() {
        for (typed, wanted) in [
            ("qwen3", "hf:Qwen/Qwen3-8B-GGUF:Q4_K_M"),
            ("Gemma3:270M", "hf:unsloth/gemma-3-270m-it-GGUF:Q4_K_M"),
            ("llama3.2:latest", "hf:bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"),
            ("smollm2:135m-q8_0", "hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0"),
            ("gpt-oss", "hf:ggml-org/gpt-oss-20b-GGUF"),
        ] {
            assert_eq!(ShortName::find(typed).unwrap().reference.to_string(), wanted, "{typed}");
        }
        // Common names of Ollama's library, and of encoders.
        for typed in [
            "gemma4",
            "qwen3.5",
            "qwen3-coder",
            "gpt-oss:120b",
            "llama3",
            "deepseek-r1:8b",
            "nomic-embed-text",
            "bge-m3",
            "all-minilm",
            "embeddinggemma",
            "mxbai-embed-large",
            "snowflake-arctic-embed2",
            "bge-reranker-v2-m3",
            "bert-ner",
            "gliner",
            "llama3:8b",
            "gemma4:31b",
            "qwen3.5:35b",
            "qwen3-embedding:0.6b",
            "mistral-small",
            "granite4",
            "codellama",
        ] {
            assert!(ShortName::find(typed).is_some(), "{typed}");
        }
        for typed in ["", "qwen", "hello", "gpt-oss-x", "qwen3-", ":latest"] {
            assert_eq!(ShortName::find(typed), None, "{typed}");
        }
        assert_eq!(ShortName::near("lama3.2"), Some("llama3.2"));
        assert_eq!(ShortName::near("smolm2"), Some("smollm2"));
        assert_eq!(ShortName::near("hello"), None);
    }
}
