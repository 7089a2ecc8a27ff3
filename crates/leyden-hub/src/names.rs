//! Names from outside that become parts of paths and addresses.
//!
//! Everything that is joined to the store's folder is checked here, whether a user, the hub or a record in the store
//! wrote it. A short list of characters is allowed; nothing is repaired, because two repaired names could be equal.

/// Maximum length of the name of an organisation or a repository; the hub's own limit.
const LONGEST_PART: usize = 96;
/// Maximum length of a path component; file systems end at 255 bytes.
const LONGEST_COMPONENT: usize = 200;
/// Maximum depth of a file's folder in a repository.
const DEEPEST: usize = 8;

/// Checks the name of an organisation or a repository.
pub(crate) fn check_part(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a part is empty");
    }
    if name.len() > LONGEST_PART {
        return Err("a part is longer than 96 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return Err("only letters of ASCII, digits and . _ - are allowed");
    }
    if name.starts_with(['.', '-']) || name.ends_with('.') || name.contains("..") {
        return Err("a part begins with . or -, ends with . or contains ..");
    }
    Ok(())
}

/// Checks the path of a file inside a repository.
pub(crate) fn check_file(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("it is empty");
    }
    if path.starts_with('/') {
        return Err("it is an absolute path");
    }
    if path.split('/').count() > DEEPEST {
        return Err("its folders are nested too deeply");
    }
    for component in path.split('/') {
        if component == ".." {
            return Err("it leads out of its folder");
        }
        if component.is_empty() || component.starts_with(['.', '-']) || component.ends_with('.') {
            return Err("a component is empty, begins with . or -, or ends with .");
        }
        if component.len() > LONGEST_COMPONENT {
            return Err("a component is longer than 200 characters");
        }
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-+=@,()[]~".contains(&b);
        if !component.bytes().all(allowed) {
            return Err("only letters of ASCII, digits and . _ - + = @ , ( ) [ ] ~ are allowed");
        }
    }
    Ok(())
}

/// Checks the name of a branch, a tag or a commit.
pub(crate) fn check_revision(revision: &str) -> Result<(), &'static str> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
    let odd = |part: &str| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with('.');
    if revision.len() > LONGEST_COMPONENT || !revision.bytes().all(allowed) {
        return Err("a revision has at most 200 letters of ASCII, digits and . _ - /");
    }
    if revision.contains("..") || revision.split('/').any(odd) {
        return Err("a part of the revision is empty, begins with . or -, or ends with .");
    }
    Ok(())
}

/// Returns true if the text is a full commit id, which the store uses as the name of a folder.
pub(crate) fn is_commit(text: &str) -> bool {
    is_hex(text, 20)
}

/// Returns true if the text is `bytes` bytes in lower-case hexadecimal digits.
pub(crate) fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Formats bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(if n < 10 { b'0' + n } else { b'a' + n - 10 });
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Percent-encodes a path or revision for an address; `/` is kept if `keep_slash` is true.
pub(crate) fn percent_encoded(text: &str, keep_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slash && byte == b'/');
        if plain {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded += &hex(&[byte]).to_ascii_uppercase();
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_repositories() {
        for good in ["bartowski", "Llama-3.2-1B-Instruct-GGUF", "a", "0x_y", "a--b"] {
            assert_eq!(check_part(good), Ok(()), "{good}");
        }
        let long = "a".repeat(97);
        for bad in ["", ".", "..", ".a", "-a", "a..b", "a.", "a/b", "a b", "ä", "a\\b", "a\0", "a%2e", &long]
        {
            assert!(check_part(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn files_of_repositories() {
        for good in ["a.gguf", "Q4_K_M/a-00001-of-00002.gguf", "a+b=c@d,(e)[f]~.json", "LICENSE"] {
            assert_eq!(check_file(good), Ok(()), "{good}");
        }
        let long = "a".repeat(201);
        let deep = "a/".repeat(8) + "a";
        let bad = [
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
            "-a",
            ".a",
            "a/.b",
            "a.",
            "a b",
            "a\\b",
            "..\\a",
            "C:\\a",
            "C:a",
            "a\0",
            "a\n",
            "a\u{202e}b",
            "ä",
            "a%2e",
            "a*",
            "a?",
            "a|b",
            "a;b",
            "a$b",
            "`a`",
            "a'b",
            "a\"b",
            "a<b",
            "a:b",
            &long,
            &deep,
        ];
        for bad in bad {
            assert!(check_file(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn revisions() {
        for good in ["main", "refs/pr/1", "v1.0", "0123456789abcdef0123456789abcdef01234567"] {
            assert_eq!(check_revision(good), Ok(()), "{good}");
        }
        for bad in ["", "/", "a/", "/a", "..", "a/../b", "a..b", "a b", "-a", "a?b", "a#b", "a%2fb"] {
            assert!(check_revision(bad).is_err(), "{bad:?}");
        }
        assert!(is_commit(&"0a".repeat(20)));
        assert!(!is_commit(&"0A".repeat(20)) && !is_commit("0a") && !is_commit(&"..".repeat(20)));
    }

    #[test]
    fn addresses() {
        assert_eq!(percent_encoded("a b/ü+%.gguf", true), "a%20b/%C3%BC%2B%25.gguf");
        assert_eq!(percent_encoded("refs/pr/1", false), "refs%2Fpr%2F1");
        assert_eq!(hex(&[0, 0x9a, 0xff]), "009aff");
    }
}
