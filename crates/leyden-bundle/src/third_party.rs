//! Other people's crates in the program, with their licences.
//!
//! `cargo xtask third-party` writes the list, from `Cargo.lock` and the packages themselves; a test of it compares them.

use std::fmt::Write;

use crate::entry::Entry;

const LIST: &str = include_str!("../data/third_party.tsv");
/// Texts of the licences under which crates are used, by their names in SPDX.
const TEXTS: [(&str, &str); 9] = [
    ("Apache-2.0", include_str!("../../../LICENSE")),
    ("MIT", include_str!("../data/licences/MIT.txt")),
    ("MIT-0", include_str!("../data/licences/MIT-0.txt")),
    ("BSD-3-Clause", include_str!("../data/licences/BSD-3-Clause.txt")),
    ("BSL-1.0", include_str!("../data/licences/BSL-1.0.txt")),
    ("ISC", include_str!("../data/licences/ISC.txt")),
    ("MPL-2.0", include_str!("../data/licences/MPL-2.0.txt")),
    ("Unicode-3.0", include_str!("../data/licences/Unicode-3.0.txt")),
    ("Zlib", include_str!("../data/licences/Zlib.txt")),
];

/// A crate in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Name.
    pub name: &'static str,
    /// Version.
    pub version: &'static str,
    /// Licence as an expression of SPDX.
    pub licence: &'static str,
    /// SHA-256 of the package.
    pub sha256: &'static str,
    /// Address of the source.
    pub repository: &'static str,
    /// Lines about copyright in its licence files.
    pub copyright: &'static str,
}

/// Returns the crates in the order of their names.
///
/// ```
/// let all = leyden_bundle::third_party::all();
/// assert!(all.iter().any(|one| one.name == "serde_json" && one.licence == "MIT OR Apache-2.0"));
/// ```
#[must_use]
pub fn all() -> Vec<Crate> {
    let parse = |line: &'static str| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap_or_default();
        Crate {
            name: next(),
            version: next(),
            licence: next(),
            sha256: next(),
            repository: next(),
            copyright: next(),
        }
    };
    LIST.lines().skip(1).map(parse).collect()
}

/// Returns the entries with the licences of the program and of the crates in it.
#[must_use]
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::bytes("licences/LICENSE", include_str!("../../../LICENSE")),
        Entry::bytes("licences/NOTICE", include_str!("../../../NOTICE")),
        Entry::bytes("licences/THIRD-PARTY.txt", text()),
        Entry::bytes("licences/WEB-PAGE.txt", include_str!("../../leyden-server/web/licences.txt")),
    ]
}

/// Returns the list for people, followed by the texts of the licences.
fn text() -> String {
    let mut text = String::from(
        "Crates in the program, with the licences that each offers (expressions of SPDX). The texts of the licences follow\n\
         the list. WEB-PAGE.txt has the licences of the code in the web page, NOTICE those of the embedded model and data.\n\n",
    );
    // Writing to a text does not fail.
    for one in all() {
        let _ = writeln!(text, "{} {}: {}", one.name, one.version, one.licence);
        for line in
            [one.repository].into_iter().chain(one.copyright.split("; ")).filter(|line| !line.is_empty())
        {
            let _ = writeln!(text, "    {line}");
        }
    }
    for (name, licence) in TEXTS {
        let _ = write!(text, "\n\n---------- {name} ----------\n\n{licence}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_has_a_licence_whose_text_is_there() {
        let all = all();
        assert!(all.len() > 100, "{}", all.len());
        for one in &all {
            assert!(!one.name.is_empty() && !one.version.is_empty() && one.sha256.len() == 64, "{one:?}");
            let has_text =
                |name: &str| TEXTS.iter().any(|(known, _)| *known == name.trim_matches(['(', ')']));
            for part in one.licence.split(" AND ") {
                assert!(part.split(" OR ").any(has_text), "{one:?}");
            }
        }
        let text = text();
        assert!(text.contains("Permission is hereby granted") && text.contains("serde_json 1"));
    }
}
