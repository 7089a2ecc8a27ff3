//! The pre-tokenizers of byte-level BPE, as `tokenizer.json` describes them.

use serde_json::{Value as Json, json};

/// Returns the pattern of cl100k, which most later vocabularies use: contractions, words with one character before,
/// numbers of some digits, other characters, white space.
fn words(digits: &str) -> String {
    format!(
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    )
}

/// Returns the pattern of o200k, which splits words by case; `tail` follows each.
fn cased(tail: &str, digits: &str) -> String {
    format!(
        "[^\\r\\n\\p{{L}}\\p{{N}}]?[\\p{{Lu}}\\p{{Lt}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]*[\\p{{Ll}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]+{tail}|[^\\r\\n\\p{{L}}\\p{{N}}]?[\\p{{Lu}}\\p{{Lt}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]+[\\p{{Ll}}\\p{{Lm}}\\p{{Lo}}\\p{{M}}]*{tail}|{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    )
}

fn byte_level(regex: bool) -> Json {
    json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex })
}

fn split(pattern: &str) -> Json {
    json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false })
}

fn digits(each: bool) -> Json {
    json!({ "type": "Digits", "individual_digits": each })
}

fn sequence(steps: &[Json]) -> Json {
    json!({ "type": "Sequence", "pretokenizers": steps })
}

/// Returns a step with one pattern, followed by the conversion to bytes.
fn one(pattern: &str) -> Json {
    sequence(&[split(pattern), byte_level(false)])
}

/// Returns the steps of a rule, and true if whole words that are tokens skip the merges.
pub(super) fn steps(rule: &str) -> Option<(Json, bool)> {
    const CONTRACTIONS: &str = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    Some(match rule {
        "gpt-2" | "phi-2" | "olmo" | "jais" | "mpt" | "exaone4" | "gigachat" | "mellum" | "trillion" => {
            (byte_level(true), false)
        }
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
            (sequence(&[digits(true), byte_level(true)]), false)
        }
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "lfm2" | "glm4" => {
            (one(&words("\\p{N}{1,3}")), true)
        }
        "dbrx" | "smaug-bpe" | "chatglm-bpe" => (one(&words("\\p{N}{1,3}")), false),
        "qwen2" | "deepseek-r1-qwen" | "stablelm2" | "megrez" | "hunyuan" => (one(&words("\\p{N}")), false),
        "gpt-4o" | "llama4" => (one(&cased(CONTRACTIONS, "\\p{N}{1,3}")), false),
        "tekken" => (one(&cased("", "\\p{N}")), true),
        "falcon" => {
            let punctuation = json!({ "type": "Punctuation", "behavior": "Contiguous" });
            (sequence(&[punctuation, byte_level(true), digits(false), split("[0-9][0-9][0-9]")]), false)
        }
        "deepseek-coder" => {
            let patterns = ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+"];
            let steps =
                patterns.iter().map(|pattern| split(pattern)).chain([digits(true), byte_level(false)]);
            (sequence(&steps.collect::<Vec<_>>()), false)
        }
        "deepseek-v3" => {
            let patterns = [
                "\\p{N}{1,3}",
                "[一-龥぀-ゟ゠-ヿ]+",
                "[!\\\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            ];
            let steps = patterns.iter().map(|pattern| split(pattern)).chain([byte_level(false)]);
            (sequence(&steps.collect::<Vec<_>>()), false)
        }
        "bloom" => (one(" ?[^(\\s|[.,!?…。，、।۔،])]+"), false),
        _ => return None,
    })
}

/// Returns true if steps are those of a rule; default values may be omitted.
pub(super) fn are_of(rule: &str, found: &Json) -> bool {
    fn plain(step: &Json) -> Json {
        let mut step = step.clone();
        if let Some(map) = step.as_object_mut() {
            map.remove("trim_offsets");
            for (key, usual) in [("use_regex", true), ("add_prefix_space", false), ("invert", false)] {
                if map.get(key) == Some(&json!(usual)) {
                    map.remove(key);
                }
            }
            if let Some(steps) = map.get_mut("pretokenizers").and_then(Json::as_array_mut) {
                steps.iter_mut().for_each(|step| *step = plain(step));
            }
        }
        step
    }
    steps(rule).is_some_and(|(steps, _)| plain(&steps) == plain(found))
}
