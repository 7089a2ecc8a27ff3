//! The standard library of a musl target from the compiler's source, where the toolchain brings none.
//!
//! The compiler is Debian's (`rustc-web` with `rust-web-src`, whose source has the library's dependencies too). A folder like
//! its own gets what a musl target keeps beside its library: musl's start files and C library (`musl-dev`), and GCC's unwinder.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::target::Target;
use super::{make_folder, write};
use crate::command::output;

/// Debian's compiler.
const COMPILER: &str = "/usr/bin/rustc";
/// Files of musl.
const MUSL: [&str; 5] = ["rcrt1.o", "crt1.o", "crti.o", "crtn.o", "libc.a"];
/// Files of GCC.
const GCC: [&str; 4] = ["crtbeginS.o", "crtendS.o", "crtbegin.o", "crtend.o"];

/// Checks that the packages are there.
///
/// # Errors
/// The package that is missing.
pub(super) fn check(target: &Target) -> Result<(), String> {
    let sysroot = output(Path::new("."), COMPILER, &["--print", "sysroot"])
        .map_err(|_| format!("--build-std: no {COMPILER}: install Debian's rustc-web"))?;
    if !Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock").exists() {
        return Err(
            "--build-std: no source of the standard library: install Debian's rust-web-src".to_owned()
        );
    }
    if !musl(target).join("libc.a").exists() {
        let folder = musl(target);
        return Err(format!(
            "--build-std: no {}/libc.a: install Debian's musl-dev:{}, or unpack it (`dpkg -x`)",
            folder.display(),
            target.debian
        ));
    }
    Ok(())
}

fn musl(target: &Target) -> PathBuf {
    PathBuf::from(format!("/usr/lib/{}-linux-musl", target.machine()))
}

/// Makes the compiler's folder below `folder`, and has cargo use it.
pub(super) fn prepare(
    target: &Target,
    root: &Path,
    folder: &Path,
    cargo: &mut Command,
) -> Result<(), String> {
    let place = make_folder(&folder.join("sysroot").join(target.triple))?;
    let own = output(root, COMPILER, &["--print", "sysroot"])?;
    let rustlib = make_folder(&place.join("lib/rustlib"))?;
    for part in ["src", "etc", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)] {
        link(&Path::new(&own).join("lib/rustlib").join(part), &rustlib.join(part))?;
    }
    let libraries = make_folder(&rustlib.join(target.triple).join("lib/self-contained"))?;
    for name in MUSL {
        link(&musl(target).join(name), &libraries.join(name))?;
    }
    let linker = target.linker();
    let of_gcc = |name: &str| output(root, &linker, &[&format!("-print-file-name={name}")]);
    for name in GCC {
        link(Path::new(&of_gcc(name)?), &libraries.join(name))?;
    }
    unwinder(root, target, &of_gcc("libgcc_eh.a")?, &libraries)?;
    let wrapper = place.join("rustc");
    write(
        &wrapper,
        format!("#!/bin/sh\nexec {COMPILER} --sysroot '{}' \"$@\"\n", place.display()).as_bytes(),
    )?;
    output(root, "chmod", &["755", &wrapper.display().to_string()])?;
    cargo.args(["-Zbuild-std=std,panic_unwind"]);
    cargo.env("RUSTC", &wrapper).env("RUSTC_BOOTSTRAP", "1");
    // Cargo of a stable toolchain takes -Z as that of a nightly one does.
    cargo.env("__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS", "nightly");
    Ok(())
}

/// Makes the unwinder: GCC's with the function of glibc that it asks for.
fn unwinder(root: &Path, target: &Target, gcc: &str, libraries: &Path) -> Result<(), String> {
    let (object, archive) = (libraries.join("find_object.o"), libraries.join("libunwind.a"));
    let (object, archive_name) = (object.display().to_string(), archive.display().to_string());
    output(root, &target.linker(), &["-O2", "-Wall", "-c", "packaging/static/find_object.c", "-o", &object])?;
    let bytes = super::read(Path::new(gcc))?;
    write(&archive, &bytes)?;
    output(root, "ar", &["r", &archive_name, &object])?;
    Ok(())
}

/// Links to a file or folder, in the place of an older link.
fn link(from: &Path, to: &Path) -> Result<(), String> {
    if !from.exists() {
        return Err(format!("--build-std: {}: not there", from.display()));
    }
    let from = std::fs::canonicalize(from).map_err(|error| format!("{}: {error}", from.display()))?;
    let _ = std::fs::remove_file(to);
    std::os::unix::fs::symlink(&from, to).map_err(|error| format!("{}: {error}", to.display()))
}
