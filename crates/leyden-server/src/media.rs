//! Refusal of pictures, sound, videos and files in requests: the models here read text only.

use crate::error::ApiError;
use serde_json::Value;

/// Types of parts and outputs in all dialects, with the name of their medium.
const TYPES: &[(&str, &str)] = &[
    ("image", "pictures"),
    ("image_url", "pictures"),
    ("input_image", "pictures"),
    ("image_embeds", "pictures"),
    ("audio", "sound"),
    ("audio_url", "sound"),
    ("input_audio", "sound"),
    ("video", "videos"),
    ("video_url", "videos"),
    ("input_video", "videos"),
    ("file", "files"),
    ("input_file", "files"),
    ("document", "documents beside the text"),
];

/// Types of document sources that are not text.
const SOURCES: &[&str] = &["base64", "url", "file"];

/// Fields with media: Ollama's, llama-server's and vLLM's.
const FIELDS: &[(&str, &str)] = &[
    ("images", "pictures"),
    ("image", "pictures"),
    ("image_data", "pictures"),
    ("image_url", "pictures"),
    ("multi_modal_data", "pictures and sound"),
    ("multimodal_data", "pictures and sound"),
    ("audio_url", "sound"),
    ("input_audio", "sound"),
    ("video_url", "videos"),
];

/// Returns the refusal of a part or output of this type, if the type is one of a medium.
pub(crate) fn of_type(at: &str, given: Option<&Value>) -> Option<ApiError> {
    let given = given?.as_str()?;
    // The type of a document's source tells that it is not text.
    let of_source = at.ends_with("source.type") && SOURCES.contains(&given);
    let what = match TYPES.iter().find(|(name, _)| *name == given) {
        _ if of_source => "files",
        Some((_, what)) => *what,
        None => return None,
    };
    Some(refused(at, what))
}

/// Returns the refusal of a field that contains a medium.
pub(crate) fn of_field(at: &str, name: &str, value: &Value) -> Option<ApiError> {
    let (_, what) = FIELDS.iter().find(|(known, _)| *known == name)?;
    let is_empty = match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    (!is_empty).then(|| refused(at, what))
}

fn refused(at: &str, what: &str) -> ApiError {
    let verb = if what == "sound" { "is" } else { "are" };
    let message = format!("`{at}`: {what} {verb} not taken: the models of this server read text");
    ApiError::unsupported(at, message)
}
