//! Licences of models, as their files state them.

use std::path::Path;

/// Maximum size of a licence file or model card in bytes; longer ones are left out.
const MAX_BYTES: u64 = 1 << 20;

/// Returns true for the name of a file with a licence, or a notice that belongs to one.
#[must_use]
pub fn is_licence_file(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "NOTICE", "USE_POLICY"].iter().any(|begin| name.starts_with(begin))
}

/// Returns the licence in the head of a model card: `license_name` if there is one, else `license`.
///
/// ```
/// use leyden_bundle::licence::of_card;
/// assert_eq!(of_card("---\nlicense: apache-2.0\n---\n# Model"), Some("apache-2.0".to_owned()));
/// assert_eq!(of_card("---\nlicense: other\nlicense_name: mine\n---\n"), Some("mine".to_owned()));
/// assert_eq!(of_card("license: mit"), None);
/// ```
#[must_use]
pub fn of_card(text: &str) -> Option<String> {
    let mut lines = text.lines();
    (lines.next()?.trim() == "---").then_some(())?;
    let head: Vec<&str> = lines.take_while(|line| line.trim() != "---").collect();
    let value = |key: &str| {
        let rest = head.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        Some(rest.trim().trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    value("license_name").or_else(|| value("license"))
}

/// Reads a small text; `None` if it is missing, large or no text.
#[must_use]
pub fn read_small(path: &Path) -> Option<String> {
    let is_small = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MAX_BYTES);
    is_small.then(|| std::fs::read_to_string(path).ok())?
}
