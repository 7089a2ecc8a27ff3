//! Texts that occur more than once: they are not independent, so a promise based on them holds less than it says.

use std::collections::{HashMap, HashSet};

/// Texts of labelled rows that occur more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// Number of rows whose text occurs before.
    pub rows: usize,
    /// Number of those with other labels than at the first time.
    pub contradictions: usize,
}

/// Returns the words of a text in lower case.
fn plain(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Counts texts that differ from others at most in case and white space.
pub fn duplicates<'d>(rows: impl Iterator<Item = (&'d str, &'d [usize])>) -> Duplicates {
    let mut first: HashMap<String, &[usize]> = HashMap::new();
    let mut found = Duplicates::default();
    for (text, labels) in rows {
        match first.get(&plain(text)) {
            Some(known) => {
                found.rows += 1;
                found.contradictions += usize::from(*known != labels);
            }
            None => drop(first.insert(plain(text), labels)),
        }
    }
    found
}

/// Counts texts that are also among others, up to case and white space.
pub fn shared_texts<'d>(rows: impl Iterator<Item = &'d str>, others: impl Iterator<Item = &'d str>) -> usize {
    let known: HashSet<String> = others.map(plain).collect();
    rows.filter(|text| known.contains(&plain(text))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_counted() {
        let rows = [("Where is it?", [0]), ("where  is it?", [1]), ("Where", [0]), ("WHERE IS IT?", [0])];
        let found = duplicates(rows.iter().map(|(text, labels)| (*text, &labels[..])));
        assert_eq!(found, Duplicates { rows: 2, contradictions: 1 });
        assert_eq!(shared_texts(["a b", "c"].into_iter(), ["A  B", "d"].into_iter()), 1);
    }
}
