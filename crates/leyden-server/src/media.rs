//! Refusal of images, audio, videos and files in requests: the models read text only.

use crate::error::ApiError;
use serde_json::Value;

/// Types of parts and outputs in all dialects, with the name of their medium.
const TYPES: &[(&str, &str)] = &[
    ("image", "images"),
    ("image_url", "images"),
    ("input_image", "images"),
    ("image_embeds", "images"),
    ("audio", "audio"),
    ("audio_url", "audio"),
    ("input_audio", "audio"),
    ("video", "videos"),
    ("video_url", "videos"),
    ("input_video", "videos"),
    ("file", "files"),
    ("input_file", "files"),
    ("document", "documents"),
];

/// Types of document sources that are not text.
const SOURCES: &[&str] = &["base64", "url", "file"];

/// Fields with media: Ollama's, llama-server's and vLLM's.
const FIELDS: &[(&str, &str)] = &[
    ("images", "images"),
    ("image", "images"),
    ("image_data", "images"),
    ("image_url", "images"),
    ("multi_modal_data", "images and audio"),
    ("multimodal_data", "images and audio"),
    ("audio_url", "audio"),
    ("input_audio", "audio"),
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
    let verb = if what == "audio" { "is" } else { "are" };
    let message = format!("`{at}`: {what} {verb} not supported: the models of this server read text only");
    ApiError::unsupported(at, message)
}
