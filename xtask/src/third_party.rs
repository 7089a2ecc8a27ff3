//! `cargo xtask third-party`: the list of other people's crates in the program, with their licences.
//!
//! `leyden bundle` writes it into bundles, as a text and as components of the SBOM.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::command::output;

/// File with the list.
const FILE: &str = "crates/leyden-bundle/data/third_party.tsv";
/// Targets for which the program is built.
const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// Writes the list.
pub(crate) fn run(root: &Path, _: &[String]) -> Result<(), String> {
    let (text, path) = (list(root)?, root.join(FILE));
    std::fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{FILE}: {} crates", text.lines().count() - 1);
    Ok(())
}

/// Returns the list: name, version, licence, SHA-256 of the package, repository, and lines about copyright.
fn list(root: &Path) -> Result<String, String> {
    let mut linked = BTreeSet::new();
    let mut packages = BTreeMap::new();
    for target in TARGETS {
        linked.extend(crates(root, target)?);
        let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
        let metadata: Value =
            serde_json::from_str(&output(root, "cargo", &arguments)?).map_err(|e| e.to_string())?;
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
            packages.insert((text("name"), text("version")), package.clone());
        }
    }
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|e| format!("Cargo.lock: {e}"))?;
    let sums = checksums(&lock);
    let mut all = String::from("name\tversion\tlicence\tsha256\trepository\tcopyright\n");
    for key in linked {
        let (name, version) = &key;
        let package =
            packages.get(&key).ok_or_else(|| format!("{name} {version}: not in cargo's metadata"))?;
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let sum = sums.get(&key).ok_or_else(|| format!("{name} {version}: no checksum in Cargo.lock"))?;
        if text("license").is_empty() {
            return Err(format!("{name} {version}: it states no licence"));
        }
        // An old way to write `OR`.
        let licence = text("license").replace('/', " OR ");
        let folder = Path::new(text("manifest_path")).parent().unwrap_or(root);
        let copyright = copyright(folder).join("; ");
        all += &[name, version, &licence, sum, text("repository"), &copyright].join("\t");
        all.push('\n');
    }
    Ok(all)
}

/// Returns the crates from the registry that the program contains: name and version.
fn crates(root: &Path, target: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked", "-p", "leyden-cli", "-e", "normal,no-proc-macro"]);
    cargo.args(["--prefix", "none", "--no-dedupe", "--format", "{p}", "--target", target]);
    // Tests and tools of the workspace would add features.
    let found = cargo.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION").current_dir(root).output();
    let found = found.map_err(|e| format!("cargo: {e}"))?;
    if !found.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&found.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&found.stdout);
    // Crates of the workspace have a path behind their version.
    let others = text.lines().filter(|line| !line.contains(" (/") && !line.is_empty());
    let parsed = others.filter_map(|line| {
        let (name, version) = line.split_once(" v")?;
        Some((name.to_owned(), version.split(' ').next()?.to_owned()))
    });
    Ok(parsed.collect())
}

/// Returns the checksums of packages in `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")));
        line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
    };
    let blocks = lock.split("[[package]]").filter_map(|block| {
        Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
    });
    blocks.collect()
}

/// Returns the lines about copyright in a package's licence files, each once.
fn copyright(folder: &Path) -> Vec<String> {
    const MAX_LINES: usize = 8;
    let mut files: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.sort();
    let is_licence = |path: &&std::path::PathBuf| {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().to_uppercase());
        ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"]
            .iter()
            .any(|begin| name.starts_with(begin))
    };
    let mut lines: Vec<String> = Vec::new();
    for path in files.iter().filter(is_licence) {
        let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        for line in text.unwrap_or_default().lines().map(str::trim) {
            // Licences speak of copyright too; a notice has a year, a sign or a holder behind the word.
            let notice = line.strip_prefix("Copyright").filter(|rest| rest.starts_with([' ', ':']));
            let is_notice = notice.is_some_and(|rest| {
                !["[yyyy]", "{yyyy}", " License", " notice", " and ", " owner", " holder"]
                    .iter()
                    .any(|other| rest.contains(other))
            });
            if is_notice && lines.len() < MAX_LINES && !lines.iter().any(|known| known == line) {
                lines.push(line.replace('\t', " "));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let there = std::fs::read_to_string(root.join(FILE)).unwrap();
        assert!(there == list(&root).unwrap(), "{FILE} is not what `cargo xtask third-party` writes");
        let names: BTreeSet<&str> = there.lines().filter_map(|line| line.split('\t').next()).collect();
        for inside in ["serde_json", "ed25519-dalek", "tokio", "rustls"] {
            assert!(names.contains(inside), "{inside}");
        }
        for outside in ["proptest", "shuttle", "syn", "leyden-cli"] {
            assert!(!names.contains(outside), "{outside}");
        }
    }

    #[test]
    fn checksums_are_read() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = \"s\"\nchecksum = \"ff\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1\"\n";
        let sums = checksums(lock);
        assert_eq!(sums.len(), 1);
        assert_eq!(sums[&("a".to_owned(), "1.0".to_owned())], "ff");
    }
}
