//! Software bill of materials in CycloneDX's JSON.

use serde_json::{Value, json};

use crate::contents::{Contents, below};
use crate::third_party;

/// Name of the entry.
pub const NAME: &str = "sbom.cdx.json";

/// A file of the bundle: name and SHA-256.
pub type File<'a> = (&'a str, &'a str);

/// Returns the document: the program with its crates, and the models with their files. It has no time and no serial number,
/// so that it follows from the contents.
///
/// ```
/// use leyden_bundle::{Contents, sbom};
/// let document = sbom::document(&Contents::new(None, Vec::new()), "1.0", &[]);
/// assert_eq!((&document["bomFormat"], &document["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
/// ```
#[must_use]
pub fn document(contents: &Contents, version: &str, files: &[File<'_>]) -> Value {
    let hash = |sha256: &str| json!([{ "alg": "SHA-256", "content": sha256 }]);
    let of = |name: &str| files.iter().find(|(known, _)| *known == name).map(|(_, sha256)| *sha256);
    let mut program = json!({
        "type": "application",
        "bom-ref": "leyden",
        "name": "leyden",
        "version": version,
        "licenses": [{ "license": { "id": "Apache-2.0" } }],
    });
    if let Some(sha256) = contents.program.as_ref().and_then(|program| of(&program.file)) {
        program["hashes"] = hash(sha256);
    }
    let crates = third_party::all();
    let library = |one: &third_party::Crate| {
        let purl = format!("pkg:cargo/{}@{}", one.name, one.version);
        let mut component = json!({
            "type": "library",
            "bom-ref": purl,
            "name": one.name,
            "version": one.version,
            "hashes": hash(one.sha256),
            "licenses": [{ "expression": one.licence }],
            "purl": purl,
        });
        if !one.copyright.is_empty() {
            component["copyright"] = one.copyright.into();
        }
        if one.repository.starts_with("https://") {
            component["externalReferences"] = json!([{ "type": "vcs", "url": one.repository }]);
        }
        component
    };
    let mut components: Vec<Value> = crates.iter().map(library).collect();
    for (i, model) in contents.models.iter().enumerate() {
        let inside = |(name, sha256): &File<'_>| {
            let name = below(name, &model.folder)?;
            Some(json!({ "type": "file", "name": name, "hashes": hash(sha256) }))
        };
        let mut component = json!({
            "type": "machine-learning-model",
            "bom-ref": format!("model-{i}"),
            "name": model.name,
            "components": files.iter().filter_map(inside).collect::<Vec<Value>>(),
        });
        if let Some(licence) = &model.licence {
            component["licenses"] = json!([{ "license": { "name": licence } }]);
        }
        if let Some(hub) = &model.hub {
            component["version"] = hub.commit[..].into();
            component["purl"] = format!("pkg:huggingface/{}@{}", hub.repo, hub.commit).into();
        }
        components.push(component);
    }
    let references: Vec<&Value> = components.iter().map(|component| &component["bom-ref"]).collect();
    let crates: Vec<&&Value> =
        references.iter().filter(|r| r.as_str().is_some_and(|r| r.starts_with("pkg:"))).collect();
    let dependencies = json!([{ "ref": "leyden", "dependsOn": crates }]);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": program },
        "components": components,
        "dependencies": dependencies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::{Hub, Model};

    #[test]
    fn models_have_their_files() {
        let hub = Hub {
            repo: "org/repo".to_owned(),
            revision: "main".to_owned(),
            commit: "0a".repeat(20),
            format: "gguf".to_owned(),
        };
        let model = Model {
            name: "m".to_owned(),
            folder: "models/m".to_owned(),
            main: None,
            hub: Some(hub),
            defaults: None,
            licence: Some("apache-2.0".to_owned()),
            evidence: None,
            calibrations: Vec::new(),
        };
        let contents = Contents::new(None, vec![model]);
        let sums = ["ab".repeat(32), "cd".repeat(32)];
        let document = document(&contents, "1", &[("models/m/a", &sums[0]), ("models/m2/b", &sums[1])]);
        let last = document["components"].as_array().unwrap().last().unwrap();
        assert_eq!(last["components"].as_array().unwrap().len(), 1);
        assert_eq!(last["components"][0]["hashes"][0]["content"], sums[0]);
        assert_eq!(last["purl"], format!("pkg:huggingface/org/repo@{}", "0a".repeat(20)));
    }
}
