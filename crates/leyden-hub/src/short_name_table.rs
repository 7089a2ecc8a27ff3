//! Table of short names in `short_names.txt`: one model per line, its names in the first column, separated by commas.

/// Table of short names.
const TABLE: &str = include_str!("short_names.txt");

/// Minimum similarity of a suggestion to the typed text.
const NEAR: f64 = 0.84;

/// Returns the lines of the table, without comments.
pub(crate) fn rows() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

/// Returns the short name most similar to the typed text, if any is similar enough.
pub(crate) fn near(typed: &str) -> Option<&'static str> {
    let typed = typed.to_ascii_lowercase();
    let mut best: Option<(f64, &'static str)> = None;
    let names = rows().filter_map(|row| row.split_whitespace().next()).flat_map(|names| names.split(','));
    for name in names {
        let likeness = strsim::jaro_winkler(&typed, name);
        if likeness >= NEAR && best.is_none_or(|(most, _)| likeness > most) {
            best = Some((likeness, name));
        }
    }
    best.map(|(_, name)| name)
}
