//! `leyden tokenize`: text to token ids, and back.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use leyden_text::{Special, Tokenizer};
use serde_json::{Value, json};

use super::failure::Failure;
use super::model_file;

/// Prints the token ids as the model gets them: with BOS and EOS if the model adds them and the text does not contain
/// them, and with special tokens in the text recognised. The text is TEXT, or from --file, or else from standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a name, file or folder; a GGUF file without weights is enough
    model: PathBuf,
    /// Text, or with --decode ids such as "1 2 3" or "[1, 2, 3]"
    #[arg(conflicts_with = "file")]
    text: Option<String>,
    /// Read the text from this file; `-` is standard input
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// Add no BOS or EOS, and treat special tokens in the text as plain text; with --decode, print no special tokens
    #[arg(long)]
    no_special: bool,
    /// Convert token ids to text
    #[arg(long)]
    decode: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints ids, or with `--decode` text.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    // The model is opened first, so that a wrong path is reported before text is read from the terminal.
    let file = model_file::open(&args.model)?;
    let tokenizer = file.tokenizer()?;
    let input = input(args)?;
    if args.decode {
        decode(args, tokenizer.as_ref(), &input, out)?;
    } else {
        encode(args, tokenizer.as_ref(), &input, out)?;
    }
    model_file::still_whole(&file)
}

fn encode(args: &Args, tokenizer: &dyn Tokenizer, text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let ids = if args.no_special {
        tokenizer.encode(text, Special::AsText)?
    } else {
        leyden_text::encode_whole(tokenizer, text)?
    };
    if args.json {
        let piece = |&id: &u32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            Value::from(String::from_utf8_lossy(bytes))
        };
        let tokens: Vec<Value> = ids.iter().map(piece).collect();
        serde_json::to_writer(&mut *out, &json!({ "ids": ids, "tokens": tokens }))?;
    } else {
        for (i, id) in ids.iter().enumerate() {
            write!(out, "{}{id}", if i == 0 { "" } else { " " })?;
        }
    }
    Ok(writeln!(out)?)
}

fn decode(args: &Args, tokenizer: &dyn Tokenizer, text: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let ids = parse_ids(text)?;
    let mut bytes = Vec::new();
    // Previous token, after the first text.
    let mut previous = None;
    for (i, &id) in ids.iter().enumerate() {
        let token = tokenizer.bytes_after(previous, id).ok_or_else(|| {
            let n = tokenizer.vocab_size();
            Failure::new(format!(
                "id {id} at position {i}: the vocabulary has {n} tokens, 0 to {}",
                n.saturating_sub(1)
            ))
        })?;
        // Decoding removes the tokens that encoding adds.
        let added = (i == 0 && tokenizer.add_bos() && tokenizer.bos() == Some(id))
            || (i + 1 == ids.len() && tokenizer.add_eos() && tokenizer.eos() == Some(id));
        let shown = !(added || (args.no_special && tokenizer.is_special(id)));
        if shown {
            bytes.extend_from_slice(&token);
        }
        previous = (shown || previous.is_some()).then_some(id);
    }
    if args.json {
        serde_json::to_writer(&mut *out, &json!({ "text": String::from_utf8_lossy(&bytes) }))?;
        return Ok(writeln!(out)?);
    }
    // Bytes are unchanged for a file; on a terminal the shell's prompt should be on a new line.
    out.write_all(&bytes)?;
    if io::stdout().is_terminal() && bytes.last() != Some(&b'\n') {
        writeln!(out)?;
    }
    Ok(())
}

/// Parses ids separated by spaces or commas, with or without brackets, or the JSON object of `--json`.
fn parse_ids(text: &str) -> Result<Vec<u32>, Failure> {
    let form = "ids are numbers such as \"1 2 3\" or \"[1, 2, 3]\", or the JSON object of --json";
    let text = text.trim();
    if text.starts_with('{') {
        let object: Value = serde_json::from_str(text)
            .map_err(|error| Failure::new(format!("ids: not a JSON object: {error}")).hint(form))?;
        let ids = object.get("ids").cloned().unwrap_or_default();
        return serde_json::from_value(ids)
            .map_err(|error| Failure::new(format!("ids: field `ids`: {error}")).hint(form));
    }
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    inner
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .map(|word| {
            let shown = super::text::printable(word, 40);
            word.parse().map_err(|_| Failure::new(format!("ids: `{shown}` is not a token id")).hint(form))
        })
        .collect()
}

/// Returns the input text.
fn input(args: &Args) -> Result<String, Failure> {
    let (name, bytes) = match (&args.text, &args.file) {
        (Some(text), _) => return Ok(text.clone()),
        (None, Some(path)) if path != Path::new("-") => {
            let name = path.display().to_string();
            let bytes =
                std::fs::read(path).map_err(|error| Failure::new(format!("{name}: cannot read: {error}")))?;
            (name, bytes)
        }
        _ => {
            let mut stdin = io::stdin().lock();
            if stdin.is_terminal() {
                let _ =
                    writeln!(io::stderr(), "reading from the terminal; press Ctrl-D on an empty line to end");
            }
            let mut bytes = Vec::new();
            stdin
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::new(format!("standard input: cannot read: {error}")))?;
            ("standard input".to_owned(), bytes)
        }
    };
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("{name}: not UTF-8 text: byte {at}"))
            .hint("convert the text to UTF-8, for example with iconv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_ids_accepts_its_forms() {
        for text in ["1 2 3", "[1,2,3]", " 1,\n2\t3 ", "{\"ids\": [1, 2, 3], \"tokens\": []}", "[1 2, 3]"] {
            assert_eq!(parse_ids(text).unwrap(), [1, 2, 3], "{text}");
        }
        assert!(parse_ids("").unwrap().is_empty());
        for text in ["1 x", "-1", "4294967296", "{\"ids\": \"1\"}", "{", "{}", "[1", "1.5"] {
            assert!(parse_ids(text).is_err(), "{text}");
        }
    }
}
