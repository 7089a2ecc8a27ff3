//! `cargo xtask wheel`: the Python package, with the native module and the program.
//!
//! Module and program are built by one command, so that they share all crates; a second build with other features would
//! compile most of them again.

use crate::command::output;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the wheel: `[--target TRIPLE] [--out FOLDER]`, by default for this machine and in `target/wheels`. The last
/// line printed is its path.
#[expect(clippy::print_stdout, reason = "the path of the wheel")]
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let (mut target, mut out) = (None, root.join("target/wheels"));
    let mut given = arguments.iter();
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name}: a value is missing"))?;
        match name.as_str() {
            "--target" => target = Some(value.as_str()),
            "--out" => out = PathBuf::from(value),
            _ => return Err(format!("{name}: the options are --target TRIPLE and --out FOLDER")),
        }
    }
    build(root, target)?;
    let folder = target_folder(root)?.join(target.unwrap_or_default()).join("release");
    let (module, program) = (folder.join("libleyden_native.so"), folder.join("leyden"));
    let mut pack = vec!["python/leyden/pack_wheel.py".to_owned()];
    pack.extend([&module, &program, &out].map(|path| path.display().to_string()));
    if let Some(target) = target {
        let machine = target.split('-').next().unwrap_or_default();
        pack.extend(["--machine".to_owned(), machine.to_owned()]);
        pack.extend(target.ends_with("-musl").then(|| "--musl".to_owned()));
    }
    let pack: Vec<&str> = pack.iter().map(String::as_str).collect();
    println!("{}", output(root, "python3", &pack)?);
    Ok(())
}

/// Builds module and program.
fn build(root: &Path, target: Option<&str>) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "leyden-cli", "-p", "leyden-python"]);
    cargo.args(target.into_iter().flat_map(|target| ["--target", target]));
    let status = cargo.current_dir(root).status().map_err(|error| format!("cargo: {error}"))?;
    status.success().then_some(()).ok_or_else(|| "the build failed".to_owned())
}

/// Returns cargo's target folder.
fn target_folder(root: &Path) -> Result<PathBuf, String> {
    let text = output(root, "cargo", &["metadata", "--no-deps", "--format-version=1"])?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let folder = metadata["target_directory"].as_str();
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata names no target_directory".to_owned())
}
