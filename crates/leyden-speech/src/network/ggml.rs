//! whisper.cpp's GGML files as sources: its names of tensors, and the tokenizer that follows from the tokens' order.

use super::config::{Config, Stack};
use super::ggml_file::GgmlFile;
use super::tensor::Tensor;
use crate::error::Error;
use crate::languages::CODES;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;

/// Tokens of times, of 20 ms each: from 0 to 30 seconds.
const TIMES: usize = 1501;

/// Special tokens before the languages, and between the languages and the times.
const BEFORE: [&str; 2] = ["<|endoftext|>", "<|startoftranscript|>"];
const AFTER: [&str; 6] = [
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
];

/// Vocabulary from which on a model has several languages.
const MULTILINGUAL: usize = 51_865;

/// File of whisper.cpp.
pub(crate) struct Ggml {
    file: GgmlFile,
    path: String,
    config: Config,
}

impl Ggml {
    /// Returns type, number of values and bytes of each tensor.
    pub(super) fn sizes(&self) -> Vec<(String, u64, u64)> {
        self.file.sizes()
    }

    pub(super) fn is_at(path: &Path) -> bool {
        GgmlFile::is_at(path)
    }

    pub(super) fn open(path: &Path) -> Result<Ggml, Error> {
        let name = path.display();
        Ggml::of(GgmlFile::open(path).map_err(|error| error.file(name))?, path.display().to_string())
    }

    fn of(file: GgmlFile, path: String) -> Result<Ggml, Error> {
        let [
            vocabulary,
            audio_context,
            width,
            audio_heads,
            audio_layers,
            text_context,
            text_width,
            text_heads,
            text_layers,
            bins,
            _,
        ] = file.header;
        if width != text_width {
            let message = format!("widths {width} and {text_width} differ");
            return Err(Error::model(message).item("header").file(&path));
        }
        let stack = |layers, heads| Stack { layers, heads, hidden: 4 * width };
        let (encoder, decoder) = (stack(audio_layers, audio_heads), stack(text_layers, text_heads));
        let config = Config { bins, width, encoder, decoder, vocabulary, audio_context, text_context };
        let config = config.checked().map_err(|error| error.file(&path))?;
        Ok(Ggml { file, path, config })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns a tensor by its name in Hugging Face folders.
    pub(super) fn tensor(&self, name: &str) -> Result<Tensor<'_>, Error> {
        self.file.tensor(&original(name)).map_err(|error| error.file(&self.path))
    }

    /// Returns the tokenizer as a `tokenizer.json`.
    ///
    /// The file has the tokens' bytes in the order in which byte-pair encoding made them, so each token is the merge of
    /// the two that encoding its bytes with earlier tokens alone gives. Special tokens follow from the size of the
    /// vocabulary.
    pub(super) fn tokenizer_json(&self) -> Result<Vec<u8>, Error> {
        let n = self.config.vocabulary;
        let texts = if n >= MULTILINGUAL { 50_257 } else { 50_256 };
        let fixed = texts + BEFORE.len() + AFTER.len() + TIMES;
        let error = |message: String| Error::model(message).item("vocabulary").file(&self.path);
        let languages = n.checked_sub(fixed).filter(|n| (1..=CODES.len()).contains(n));
        let languages = languages.ok_or_else(|| error(format!("{n} tokens are those of no Whisper")))?;
        let tokens: Vec<&[u8]> = self.file.tokens().take(texts).collect();
        if tokens.len() < texts {
            return Err(error(format!("{} tokens, at least {texts} are needed", tokens.len())));
        }
        let ranks: HashMap<&[u8], usize> =
            tokens.iter().enumerate().map(|(id, token)| (*token, id)).collect();
        let (mut vocab, mut merges) = (Map::new(), Vec::new());
        for (id, token) in tokens.iter().enumerate() {
            if vocab.insert(shown(token), id.into()).is_some() {
                return Err(error(format!("token {id} is there twice")));
            }
            if token.len() > 1
                && let Some((left, right)) = merge(token, id, &ranks)
            {
                merges.push(Value::String(format!("{} {}", shown(left), shown(right))));
            }
        }
        let mut special: Vec<String> = BEFORE.map(str::to_owned).to_vec();
        special.extend(CODES[..languages].iter().map(|code| format!("<|{code}|>")));
        special.extend(AFTER.map(str::to_owned));
        special.extend((0..TIMES).map(|time| format!("<|{:.2}|>", time as f64 / 50.0)));
        let added = special.iter().enumerate().map(|(i, name)| {
            json!({ "id": texts + i, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": i < special.len() - TIMES })
        });
        let added: Vec<Value> = added.collect();
        let whole = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
            "post_processor": null,
            "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
            "model": { "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                "end_of_word_suffix": "", "fuse_unk": false, "vocab": vocab, "merges": merges }
        });
        serde_json::to_vec(&whole).map_err(|why| error(why.to_string()))
    }
}

/// Returns the two tokens of lower rank that a token is made of; `None` if it cannot be made.
fn merge<'t>(token: &'t [u8], id: usize, ranks: &HashMap<&[u8], usize>) -> Option<(&'t [u8], &'t [u8])> {
    /// Longer tokens do not occur; joining takes quadratic time.
    const MAX_BYTES: usize = 512;
    if token.len() > MAX_BYTES {
        return None;
    }
    let mut parts: Vec<&[u8]> = token.chunks(1).collect();
    while parts.len() > 2 {
        let start = |i: usize| parts[..i].iter().map(|part| part.len()).sum::<usize>();
        let joined = |i: usize| {
            let first = start(i);
            &token[first..first + parts[i].len() + parts[i + 1].len()]
        };
        let rank = |i: usize| ranks.get(joined(i)).copied().filter(|rank| *rank < id);
        let (_, best) = (0..parts.len() - 1).filter_map(|i| Some((rank(i)?, i))).min()?;
        parts[best] = joined(best);
        parts.remove(best + 1);
    }
    Some((parts[0], parts[1]))
}

/// Returns the bytes of a token as `tokenizer.json` writes them: printable bytes as themselves, others as characters
/// from 256 on, in their order.
fn shown(bytes: &[u8]) -> String {
    let printable = |b: u8| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let char_of = |b: u8| match printable(b) {
        true => char::from(b),
        false => {
            let before = (0..b).filter(|b| !printable(*b)).count() as u32;
            char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    bytes.iter().map(|b| char_of(*b)).collect()
}

/// Parts of names: in Hugging Face folders, and in OpenAI's files.
const PARTS: [(&str, &str); 17] = [
    (".layers.", ".blocks."),
    (".self_attn_layer_norm.", ".attn_ln."),
    (".encoder_attn_layer_norm.", ".cross_attn_ln."),
    (".final_layer_norm.", ".mlp_ln."),
    (".self_attn.", ".attn."),
    (".encoder_attn.", ".cross_attn."),
    (".q_proj.", ".query."),
    (".k_proj.", ".key."),
    (".v_proj.", ".value."),
    (".out_proj.", ".out."),
    (".fc1.", ".mlp.0."),
    (".fc2.", ".mlp.2."),
    ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.layer_norm.", "decoder.ln."),
    ("encoder.embed_positions.weight", "encoder.positional_embedding"),
    ("decoder.embed_positions.weight", "decoder.positional_embedding"),
    ("decoder.embed_tokens.", "decoder.token_embedding."),
];

/// Returns the name of a tensor in OpenAI's files.
fn original(name: &str) -> String {
    PARTS.iter().fold(name.to_owned(), |name, (from, to)| name.replacen(from, to, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tensors_are_openai_s() {
        for (name, want) in [
            ("encoder.layers.3.self_attn_layer_norm.weight", "encoder.blocks.3.attn_ln.weight"),
            ("decoder.layers.0.encoder_attn.k_proj.weight", "decoder.blocks.0.cross_attn.key.weight"),
            ("decoder.layers.0.encoder_attn_layer_norm.bias", "decoder.blocks.0.cross_attn_ln.bias"),
            ("encoder.layers.11.fc2.bias", "encoder.blocks.11.mlp.2.bias"),
            ("encoder.layer_norm.bias", "encoder.ln_post.bias"),
            ("encoder.conv1.weight", "encoder.conv1.weight"),
        ] {
            assert_eq!(original(name), want);
        }
    }
}
