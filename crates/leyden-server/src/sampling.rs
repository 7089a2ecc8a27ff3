//! The sampling fields of a request.
//!
//! OpenAI's fields have the ranges of OpenAI's API, the others those of the sampler. Defaults are those of `leyden run`
//! for the same model.

use crate::app::App;
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::operation::token_schema;
use crate::sampling_fields::{NUMBERS, SIZES, field_schema};
use crate::served::Served;
use leyden_audit::sha256;
use leyden_engine::sample::{
    Mirostat, MirostatVersion, Sampler, SamplingParams, SamplingStep, SequenceBreakers,
};
use leyden_tasks::ErrorKind;
use leyden_text::Special;
use serde_json::{Map, Value, json};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

/// Sampling parameters of a request.
#[derive(Clone, Debug)]
pub(crate) struct Sampling {
    pub(crate) params: SamplingParams,
    breakers: Vec<String>,
}

/// Maximum number of tokens in a list of biases, tokens of texts included.
const MAX_BIASES: usize = 4096;
/// Range of a logit bias.
const BIASES: RangeInclusive<f64> = -100.0..=100.0;

/// Takes the sampling fields.
pub(crate) fn read(body: &mut Fields, model: &Served) -> Result<Sampling, ApiError> {
    let mut params = model.sampling.clone();
    // As with OpenAI and vLLM, penalties apply to the whole text by default.
    params.penalties.window = usize::MAX;
    for field in NUMBERS {
        if let Some(x) = body.number(field.name) {
            (field.set)(&mut params, x);
        }
    }
    for field in SIZES {
        if let Some(n) = body.integer(field.name) {
            (field.set)(&mut params, usize::try_from(n).ok().or(field.unlimited).unwrap_or(0));
        }
    }
    mirostat(body, &mut params);
    if let Some(value) = body.take("samplers") {
        params.order = order(&value)?;
    }
    if let Some(value) = body.take("logit_bias") {
        params.logit_bias = logit_bias(value, model)?;
    }
    // -1 asks for a random seed, as with llama-server, vLLM and Ollama.
    let seed = body.integer("seed").filter(|seed| *seed != -1);
    // The standard library seeds its hashers with system randomness. Clients' number types represent 32 bits exactly.
    params.seed = seed.map_or_else(|| RandomState::new().hash_one(0) >> 32, i64::cast_unsigned);
    let breakers = match body.list("dry_sequence_breakers") {
        None => model.sequence_breakers.clone(),
        Some(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    };
    SequenceBreakers::check(&breakers).map_err(|what| ApiError::field("dry_sequence_breakers", what))?;
    params.check(model.vocabulary).map_err(|e| engine(&e))?;
    Ok(Sampling { params, breakers })
}

fn mirostat(body: &mut Fields, params: &mut SamplingParams) {
    let version = body.size("mirostat");
    let entropy = body.number("mirostat_tau");
    let rate = body.number("mirostat_eta");
    let mut m = params.mirostat.unwrap_or_default();
    m = Mirostat { entropy: entropy.unwrap_or(m.entropy), rate: rate.unwrap_or(m.rate), ..m };
    params.mirostat = match version {
        None => params.mirostat.map(|_| m),
        Some(0) => None,
        Some(1) => Some(Mirostat { version: MirostatVersion::V1, ..m }),
        Some(_) => Some(Mirostat { version: MirostatVersion::V2, ..m }),
    };
}

/// llama.cpp's letters for the sampling steps.
const LETTERS: &[(char, SamplingStep)] = &[
    ('e', SamplingStep::Penalties),
    ('d', SamplingStep::Dry),
    ('s', SamplingStep::TopNSigma),
    ('k', SamplingStep::TopK),
    ('y', SamplingStep::Typical),
    ('p', SamplingStep::TopP),
    ('m', SamplingStep::MinP),
    ('x', SamplingStep::Xtc),
    ('t', SamplingStep::Temperature),
];

/// Reads sampling steps from a word of llama.cpp's letters.
fn spelled(word: &str) -> Result<Vec<SamplingStep>, ApiError> {
    let mut steps = Vec::new();
    for letter in word.chars() {
        let step = LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, step)| *step);
        let Some(step) = step.filter(|step| !steps.contains(step)) else {
            let known: String = LETTERS.iter().map(|(letter, _)| letter).collect();
            let message = format!(
                "`samplers` must be a list of names, or a text of the letters {known}, each at most once"
            );
            return Err(ApiError::field("samplers", message));
        };
        steps.push(step);
    }
    Ok(steps)
}

fn order(value: &Value) -> Result<Vec<SamplingStep>, ApiError> {
    if let Value::String(word) = value {
        return spelled(word);
    }
    let mut steps = Vec::new();
    for (i, name) in value.as_array().into_iter().flatten().enumerate() {
        let step = SamplingStep::ALL.iter().find(|s| name.as_str() == Some(s.name()));
        let Some(step) = step.copied().filter(|s| !steps.contains(s)) else {
            let path = format!("samplers[{i}]");
            return Err(ApiError::field(&path, format!("`{path}` occurs twice")));
        };
        steps.push(step);
    }
    Ok(steps)
}

/// Reads llama-server's list of biases: pairs of a token id, or a text for all of its tokens, and a number, or `false`
/// for a token that is never chosen.
fn bias_pairs(pairs: &[Value], model: &Served, most: usize) -> Result<Vec<(u32, f32)>, ApiError> {
    let last = i64::try_from(model.vocabulary).unwrap_or(i64::MAX) - 1;
    let mut biases = Vec::new();
    for (i, pair) in pairs.iter().enumerate() {
        let path = format!("logit_bias[{i}]");
        let [token, bias] = pair.as_array().map_or(&[][..], Vec::as_slice) else {
            return Err(ApiError::field(&path, format!("`{path}` is not a pair of a token and a bias")));
        };
        let bias = match bias {
            Value::Bool(false) => f32::NEG_INFINITY,
            bias => fields::number(&format!("{path}[1]"), bias, BIASES)?,
        };
        let tokens = match token {
            Value::String(text) => model.tokenizer.encode(text, Special::AsText).map_err(|_| {
                ApiError::field(&path, format!("`{path}[0]` cannot be encoded in the model's vocabulary"))
            })?,
            id => {
                let id = fields::integer(&format!("{path}[0]"), id, 0..=last)?;
                vec![u32::try_from(id).unwrap_or_default()]
            }
        };
        biases.extend(tokens.into_iter().map(|token| (token, bias)));
        if biases.len() > most {
            let message = format!("`logit_bias` has more than {most} tokens");
            return Err(ApiError::field("logit_bias", message));
        }
    }
    Ok(biases)
}

/// Reads biases, from an object with token ids as keys or a list of pairs.
fn logit_bias(value: Value, model: &Served) -> Result<Vec<(u32, f32)>, ApiError> {
    if let Value::Array(pairs) = &value {
        return bias_pairs(pairs, model, MAX_BIASES);
    }
    let mut biases = Vec::new();
    for (id, bias) in Fields::from(value).rest() {
        let shown: String = id.chars().take(32).collect();
        let path = format!("logit_bias.{shown}");
        let token =
            id.parse::<u32>().ok().filter(|t| (*t as usize) < model.vocabulary && t.to_string() == id);
        let Some(token) = token else {
            let message = format!("`{path}` is not a token id below {}", model.vocabulary);
            return Err(ApiError::field(path, message));
        };
        biases.push((token, fields::number(&path, &bias, BIASES)?));
    }
    Ok(biases)
}

/// Returns the error of parameters that the sampler refuses.
fn engine(error: &leyden_engine::Error) -> ApiError {
    match error.kind() {
        leyden_engine::ErrorKind::Parameter { name, what } => {
            ApiError::field(*name, format!("{name}: {what}"))
        }
        _ => ApiError::internal("the sampler could not be created"),
    }
}

impl Sampling {
    /// Returns the parameters for the audit log: those that always have a meaning, and those that are not the default.
    pub(crate) fn recorded(&self) -> Map<String, Value> {
        let (params, usual) = (&self.params, SamplingParams::default());
        // Numbers in the digits in which a request would have them.
        let number = |x: f32| x.to_string().parse::<f64>().unwrap_or_default();
        let all = json!({
            "temperature": number(params.temperature), "top_k": params.top_k, "top_p": number(params.top_p),
            "min_p": number(params.min_p), "typical_p": number(params.typical),
        });
        let mut settings = match all {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        let penalties = leyden_engine::sample::Penalties { window: usize::MAX, ..usual.penalties };
        for (name, value, usual) in [
            ("top_n_sigma", format!("{:?}", params.top_n_sigma), format!("{:?}", usual.top_n_sigma)),
            ("xtc", format!("{:?}", params.xtc), format!("{:?}", usual.xtc)),
            ("penalties", format!("{:?}", params.penalties), format!("{penalties:?}")),
            ("dry", format!("{:?}", params.dry), format!("{:?}", usual.dry)),
            ("mirostat", format!("{:?}", params.mirostat), format!("{:?}", usual.mirostat)),
            (
                "dynamic_temperature",
                format!("{:?}", params.dynamic_temperature),
                format!("{:?}", usual.dynamic_temperature),
            ),
            ("samplers", format!("{:?}", params.order), format!("{:?}", usual.order)),
        ] {
            if value != usual {
                settings.insert(name.to_owned(), value.into());
            }
        }
        if !params.logit_bias.is_empty() {
            let digest = sha256(format!("{:?}", params.logit_bias).as_bytes());
            settings.insert("logit_bias_sha256".to_owned(), digest.into());
        }
        settings
    }

    /// Returns the sampler of one choice, which has accepted the prompt.
    pub(crate) fn sampler(&self, model: &Served, choice: usize, prompt: &[u32]) -> Result<Sampler, ApiError> {
        let of_model = (model.tokenizer.as_ref(), model.tier, model.vocabulary);
        let sampler = model.samplers.sampler(of_model, (&self.params, &self.breakers), choice, prompt);
        sampler.map_err(|error| match error.kind {
            ErrorKind::Sampler(error) => engine(&error),
            _ => ApiError::field(
                "dry_sequence_breakers",
                "a breaker cannot be encoded in the model's vocabulary",
            ),
        })
    }
}

/// Returns the fields in the OpenAPI document.
pub(crate) fn schema(app: &App) -> Value {
    let ids = format!("^({})$", below(app.vocabulary()));
    let mut all = Map::new();
    let names = NUMBERS.iter().map(|field| field.name).chain(SIZES.iter().map(|field| field.name));
    all.extend(names.map(|name| (name.to_owned(), field_schema(name))));
    let letters: String = LETTERS.iter().map(|(letter, _)| letter).collect();
    let bias = json!({ "type": "number", "minimum": BIASES.start(), "maximum": BIASES.end() });
    let token = json!({ "anyOf": [token_schema(app), { "type": "string" }] });
    let pair = json!({
        "type": "array", "minItems": 2, "maxItems": 2,
        "prefixItems": [token, { "anyOf": [bias, { "const": false }] }]
    });
    let steps: Vec<&str> = SamplingStep::ALL.iter().map(|s| s.name()).collect();
    let more = json!({
        "mirostat": { "type": "integer", "minimum": 0, "maximum": 2 },
        "mirostat_tau": { "type": "number", "minimum": 0, "maximum": 100 },
        "mirostat_eta": { "type": "number", "minimum": 0, "maximum": 100 },
        "samplers": {
            "anyOf": [
                {
                    "type": "array", "uniqueItems": true, "maxItems": steps.len(),
                    "items": { "type": "string", "enum": steps }
                },
                {
                    "type": "string", "maxLength": LETTERS.len(), "pattern": format!("^[{letters}]*$"),
                    "description": "Letters of the steps in llama.cpp, each at most once"
                }
            ]
        },
        "logit_bias": {
            "description": "Token ids, with values added to their logits",
            "anyOf": [
                {
                    "type": "object",
                    "maxProperties": app.limits.logit_biases,
                    "additionalProperties": false,
                    "patternProperties": { ids: bias }
                },
                { "type": "array", "maxItems": app.limits.logit_biases, "items": pair }
            ]
        },
        "seed": { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
        "dry_sequence_breakers": {
            "type": "array", "maxItems": 64, "items": { "type": "string", "minLength": 1, "maxLength": 40 }
        },
    });
    if let Value::Object(more) = more {
        all.extend(more);
    }
    Value::Object(all)
}

/// Returns a regular expression that matches the decimal integers below `most`, without leading zeros.
fn below(most: usize) -> String {
    let Some(last) = most.checked_sub(1) else { return "[]".to_owned() };
    let digits = last.to_string();
    let mut parts: Vec<String> = vec!["0".to_owned()];
    // Numbers with fewer digits.
    parts.extend((1..digits.len()).map(|n| format!("[1-9][0-9]{{{}}}", n - 1)));
    // Numbers with as many digits: equal to those of `most - 1` up to a smaller digit, or to the end.
    for (i, digit) in digits.bytes().enumerate() {
        let least = if i == 0 { b'1' } else { b'0' };
        if digit > least {
            let (before, more) = (&digits[..i], digits.len() - i - 1);
            parts.push(format!("{before}[{}-{}][0-9]{{{more}}}", char::from(least), char::from(digit - 1)));
        }
    }
    if last > 0 {
        parts.push(digits);
    }
    parts.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_another_are_matched() {
        // A simple matcher for parts such as `12[0-4][0-9]{2}`.
        let matches = |pattern: &str, text: &str| {
            pattern.split('|').any(|part| {
                let (mut rest, mut part) = (text, part);
                while let Some(first) = part.chars().next() {
                    let (class, after) = match part.split_once(']') {
                        Some((class, after)) if first == '[' => (&class[1..], after),
                        _ => part.split_at(1),
                    };
                    let (count, after) = match after.strip_prefix('{').and_then(|a| a.split_once('}')) {
                        Some((n, after)) => (n.parse().unwrap(), after),
                        None => (1, after),
                    };
                    let (low, high) = class.split_once('-').unwrap_or((class, class));
                    for _ in 0..count {
                        let Some(c) = rest.get(..1).filter(|c| (low..=high).contains(c)) else {
                            return false;
                        };
                        rest = &rest[c.len()..];
                    }
                    part = after;
                }
                rest.is_empty()
            })
        };
        for most in [1, 2, 9, 10, 11, 99, 100, 101, 110, 999, 1000, 1234, 2048] {
            let pattern = below(most);
            for n in 0..2500 {
                assert_eq!(matches(&pattern, &n.to_string()), n < most, "{n} {pattern}");
            }
            assert!(!matches(&pattern, "01") && !matches(&pattern, ""));
        }
    }
}
