//! `keep_alive`: time for which the model of a request stays in memory, as in Ollama.

use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// Returns true if a body only asks to unload its model: it has no prompt or messages, and a `keep_alive` of 0.
pub(crate) fn only_unloads(path: &str, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Asked<'a> {
        #[serde(borrow)]
        prompt: Option<Cow<'a, str>>,
        messages: Option<Vec<IgnoredAny>>,
        keep_alive: Option<Value>,
    }
    if !matches!(path, "/api/chat" | "/api/generate") {
        return false;
    }
    let Ok(asked) = serde_json::from_slice::<Asked<'_>>(body) else { return false };
    let stays = asked.keep_alive.is_none_or(|keep| read(&keep) != Ok(Some(Duration::ZERO)));
    !stays
        && asked.prompt.is_none_or(|text| text.is_empty())
        && asked.messages.is_none_or(|all| all.is_empty())
}

/// Takes `keep_alive`, the time for which the request's model stays in memory.
pub(crate) fn keep(call: &Call, body: &mut Fields) -> Result<(), ApiError> {
    if let Some(keep) = body.take("keep_alive") {
        call.keep_model(read(&keep)?);
    }
    Ok(())
}

/// Returns the schema of `keep_alive`.
pub(crate) fn schema() -> Value {
    json!({
        "anyOf": [{ "type": "number" }, { "type": "string" }],
        "description": "Time without requests after which an on-demand model is unloaded: seconds, or a text such as `5m`; 0: at once; negative: no limit"
    })
}

/// Reads the time for which a model stays after its last request: seconds, or a text such as `5m`. `None`, for a
/// negative time, means until other models need the memory.
fn read(value: &Value) -> Result<Option<Duration>, ApiError> {
    let wrong =
        || ApiError::field("keep_alive", "`keep_alive` must be a number of seconds or a time such as `5m`");
    let seconds = match value {
        Value::Number(number) => number.as_f64().ok_or_else(wrong)?,
        Value::String(text) => span(text).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    // Times beyond a hundred years are unlimited: they may overflow the clock.
    let most = 100.0 * 365.0 * 86_400.0;
    Ok((0.0..=most).contains(&seconds).then(|| Duration::from_secs_f64(seconds)))
}

/// Returns the seconds of a duration in Go's syntax: `90`, `1h30m`, `-1s`.
fn span(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    if let Ok(seconds) = text.parse::<f64>() {
        return Some(seconds).filter(|s| s.is_finite());
    }
    let (sign, mut rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let (name, unit) = UNITS.iter().find(|(name, _)| rest[digits..].starts_with(name))?;
        seconds += number * unit;
        rest = &rest[digits + name.len()..];
    }
    (!text.is_empty()).then_some(sign * seconds)
}
