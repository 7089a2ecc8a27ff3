//! Debian packages: an `ar` archive of the format's version and two archives, `deb(5)`.

use std::path::Path;

use super::archive::{gz, tar_gz};
use super::target::Target;
use super::tree::{Files, Item};
use super::{VERSION, read};
use crate::command::output;

/// Person and address in packages; there is no other.
const MAINTAINER: &str = "leyden maintainers <leyden@example.com>";

/// Returns the file name of the package.
pub(super) fn name(target: &Target) -> String {
    format!("leyden_{}_{}.deb", version(target), target.debian)
}

/// Returns the version of the package; a program that needs glibc has another.
fn version(target: &Target) -> String {
    if target.is_static() { VERSION.to_owned() } else { format!("{VERSION}+glibc") }
}

/// Returns the package; `glibc` is the version that the program needs.
pub(super) fn package(
    root: &Path,
    target: &Target,
    files: &Files<'_>,
    glibc: Option<&str>,
    time: u64,
) -> Result<Vec<u8>, String> {
    let data = data(root, files, &version(target))?;
    let size = data.iter().map(|item| item.bytes.len().div_ceil(1024)).sum();
    let control = Item {
        path: "./control".to_owned(),
        bytes: control(target, glibc, size).into_bytes(),
        is_program: false,
    };
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &tar_gz(&[control], time)?),
        ("data.tar.gz", &tar_gz(&data, time)?),
    ];
    let mut package = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        // Name, time, owner, group, mode and size, in columns.
        let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        package.extend_from_slice(header.as_bytes());
        package.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            package.push(b'\n');
        }
    }
    Ok(package)
}

/// Returns the fields of the package.
fn control(target: &Target, glibc: Option<&str>, kibibytes: usize) -> String {
    let depends =
        glibc.map_or_else(String::new, |version| format!("Depends: libc6 (>= {version}), libgcc-s1\n"));
    format!(
        "Package: leyden\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {kibibytes}\n\
         {depends}Recommends: ca-certificates\nSection: science\nPriority: optional\n\
         Description: language models and encoders on processors\n \
         The program leyden runs language models, embedders, rerankers and classifiers\n \
         on CPUs, on the command line and as a server with the interfaces of OpenAI,\n \
         Anthropic and Ollama.\n",
        version(target),
        target.debian
    )
}

/// Returns the files of the package.
fn data(root: &Path, files: &Files<'_>, version: &str) -> Result<Vec<Item>, String> {
    let item = |path: &str, bytes: Vec<u8>| Item {
        path: format!("./{path}"),
        bytes,
        is_program: path == "usr/bin/leyden",
    };
    let unit = files.unit.replace("/usr/local/bin/leyden", "/usr/bin/leyden");
    let date = output(root, "git", &["log", "-1", "--format=%cD"]);
    let date = date.unwrap_or_else(|_| "Thu, 1 Jan 1970 00:00:00 +0000".to_owned());
    let changes = format!(
        "leyden ({version}) unstable; urgency=medium\n\n  * NEWS.md.gz lists the changes.\n\n -- {MAINTAINER}  {date}\n"
    );
    let mut items = vec![
        item("usr/bin/leyden", files.program.clone()),
        item("usr/lib/systemd/system/leyden.service", unit.into_bytes()),
        item("usr/share/doc/leyden/sbom.cdx.json", files.sbom.clone()),
        item("usr/share/doc/leyden/changelog.gz", gz(changes.as_bytes())?),
        item("usr/share/doc/leyden/NEWS.md.gz", gz(&read(&root.join("CHANGELOG.md"))?)?),
        item("usr/share/doc/leyden/copyright", copyright(files)),
    ];
    for (paper, bytes) in files.papers.iter().filter(|(paper, _)| paper != "LICENSE") {
        items.push(item(&format!("usr/share/doc/leyden/{paper}"), bytes.clone()));
    }
    for (place, bytes) in files.pages {
        if place.starts_with("share/man/") {
            items.push(item(&format!("usr/{place}.gz"), gz(bytes)?));
        } else {
            // Debian's zsh reads its vendors' functions from another folder.
            items.push(item(
                &format!("usr/{}", place.replace("site-functions", "vendor-completions")),
                bytes.clone(),
            ));
        }
    }
    items.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(items)
}

/// Returns the file about licences in Debian's machine-readable form.
fn copyright(files: &Files<'_>) -> Vec<u8> {
    let notice = files
        .papers
        .iter()
        .find(|(name, _)| name == "NOTICE")
        .map(|(_, bytes)| &bytes[..])
        .unwrap_or_default();
    let notice = String::from_utf8_lossy(notice);
    let line = |line: &str| {
        if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {}\n", line.trim_end()) }
    };
    let comment: String = notice.lines().map(line).collect();
    format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: leyden\n\n\
         Files: *\nCopyright: the authors of leyden\nLicense: Apache-2.0\nComment:\n{comment} .\n \
         THIRD-PARTY.txt has the licences of the crates in the program, WEB-PAGE.txt those of the web page.\n\n\
         License: Apache-2.0\n On Debian systems, the text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.\n"
    )
    .into_bytes()
}
