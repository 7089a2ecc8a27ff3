//! [`Trace`]: arrivals and lengths of recorded requests, from a CSV file that may be compressed with gzip.
//!
//! The columns are those of the Azure LLM inference traces: `TIMESTAMP` (`2023-11-16 18:15:46.6805900`, with or
//! without an offset, or plain seconds), `ContextTokens`, `GeneratedTokens`; other columns are ignored.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, ErrorKind, Result};
use crate::lengths::MAX_TOKENS;

/// Maximum uncompressed size in bytes.
const MAX_BYTES: u64 = 2 << 30;
/// Maximum number of requests: a month of a busy service.
const MAX_ROWS: usize = 20_000_000;
/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: u64 = 4 << 10;
/// Prefixes of the columns' names, in lower case.
const COLUMNS: [&str; 3] = ["timestamp", "contexttokens", "generatedtokens"];

/// A recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the first request.
    pub at: Duration,
    /// Number of prompt tokens.
    pub prompt: u32,
    /// Number of answer tokens.
    pub output: u32,
}

/// Recorded requests in the order of their arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    arrivals: Vec<Arrival>,
}

impl Trace {
    /// Reads a file; decompresses it if it begins with gzip's magic.
    ///
    /// # Errors
    /// It cannot be read, or a line is not valid; the error has its number.
    pub fn open(path: &Path) -> Result<Self> {
        let mut file = BufReader::new(File::open(path).map_err(Error::io("open", path))?);
        let start = file.fill_buf().map_err(Error::io("read", path))?;
        if start.starts_with(&[0x1f, 0x8b]) {
            Self::read(BufReader::new(MultiGzDecoder::new(file)), path)
        } else {
            Self::read(file, path)
        }
    }

    /// Reads lines; `path` is for errors.
    pub(crate) fn read(source: impl BufRead, path: &Path) -> Result<Self> {
        let wrong = |line: usize, why: &str| {
            Error::new(format!("{}: line {line}", path.display()), ErrorKind::Trace(why.to_owned()))
        };
        let mut source = source.take(MAX_BYTES);
        let (mut line, mut number) = (Vec::new(), 0);
        let mut columns: Option<[usize; 3]> = None;
        let mut rows: Vec<(i128, u32, u32)> = Vec::new();
        loop {
            line.clear();
            let n = (&mut source)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
                .map_err(Error::io("read", path))?;
            number += 1;
            if n == 0 {
                break;
            }
            if n as u64 == MAX_LINE_BYTES {
                return Err(wrong(number, "longer than 4 KiB"));
            }
            let text =
                str::from_utf8(&line).map_err(|_| wrong(number, "not UTF-8"))?.trim_end_matches(['\r', '\n']);
            if text.is_empty() {
                continue;
            }
            let fields: Vec<&str> = text.split(',').map(str::trim).collect();
            let Some([time, prompt, output]) = columns else {
                columns = Some(head(&fields).ok_or_else(|| {
                    wrong(number, "no columns TIMESTAMP, ContextTokens and GeneratedTokens")
                })?);
                continue;
            };
            let field = |at: usize| fields.get(at).copied().unwrap_or("");
            let time = nanoseconds(field(time)).ok_or_else(|| wrong(number, "TIMESTAMP is not a time"))?;
            let tokens = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= MAX_TOKENS);
            let prompt = tokens(field(prompt))
                .ok_or_else(|| wrong(number, "ContextTokens is not a number of tokens"))?;
            let output = tokens(field(output))
                .ok_or_else(|| wrong(number, "GeneratedTokens is not a number of tokens"))?;
            if rows.len() == MAX_ROWS {
                return Err(wrong(number, "more than 20 million requests"));
            }
            rows.push((time, prompt.max(1), output.max(1)));
        }
        if source.limit() == 0 {
            return Err(wrong(number, "the file holds more than 2 GiB"));
        }
        rows.sort_by_key(|row| row.0);
        let Some(&(first, ..)) = rows.first() else { return Err(wrong(number, "no request")) };
        let since = |time: i128| Duration::from_nanos(u64::try_from(time - first).unwrap_or(u64::MAX));
        let arrivals = rows.iter().map(|&(time, prompt, output)| Arrival { at: since(time), prompt, output });
        Ok(Self { arrivals: arrivals.collect() })
    }

    /// Returns the requests.
    #[must_use]
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Returns the time from the first request to the last.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.arrivals.last().map(|last| last.at).unwrap_or_default()
    }
}

/// Returns the indices of the columns.
fn head(fields: &[&str]) -> Option<[usize; 3]> {
    let find = |name: &str| {
        fields.iter().position(|field| {
            let plain: String = field.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            plain.eq_ignore_ascii_case(name)
        })
    };
    Some([find(COLUMNS[0])?, find(COLUMNS[1])?, find(COLUMNS[2])?])
}

/// Returns the nanoseconds of a time: plain seconds, or a date and a time of day with an optional offset.
fn nanoseconds(text: &str) -> Option<i128> {
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        let seconds: f64 = text.parse().ok().filter(|s| *s < 1e12)?;
        return Some((seconds * 1e9) as i128);
    }
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let time = time.strip_suffix('Z').unwrap_or(time);
    let (time, offset) = match time.find(['+', '-']) {
        Some(at) => {
            let (hours, minutes) = time[at + 1..].split_once(':')?;
            let seconds = digits(hours, 2)? * 3600 + digits(minutes, 2)? * 60;
            (&time[..at], if time.as_bytes()[at] == b'-' { -seconds } else { seconds })
        }
        None => (time, 0),
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = time.split(':');
    let (hour, minute, second) =
        (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 || fraction.len() > 9 {
        return None;
    }
    let nanos = digits(&format!("{fraction:0<9}"), 9)?;
    let seconds = days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - offset;
    Some(i128::from(seconds) * 1_000_000_000 + i128::from(nanos))
}

/// Reads a number of exactly `n` digits.
fn digits(text: &str, n: usize) -> Option<i64> {
    (text.len() == n && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Returns the days from 0000-03-01 in the Gregorian calendar: years begin in March, so that the leap day is the
/// last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn read(text: &str) -> Result<Trace> {
        Trace::read(text.as_bytes(), Path::new("t.csv"))
    }

    const HEAD: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";

    #[test]
    fn rows_are_read_and_sorted() {
        let rows = "2023-11-16 18:15:50.9951690,396,109\r\n2023-11-16 18:15:46.6805900,374,0\r\n\r\n";
        let trace = read(&format!("{HEAD}{rows}")).unwrap();
        let at = Duration::from_nanos(4_314_579_000);
        assert_eq!(
            trace.arrivals(),
            [
                Arrival { at: Duration::ZERO, prompt: 374, output: 1 },
                Arrival { at, prompt: 396, output: 109 },
            ]
        );
        assert_eq!(trace.length(), at);
        let other = read("generated_tokens,x,timestamp,context_tokens\n7,,1.5,9\n8,,0,3").unwrap();
        assert_eq!(other.arrivals()[1], Arrival { at: Duration::from_millis(1500), prompt: 9, output: 7 });
    }

    #[test]
    fn times_are_apart_as_on_a_calendar() {
        let between = |a: &str, b: &str| (nanoseconds(b).unwrap() - nanoseconds(a).unwrap()) / 1_000_000_000;
        assert_eq!(between("2023-12-31 23:59:59", "2024-01-01 00:00:00"), 1);
        assert_eq!(between("2024-02-28 00:00:00", "2024-03-01 00:00:00"), 2 * 86400);
        assert_eq!(between("1900-02-28 00:00:00", "1900-03-01 00:00:00"), 86400);
        assert_eq!(between("2024-05-10 00:00:00.000000+00:00", "2024-05-10T02:00:00+01:00"), 3600);
        for text in
            ["", "x", "2023-13-01 00:00:00", "2023-1-01 00:00:00", "2023-01-01", "2023-01-01 24:00:00", "1e5"]
        {
            assert!(nanoseconds(text).is_none(), "{text}");
        }
    }

    #[test]
    fn compressed_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv.gz");
        let mut gz = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        gz.write_all(format!("{HEAD}0,1,2\n1,3,4\n").as_bytes()).unwrap();
        gz.finish().unwrap();
        assert_eq!(Trace::open(&path).unwrap().arrivals().len(), 2);
        let cut = std::fs::read(&path).unwrap();
        std::fs::write(&path, &cut[..cut.len() / 2]).unwrap();
        assert!(Trace::open(&path).unwrap_err().to_string().contains("t.csv.gz"));
        assert!(Trace::open(&folder.path().join("none")).is_err());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, why) in [
            ("", "no request"),
            ("a,b\n", "line 1: no columns"),
            (&format!("{HEAD}now,1,2\n"), "line 2: TIMESTAMP"),
            (&format!("{HEAD}0,x,2\n"), "line 2: ContextTokens"),
            (&format!("{HEAD}0,1\n"), "line 2: GeneratedTokens"),
            (&format!("{HEAD}0,1,9999999\n"), "GeneratedTokens"),
            (&format!("{HEAD}{}\n", "1".repeat(5000)), "longer than"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read(text in "[0-9:., T+-]{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            let _ = read(&format!("{HEAD}{text},1,2"));
            let _ = Trace::read(&[HEAD.as_bytes(), &bytes].concat()[..], Path::new(""));
        }
    }
}
