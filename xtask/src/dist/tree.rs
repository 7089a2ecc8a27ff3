//! [`Files`]: all files of a target, as an archive and a Debian package lay them out.

use std::path::Path;

use leyden_bundle::{Content, Contents, Program, sbom, third_party};
use sha2::{Digest, Sha256};

use super::pages::Pages;
use super::target::Target;
use super::{VERSION, read};

/// A file of an archive.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Path in the archive.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

/// Files of a target.
pub(super) struct Files<'a> {
    pub(super) program: Vec<u8>,
    /// Licences and notices, by their names.
    pub(super) papers: Vec<(String, Vec<u8>)>,
    pub(super) pages: &'a Pages,
    /// Unit of systemd, for a program in /usr/local/bin.
    pub(super) unit: String,
    /// CycloneDX document.
    pub(super) sbom: Vec<u8>,
}

impl Files<'_> {
    /// Collects the files.
    pub(super) fn new<'a>(
        root: &Path,
        target: &Target,
        program: Vec<u8>,
        pages: &'a Pages,
    ) -> Result<Files<'a>, String> {
        let unit = read(&root.join("packaging/leyden.service"))?;
        let unit = String::from_utf8(unit).map_err(|error| format!("packaging/leyden.service: {error}"))?;
        let papers = third_party::entries().into_iter().filter_map(|entry| match entry.content {
            Content::Bytes(bytes) => Some((entry.name.trim_start_matches("licences/").to_owned(), bytes)),
            Content::File(..) => None,
        });
        let sbom = document(target, &program)?;
        Ok(Files { papers: papers.collect(), program, pages, unit, sbom })
    }

    /// Returns the files of an archive below the folder `name`: `bin`, `lib` and `share`, to be copied to a prefix.
    pub(super) fn archive(&self, name: &str) -> Result<Vec<Item>, String> {
        let item = |path: &str, bytes: &[u8], is_program| Item {
            path: format!("{name}/{path}"),
            bytes: bytes.to_vec(),
            is_program,
        };
        let mut items = vec![
            item("bin/leyden", &self.program, true),
            item("lib/systemd/system/leyden.service", self.unit.as_bytes(), false),
            item("share/doc/leyden/sbom.cdx.json", &self.sbom, false),
        ];
        items.extend(
            self.papers.iter().map(|(paper, bytes)| item(&format!("share/doc/leyden/{paper}"), bytes, false)),
        );
        items.extend(self.pages.iter().map(|(place, bytes)| item(place, bytes, false)));
        items.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(items)
    }
}

/// Returns the list of components, with the program's own SHA-256.
fn document(target: &Target, program: &[u8]) -> Result<Vec<u8>, String> {
    let file = "bin/leyden".to_owned();
    let sum = hex(&Sha256::digest(program));
    let described =
        Program { file: file.clone(), version: VERSION.to_owned(), target: target.triple.to_owned() };
    let document = sbom::document(&Contents::new(Some(described), Vec::new()), VERSION, &[(&file, &sum)]);
    let mut text = serde_json::to_vec_pretty(&document).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(text)
}

/// Returns hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
