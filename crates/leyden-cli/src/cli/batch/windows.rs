//! Windows of long texts (`--window`): results for parts of a text, with their places.

use crate::cli::embed::Vector;
use crate::cli::rows::{self, Shown};
use leyden::{Error, Label, TaskError};
use serde_json::Value;

/// Part of a window's length by which it reaches into the next one.
const OVERLAP: usize = 10;

/// Begin and end of a window in characters of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    start: usize,
    end: usize,
}

/// Returns the windows of a text. They begin every `length` characters and are a tenth longer, so that a sentence at
/// the end of one is whole in it or in the next. An empty text has one empty window.
fn windows(text: &str, length: usize) -> Vec<(Place, &str)> {
    // Byte offsets of characters, and of the end.
    let offsets: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let (n, length) = (offsets.len() - 1, length.max(1));
    let mut windows = Vec::new();
    for start in (0..n.max(1)).step_by(length) {
        let end = start.saturating_add(length).saturating_add(length.div_ceil(OVERLAP)).min(n);
        windows.push((Place { start, end }, &text[offsets[start]..offsets[end]]));
        if end == n {
            break;
        }
    }
    windows
}

/// Computes a result for each text, by `join` of the results of its windows of `length` characters.
///
/// # Errors
/// As `compute`; an error with a window is one with its text.
pub(super) fn compute<R, T>(
    texts: &[&str],
    length: usize,
    compute: impl FnOnce(&[&str]) -> Result<Vec<R>, Error>,
    join: impl Fn(Vec<(Place, R)>) -> T,
) -> Result<Vec<T>, Error> {
    let of_texts: Vec<Vec<(Place, &str)>> = texts.iter().map(|text| windows(text, length)).collect();
    let all: Vec<&str> = of_texts.iter().flatten().map(|(_, window)| *window).collect();
    let mut found = compute(&all).map_err(|error| of_text(error, &of_texts))?.into_iter();
    let mut join = |windows: &Vec<(Place, &str)>| {
        join(windows.iter().map(|(place, _)| *place).zip(&mut found).collect())
    };
    Ok(of_texts.iter().map(&mut join).collect())
}

/// Returns the error about the text that has the window which the error is about.
fn of_text(mut error: Error, of_texts: &[Vec<(Place, &str)>]) -> Error {
    if let Error::Task { error: TaskError { place: leyden::Place::Text(number), .. }, .. } = &mut error {
        let ends = of_texts.iter().scan(0, |end, windows| {
            *end += windows.len();
            Some(*end)
        });
        *number = ends.take_while(|end| *end <= *number).count();
    }
    error
}

/// Vectors of the windows of a text.
pub(super) struct Vectors(Vec<(Place, Vector)>);

impl Vectors {
    /// Returns the vectors with the places of their windows.
    pub(super) fn join(windows: Vec<(Place, Vec<f32>)>) -> Vectors {
        Vectors(windows.into_iter().map(|(place, vector)| (place, Vector(vector))).collect())
    }
}

impl Shown for Vectors {
    const NAMES: &'static [&'static str] = &["windows"];

    fn lines(&self) -> String {
        self.0.iter().map(|(_, vector)| vector.lines()).collect()
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let window = |(Place { start, end }, vector): &(Place, Vector)| {
            format!("{{\"start\":{start},\"end\":{end},\"embedding\":{}}}", rows::numbers(&vector.0))
        };
        let windows: Vec<String> = self.0.iter().map(window).collect();
        vec![("windows", format!("[{}]", windows.join(",")))]
    }
}

/// Best labels of a text, each with the place of its best window.
pub(super) struct Best<'m> {
    labels: Vec<(Label<'m>, Place)>,
    /// True if more than one label was requested.
    several: bool,
}

impl<'m> Best<'m> {
    /// Returns the first `top` labels of a text. The score of a label is the best of its scores for the windows, of
    /// equal ones that of the first.
    pub(super) fn join(windows: Vec<(Place, Vec<Label<'m>>)>, top: u32) -> Best<'m> {
        let mut labels: Vec<(Label<'m>, Place)> = Vec::new();
        for (place, of_window) in windows {
            for label in of_window {
                match labels.iter_mut().find(|(known, _)| known.label == label.label) {
                    Some(known) if label.score > known.0.score => *known = (label, place),
                    Some(_) => {}
                    None => labels.push((label, place)),
                }
            }
        }
        // Labels with equal scores stay in order.
        labels.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score));
        labels.truncate(top as usize);
        Best { labels, several: top > 1 }
    }
}

impl Shown for Best<'_> {
    const NAMES: &'static [&'static str] = &["label", "score", "start", "end", "labels"];

    fn lines(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|(label, _)| format!("{}\t{:.6}", label.label, label.score)).collect();
        labels.join("\t") + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let fields = |(label, place): &(Label<'_>, Place)| {
            vec![
                ("label", Value::from(label.label).to_string()),
                ("score", rows::number(label.score)),
                ("start", place.start.to_string()),
                ("end", place.end.to_string()),
            ]
        };
        let mut first = self.labels.first().map(fields).unwrap_or_default();
        if self.several {
            let objects: Vec<String> =
                self.labels.iter().map(|label| rows::object(None, &[], &fields(label))).collect();
            first.push(("labels", format!("[{}]", objects.join(","))));
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_text_and_overlap() {
        let places = |text: &str, length| -> Vec<(usize, usize)> {
            windows(text, length).iter().map(|(place, _)| (place.start, place.end)).collect()
        };
        assert_eq!(places("", 10), [(0, 0)]);
        assert_eq!(places("abc", 10), [(0, 3)]);
        assert_eq!(places(&"ä".repeat(11), 10), [(0, 11)]);
        assert_eq!(places(&"ä".repeat(25), 10), [(0, 11), (10, 21), (20, 25)]);
        assert_eq!(places("abc", 1), [(0, 2), (1, 3)]);
        assert_eq!(places("abc", usize::MAX), [(0, 3)]);
        let texts: Vec<&str> = windows("äbcdéf", 3).iter().map(|(_, text)| *text).collect();
        assert_eq!(texts, ["äbcd", "déf"]);
    }

    #[test]
    fn a_label_has_the_score_of_its_best_window() {
        let label = |label, score| Label { label, score };
        let place = |start| Place { start, end: start + 5 };
        let windows = vec![
            (place(0), vec![label("b", 0.5), label("a", 0.25)]),
            (place(4), vec![label("a", 0.75), label("b", 0.5)]),
        ];
        let best = Best::join(windows.clone(), 2);
        assert_eq!(best.lines(), "a\t0.750000\tb\t0.500000\n");
        let found = rows::object(None, &[], &best.fields());
        let first = r#""label":"a","score":0.75,"start":4,"end":9"#;
        let second = r#""label":"b","score":0.5,"start":0,"end":5"#;
        assert_eq!(found, format!("{{{first},\"labels\":[{{{first}}},{{{second}}}]}}"));
        assert_eq!(rows::object(None, &[], &Best::join(windows, 1).fields()), format!("{{{first}}}"));
    }
}
