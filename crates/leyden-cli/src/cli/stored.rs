//! Models of the store in `--json`.

use leyden_hub::{Contents, Model, Named};
use serde_json::{Value, json};

/// Returns the JSON object of a model.
pub(super) fn object(model: &Model) -> Value {
    let files: Vec<Value> = model
        .files
        .iter()
        .map(|file| json!({ "path": file.path, "bytes": file.bytes, "sha256": file.sha256 }))
        .collect();
    json!({
        "name": model.name,
        "path": model.path.display().to_string(),
        "format": model.format.name(),
        "bytes": model.bytes(),
        "repo": model.repo.to_string(),
        "revision": model.revision,
        "commit": model.commit,
        "pulled": model.pulled,
        "damage": model.damage,
        "digest": model.digest(),
        "files": files,
    })
}

/// Returns the JSON object of a model, with its short name.
pub(super) fn listed(model: &Model, contents: &Contents) -> Value {
    let mut object = object(model);
    object["short_name"] = model.short_name(&contents.models).into();
    object
}

/// Returns the JSON object of a model named by the user.
pub(super) fn named(model: &Named) -> Value {
    json!({
        "name": model.name, "path": model.path.display().to_string(), "bytes": model.bytes(), "from": model.from,
        "created": model.created, "digest": model.digest(), "damage": model.damage, "defaults": model.defaults,
    })
}
