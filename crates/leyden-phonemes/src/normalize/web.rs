//! Addresses of the web and of mail, names of files, hash tags and handles.

use super::context::{Context, Kind, Spoken};
use super::mixed;

/// Endings of names of hosts.
const ENDINGS: &[&str] = &[
    "com", "org", "net", "edu", "gov", "io", "ai", "dev", "app", "co", "uk", "de", "fr", "eu", "us", "ca",
    "au", "jp", "ch", "nl", "it", "es", "se", "no", "info", "me", "tv", "xyz", "rs",
];

pub(super) fn address(context: Context<'_>) -> Option<Spoken> {
    let core = context.core();
    let handle = core.strip_prefix(['@', '#']).is_some_and(|name| name.starts_with(char::is_alphabetic));
    let host = core.split(['/', '?', '#', ':', '@']).find(|part| part.contains('.')).unwrap_or_default();
    let ending = host.rsplit('.').next().unwrap_or_default();
    let is_host = host.starts_with(char::is_alphanumeric)
        && ENDINGS.contains(&ending)
        && !host.contains("..")
        && host.len() > ending.len() + 2;
    if !(core.contains("://") || core.starts_with("www.") || is_host || handle) {
        return None;
    }
    let mut spoken = Spoken::default();
    let mut rest = core;
    if handle {
        spoken.push(if core.starts_with('@') { "at" } else { "hashtag" });
        rest = &core[1..];
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        part(&rest[..end], &mut spoken);
        let Some(symbol) = rest[end..].chars().next() else { break };
        match symbol {
            '.' => spoken.push("dot"),
            ':' => spoken.push("colon"),
            '-' => spoken.push("dash"),
            '?' => spoken.push("question mark"),
            ',' => spoken.push("comma"),
            '_' => spoken.push("underscore"),
            _ => mixed::say(&rest[end..end + symbol.len_utf8()], &mut spoken),
        }
        rest = &rest[end + symbol.len_utf8()..];
    }
    Some(spoken)
}

/// Says letters and digits between the signs of an address.
fn part(text: &str, spoken: &mut Spoken) {
    let letters = text.chars().all(|c| c.is_ascii_alphabetic());
    let vowels = text.contains(['a', 'e', 'i', 'o', 'u', 'y', 'A', 'E', 'I', 'O', 'U', 'Y']);
    let spelled = text.len() <= 2
        && !matches!(text, "me" | "in" | "is" | "to" | "of" | "go" | "my" | "us" | "no" | "on" | "at" | "or");
    if letters && !text.is_empty() && (!vowels || spelled) {
        spoken.kinds.push(Kind::Letters(text.to_ascii_uppercase()));
    } else {
        mixed::say(text, spoken);
    }
}
