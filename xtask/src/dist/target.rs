//! [`Target`]: a target of the compiler, and the building of the program for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use super::source_std;
use crate::command::output;

/// Targets with their processor, Debian's name of it, and the usual name of a cross compiler that links for it.
const TARGETS: [Target; 4] = [
    Target { triple: "x86_64-unknown-linux-musl", processor: "x86_64", debian: "amd64" },
    Target { triple: "aarch64-unknown-linux-musl", processor: "aarch64", debian: "arm64" },
    Target { triple: "x86_64-unknown-linux-gnu", processor: "x86_64", debian: "amd64" },
    Target { triple: "aarch64-unknown-linux-gnu", processor: "aarch64", debian: "arm64" },
];

/// A target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) triple: &'static str,
    processor: &'static str,
    /// Name of the architecture in Debian.
    pub(super) debian: &'static str,
}

impl Target {
    /// Returns the target of this name.
    pub(super) fn new(triple: &str) -> Result<Target, String> {
        let known = || TARGETS.map(|target| target.triple).join(", ");
        let found = TARGETS.iter().find(|target| target.triple == triple);
        found.cloned().ok_or_else(|| format!("--target {triple}: not one of {}", known()))
    }

    /// Returns the targets whose programs run on any Linux.
    pub(super) fn usual() -> impl Iterator<Item = Target> {
        TARGETS.into_iter().filter(Target::is_static)
    }

    /// Returns true for programs without shared libraries.
    pub(super) fn is_static(&self) -> bool {
        self.triple.ends_with("musl")
    }

    /// Returns the processor as in the header of a program.
    pub(super) fn machine(&self) -> &'static str {
        self.processor
    }

    /// Returns true if its programs run on this machine.
    pub(super) fn is_native(&self) -> bool {
        self.processor == std::env::consts::ARCH
    }

    /// Returns the C compiler that links for it: the machine's own, or Debian's cross compiler.
    pub(super) fn linker(&self) -> String {
        if self.is_native() { "cc".to_owned() } else { format!("{}-linux-gnu-gcc", self.processor) }
    }

    /// Checks that the program can be built for it.
    ///
    /// # Errors
    /// Missing part of the toolchain, and the package to install.
    pub(super) fn check(&self, build_std: bool) -> Result<(), String> {
        let here = Path::new(".");
        if build_std && self.is_static() {
            source_std::check(self)?;
        } else {
            let folder = output(here, "rustc", &["--print", "target-libdir", "--target", self.triple])?;
            let has_std = std::fs::read_dir(&folder)
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"));
            if !has_std {
                let triple = self.triple;
                let source = if self.is_static() { ", or build it from source with --build-std" } else { "" };
                return Err(format!(
                    "the compiler has no standard library for {triple} ({folder}): \
                     run `rustup target add {triple}`{source}"
                ));
            }
        }
        let linker = self.linker();
        if output(here, &linker, &["--version"]).is_err() {
            return Err(format!(
                "no linker {linker}: install Debian's gcc-{}-linux-gnu",
                self.processor.replace('_', "-")
            ));
        }
        Ok(())
    }

    /// Builds the program, stripped, and returns its path.
    pub(super) fn build(&self, root: &Path, options: &Options) -> Result<PathBuf, String> {
        self.check(options.build_std)?;
        let mut cargo = Command::new("cargo");
        cargo
            .args(["build", "--release", "--locked", "-p", "leyden-cli", "--target", self.triple])
            .current_dir(root);
        let (upper, lower) = (self.triple.to_uppercase().replace('-', "_"), self.triple.replace('-', "_"));
        cargo.env(format!("CARGO_TARGET_{upper}_LINKER"), self.linker());
        cargo.env(format!("CC_{lower}"), self.linker());
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
        // Other targets' builds and tests keep theirs.
        let folder = root.join("target/dist-build");
        cargo.env("CARGO_TARGET_DIR", &folder);
        if options.build_std && self.is_static() {
            source_std::prepare(self, root, &folder, &mut cargo)?;
        }
        println!("building for {}", self.triple);
        let status = cargo.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("the program cannot be built for {}", self.triple));
        }
        Ok(folder.join(self.triple).join("release/leyden"))
    }
}
