//! `cargo xtask dist`: archives, a Debian package, checksums, an SBOM and signatures of a release.
//!
//! All files of a target follow from the program, the repository and the time of the last commit: the same commit and compiler
//! give the same bytes. Static programs for musl run on any Linux; those for glibc need the version that the report names.

mod archive;
mod deb;
mod elf;
mod options;
mod pages;
mod release;
mod source_std;
mod target;
mod tree;

use std::path::{Path, PathBuf};

use leyden_files::OutputOptions;

use options::Options;
use release::Release;
use target::Target;

use crate::command::output;

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes the release.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(root, arguments)?;
    let time = commit_time(root);
    let mut release = Release::new(&options.out)?;
    let mut pages = None;
    for target in options.targets()? {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => target.build(root, &options)?,
        };
        add(root, &mut release, &target, &program, &mut pages, &options, time)?;
    }
    add_installer(root, &mut release, &options)?;
    release.add("Dockerfile", &read(&root.join("packaging/Dockerfile.release"))?)?;
    release.add("volumes.tar", &archive::volumes(time)?)?;
    if options.wheel {
        let task = crate::TASKS.iter().find(|task| task.name == "wheel");
        let task = task.ok_or("--wheel: this repository has no task `wheel`")?;
        (task.run)(root, &["--out".to_owned(), options.out.display().to_string()])?;
        release.add_wheels()?;
    }
    release.sign(options.key.as_deref())
}

/// Adds the files of one target to the release.
fn add(
    root: &Path,
    release: &mut Release,
    target: &Target,
    program: &Path,
    pages: &mut Option<pages::Pages>,
    options: &Options,
    time: u64,
) -> Result<(), String> {
    let bytes = read(program)?;
    let facts = elf::facts(&bytes).map_err(|what| format!("{}: {what}", program.display()))?;
    if facts.machine != target.machine() {
        let (found, wanted) = (facts.machine, target.machine());
        return Err(format!("{}: for {found}, and {} needs {wanted}", program.display(), target.triple));
    }
    if pages.is_none() {
        let runner = options.pages.as_deref().unwrap_or(program);
        *pages = Some(pages::of(runner, options.runner.as_deref()).map_err(|what| {
            format!("{what}\nhint: `--pages PROGRAM` names a leyden that runs here, for completions and manual pages; \
                     `--runner \"qemu-aarch64 -cpu max\"` runs one of another processor")
        })?);
    }
    let pages = pages.as_ref().ok_or("no manual pages")?;
    let files = tree::Files::new(root, target, bytes, pages)?;
    let name = format!("leyden-{VERSION}-{}", target.triple);
    release.add(&format!("{name}.tar.gz"), &archive::tar_gz(&files.archive(&name)?, time)?)?;
    release.add(&format!("{name}.cdx.json"), &files.sbom)?;
    let needs = facts.glibc.as_deref();
    release.add(&deb::name(target), &deb::package(root, target, &files, needs, time)?)?;
    let libc = match needs {
        None => "static".to_owned(),
        Some(version) => format!("needs glibc {version} or newer"),
    };
    println!("{}: {} bytes, {libc}", target.triple, files.program.len());
    Ok(())
}

/// Adds the install script; with a key, its digits stand in it.
fn add_installer(root: &Path, release: &mut Release, options: &Options) -> Result<(), String> {
    let script = String::from_utf8(read(&root.join("packaging/install.sh"))?).map_err(|e| e.to_string())?;
    let version = script.replace("\nversion=\n", &format!("\nversion={VERSION}\n"));
    let script = match &options.key {
        Some(path) => version.replace("\nkey=\n", &format!("\nkey={}\n", release::key(path)?.id())),
        None => version,
    };
    release.add("install.sh", script.as_bytes())
}

/// Returns the time of the last commit in seconds since 1970; 0 outside a repository.
fn commit_time(root: &Path) -> u64 {
    let told = output(root, "git", &["log", "-1", "--format=%ct"]);
    told.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: cannot read: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let written = leyden_files::write(path, bytes, OutputOptions::new().files_only());
    written.map_err(|error| format!("{}: cannot write: {error}", path.display()))
}

/// Makes a folder with those above it.
fn make_folder(path: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: cannot create: {error}", path.display()))?;
    std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}
