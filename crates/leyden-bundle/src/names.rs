//! Names of entries: which are allowed, and those with a meaning.
//!
//! A name becomes a path on the machine of the receiver, so it is checked when a bundle is written and again when it is read.

use std::collections::BTreeSet;

/// Envelope with the signed statement: the first entry.
pub(crate) const SIGNATURE: &str = "bundle.sig";
/// Public key of the signature in PEM, for openssl.
pub(crate) const KEY: &str = "key.pem";
/// Checksums of all other entries, for `sha256sum -c`.
pub(crate) const CHECKSUMS: &str = "SHA256SUMS";
/// Description of program and models.
pub(crate) const CONTENTS: &str = "bundle.json";
/// Explanation for people.
pub(crate) const README: &str = "README.txt";
/// Folder of programs, the only entries that are executable.
pub(crate) const PROGRAMS: &str = "bin/";

/// Maximum number of folders around an entry.
const MAX_DEPTH: usize = 8;
/// Maximum length of a folder's or file's name in bytes.
const MAX_PART_BYTES: usize = 100;
/// Maximum length of a name in bytes: with parts of 100 bytes, it fits the two fields of a header however it is divided.
const MAX_BYTES: usize = 155;

/// Checks the name of an entry.
///
/// # Errors
/// The rule that it breaks.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > MAX_BYTES {
        return Err("a name has 1 to 155 bytes");
    }
    if name.starts_with('/') {
        return Err("it is an absolute path");
    }
    if name.split('/').any(|part| part == "..") {
        return Err("it leads out of its folder");
    }
    if name.split('/').count() > MAX_DEPTH {
        return Err("its folders are nested too deeply");
    }
    for part in name.split('/') {
        if part.is_empty() || part.starts_with(['.', '-']) || part.ends_with('.') {
            return Err("a part is empty, begins with . or -, or ends with .");
        }
        if part.len() > MAX_PART_BYTES {
            return Err("a part is longer than 100 bytes");
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-+=@,()[]~".contains(&b);
        if !part.bytes().all(allowed) {
            return Err("only letters of ASCII, digits and . _ - + = @ , ( ) [ ] ~ are allowed");
        }
    }
    Ok(())
}

/// Checks names of one bundle: each by itself, sorted, none twice, and none the folder of another.
///
/// # Errors
/// The name, and the rule that it breaks.
pub(crate) fn check_all<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), (&'a str, &'static str)> {
    let mut last = "";
    let mut folders = BTreeSet::new();
    for name in names.clone() {
        check_name(name).map_err(|why| (name, why))?;
        if name == SIGNATURE {
            return Err((name, "it cannot state its own checksum"));
        }
        if name <= last {
            return Err((name, "it is there twice, or not in the order of the names"));
        }
        last = name;
        folders.extend(name.match_indices('/').map(|(at, _)| &name[..at]));
    }
    match names.into_iter().find(|name| folders.contains(name)) {
        Some(name) => Err((name, "it is a file and a folder")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in ["a", "models/m/1_Pooling/config.json", "bin/leyden", "a+b=c@d,(e)[f]~.json"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let (long, deep) = ("a".repeat(101), "a/".repeat(8) + "a");
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            ".a",
            "a/.b",
            "-a",
            "a.",
            "a b",
            "a\\b",
            "C:a",
            "a\0",
            "a\n",
            "ä",
            "a\u{202e}b",
            &long,
            &deep,
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_of_a_bundle_are_sorted_and_differ() {
        let check = |names: &[&'static str]| check_all(names.iter().copied()).map_err(|(name, _)| name);
        assert_eq!(check(&["README.txt", "a", "a-b", "b/c", "b/d"]), Ok(()));
        assert_eq!(check(&["b", "a"]), Err("a"));
        assert_eq!(check(&["a", "a"]), Err("a"));
        assert_eq!(check(&["a", "a-b", "a/b"]), Err("a"));
        assert_eq!(check(&["a", "bundle.sig"]), Err("bundle.sig"));
    }
}
