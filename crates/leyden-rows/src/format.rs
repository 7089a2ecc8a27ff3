//! [`Format`] of an input and [`Output`] of an output, by the ending of the file's name.

use crate::Error;
use std::path::Path;
use std::str::FromStr;

/// Format of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Text lines: each line is a row.
    Text,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A JSON list of objects or texts.
    Json,
    /// JSON lines: an object or a text on each line.
    JsonLines,
    /// Parquet.
    Parquet,
}

/// Format of an output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// The lines that the command prints.
    Text,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A JSON list of objects.
    Json,
    /// JSON lines.
    JsonLines,
    /// Parquet.
    Parquet,
    /// NumPy: vectors as one array `[rows, dimensions]` of `float32`.
    Npy,
}

/// Names of input formats and their endings.
const FORMATS: &[(&str, Format, &[&str])] = &[
    ("text", Format::Text, &["txt", "text"]),
    ("csv", Format::Csv, &["csv"]),
    ("tsv", Format::Tsv, &["tsv", "tab"]),
    ("json", Format::Json, &["json"]),
    ("jsonl", Format::JsonLines, &["jsonl", "ndjson"]),
    ("parquet", Format::Parquet, &["parquet", "pq"]),
];

/// Endings of output formats.
const OUTPUTS: &[(&str, Output)] = &[
    ("jsonl", Output::JsonLines),
    ("ndjson", Output::JsonLines),
    ("json", Output::Json),
    ("csv", Output::Csv),
    ("tsv", Output::Tsv),
    ("parquet", Output::Parquet),
    ("npy", Output::Npy),
    ("txt", Output::Text),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        let found = FORMATS.iter().find(|(known, _, endings)| *known == name || endings.contains(&name));
        found.map(|(_, format, _)| *format).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|(name, ..)| *name).collect();
            format!("want one of {}", names.join(", "))
        })
    }
}

/// Ending of a name in lower case; empty without one.
fn ending(path: &Path) -> String {
    path.extension().map_or_else(String::new, |ending| ending.to_string_lossy().to_lowercase())
}

impl Format {
    /// Returns the format of a file by its ending, `.gz` aside.
    ///
    /// # Errors
    /// The ending is unknown or absent.
    pub fn of_path(path: &Path) -> Result<Format, Error> {
        let inner = if is_gzip(path) { path.with_extension("") } else { path.to_owned() };
        let ending = ending(&inner);
        let found = FORMATS.iter().find(|(_, _, endings)| endings.contains(&&ending[..]));
        found.map(|(_, format, _)| *format).ok_or_else(|| {
            let what = match ending.is_empty() {
                true => "the name has no ending that tells the format".to_owned(),
                false => format!("rows are not read from .{ending}"),
            };
            let known: Vec<String> = FORMATS.iter().map(|(_, _, all)| format!(".{}", all[0])).collect();
            Error::of(path, what)
                .hint(format!(
                    "known endings are {}, each also with .gz; --format names the format of any other file, such as --format text",
                    known.join(", ")
                ))
                .usage()
        })
    }
}

/// `true` for a name that ends in `.gz`.
pub(crate) fn is_gzip(path: &Path) -> bool {
    ending(path) == "gz"
}

impl Output {
    /// Returns the format of an output file by its ending.
    ///
    /// # Errors
    /// The ending is unknown or absent.
    pub fn of_path(path: &Path) -> Result<Output, Error> {
        let ending = ending(path);
        let found = OUTPUTS.iter().find(|(known, _)| *known == ending);
        found.map(|(_, output)| *output).ok_or_else(|| {
            let known: Vec<String> = OUTPUTS.iter().map(|(ending, _)| format!(".{ending}")).collect();
            Error::of(path, "the ending of the output does not tell its format")
                .hint(format!("known endings are {}", known.join(", ")))
                .usage()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_tells_the_format() {
        for (name, format) in [
            ("a.txt", Format::Text),
            ("a.CSV", Format::Csv),
            ("a.b.tsv", Format::Tsv),
            ("a.json", Format::Json),
            ("a.jsonl.gz", Format::JsonLines),
            ("a.ndjson", Format::JsonLines),
            ("a.parquet", Format::Parquet),
        ] {
            assert_eq!(Format::of_path(Path::new(name)).unwrap(), format, "{name}");
        }
        for name in ["a", "a.xlsx", "a.gz", "csv", ".csv"] {
            let error = Format::of_path(Path::new(name)).unwrap_err();
            assert!(error.usage && error.hint.unwrap().contains("--format"), "{name}");
        }
        assert!(Output::of_path(Path::new("a.xlsx")).unwrap_err().usage);
        assert_eq!(Output::of_path(Path::new("a.npy")).unwrap(), Output::Npy);
        assert_eq!("csv".parse(), Ok(Format::Csv));
        assert!("excel".parse::<Format>().is_err());
    }
}
