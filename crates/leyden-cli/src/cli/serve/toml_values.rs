//! Values in the file of `--config`, and errors about its keys.

use toml::Value;

/// Returns the text of a value, which must not be empty.
pub(super) fn text(value: &Value) -> Result<&str, String> {
    value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| "must be a text".to_owned())
}

/// Returns the error for an unknown key, with a similar known one.
pub(super) fn unknown(key: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<&str> = known.collect();
    let like = |name: &&&str| strsim::jaro_winkler(key, name);
    let nearest = known.iter().max_by(|a, b| like(a).total_cmp(&like(b)));
    match nearest.filter(|name| like(name) > 0.75) {
        Some(name) => format!("{key}: unknown setting; did you mean `{name}`?"),
        None => format!("{key}: unknown setting; known: {}", known.join(", ")),
    }
}
