//! [`Floors`]: conditions on metrics, separated by commas.
//!
//! ```text
//! floors  = floor { "," floor }
//! floor   = [ DATA "." ] METRIC ( ">=" | "<=" ) ( NUMBER [ "%" ] [ "*" "ref" ] | "ref" )
//! ```

use crate::error::Error;
use std::fmt::{self, Display};
use std::str::FromStr;

/// Maximum number of floors in an expression.
const MAX_FLOORS: usize = 64;

/// Metric of a floor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Share of right answers by the first metric of the data.
    Accuracy,
    /// Share of right answers by another metric of the data, such as `acc_norm`.
    Share(String),
    /// Perplexity on a text.
    Perplexity,
    /// Mean KL divergence from the reference on a text.
    Kld,
    /// Share of the positions of a text at which model and reference have the same most probable token.
    SameTop,
}

impl Metric {
    /// Returns the name in expressions.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Metric::Accuracy => "accuracy",
            Metric::Share(name) => name,
            Metric::Perplexity => "perplexity",
            Metric::Kld => "kld",
            Metric::SameTop => "same_top",
        }
    }

    /// Returns true for a metric of texts, false for one of questions.
    #[must_use]
    pub fn is_of_text(&self) -> bool {
        matches!(self, Metric::Perplexity | Metric::Kld | Metric::SameTop)
    }

    /// Returns true if larger values are better.
    #[must_use]
    pub fn is_share(&self) -> bool {
        !matches!(self, Metric::Perplexity | Metric::Kld)
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// Name of the data that it is for; `None` for all data that have the metric.
    pub data: Option<String>,
    /// Metric.
    pub metric: Metric,
    /// Limit, or factor of the reference's value.
    pub number: f64,
    /// True if `number` is multiplied with the reference's value.
    pub times_reference: bool,
}

impl Floor {
    /// Returns true if the metric cannot be computed, or the condition not be judged, without a reference.
    #[must_use]
    pub fn needs_reference(&self) -> bool {
        self.times_reference || matches!(self.metric, Metric::Kld | Metric::SameTop)
    }
}

impl Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(data) = &self.data {
            write!(f, "{data}.")?;
        }
        let sign = if self.metric.is_share() { ">=" } else { "<=" };
        let reference = if self.times_reference { "*ref" } else { "" };
        write!(f, "{}{sign}{}{reference}", self.metric.name(), self.number)
    }
}

/// Conditions that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Floors(Vec<Floor>);

impl Floors {
    /// Returns the conditions; at least one.
    #[must_use]
    pub fn all(&self) -> &[Floor] {
        &self.0
    }
}

impl Display for Floors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, floor) in self.0.iter().enumerate() {
            write!(f, "{}{floor}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Floors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Floors, Error> {
        let all = text.split(',').map(floor).collect::<Result<Vec<_>, _>>()?;
        if all.len() > MAX_FLOORS {
            return Err(Error::floor("floors", format!("more than {MAX_FLOORS}")));
        }
        for (i, floor) in all.iter().enumerate() {
            let is_same = |other: &&Floor| other.data == floor.data && other.metric == floor.metric;
            if all[..i].iter().any(|other| is_same(&other)) {
                return Err(Error::floor(&floor.to_string(), "a second floor for this metric"));
            }
        }
        Ok(Floors(all))
    }
}

fn floor(part: &str) -> Result<Floor, Error> {
    let wrong = |what: &str| Error::floor(if part.trim().is_empty() { "floor" } else { part }, what);
    let Some(at) = part.find(['<', '>', '=']) else {
        return Err(wrong("want METRIC>=NUMBER or METRIC<=NUMBER, such as accuracy>=0.95*ref"));
    };
    let (name, rest) = part.split_at(at);
    let (data, name) = match name.trim().rsplit_once('.') {
        Some((data, name)) => (Some(data.trim().to_owned()), name.trim()),
        None => (None, name.trim()),
    };
    if data.as_deref() == Some("") {
        return Err(wrong("the name of the data before the dot is missing"));
    }
    let metric = match name {
        "accuracy" | "acc" => Metric::Accuracy,
        "perplexity" | "ppl" => Metric::Perplexity,
        "kld" => Metric::Kld,
        "same_top" => Metric::SameTop,
        "acc_norm" | "strict" | "flexible" => Metric::Share(name.to_owned()),
        _ => {
            let known = "accuracy, acc_norm, strict, flexible, perplexity, kld and same_top";
            return Err(wrong(&format!("`{name}` is no metric; known are {known}")));
        }
    };
    let (sign, value) = rest.split_at(if rest[1..].starts_with('=') { 2 } else { 1 });
    let wanted = if metric.is_share() { ">=" } else { "<=" };
    if sign != wanted {
        let better = if metric.is_share() { "larger" } else { "smaller" };
        return Err(wrong(&format!(
            "`{sign}`: {better} values of {name} are better, so the comparison is {wanted}"
        )));
    }
    let (number, times_reference) = number(value.trim()).map_err(|what| wrong(&what))?;
    if times_reference && matches!(metric, Metric::Kld | Metric::SameTop) {
        return Err(wrong(&format!("`ref`: {name} compares with the reference already; give a number")));
    }
    if metric.is_share() && number > 1.0 {
        return Err(wrong(&format!("`{}`: a share is at most 1", value.trim())));
    }
    Ok(Floor { data, metric, number, times_reference })
}

/// Parses the right side: a number above 0, and true if it is a factor of the reference's value.
fn number(text: &str) -> Result<(f64, bool), String> {
    let (number, reference) = match text.split_once('*') {
        Some((number, reference)) if reference.trim() == "ref" => (number.trim(), true),
        Some((_, other)) => return Err(format!("`{}` after `*`: want `ref`", other.trim())),
        None if text == "ref" => return Ok((1.0, true)),
        None => (text, false),
    };
    let (digits, percent) = match number.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), true),
        None => (number, false),
    };
    let is_plain = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'-'));
    let value = digits.parse::<f64>().ok().filter(|value| is_plain && value.is_finite() && *value > 0.0);
    // A division gives the nearest number, so that 95 % is 0.95.
    let value = value.map(|value| if percent { value / 100.0 } else { value });
    value.map(|value| (value, reference)).ok_or_else(|| format!("`{number}`: want a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_read_and_shown() {
        for (text, shown) in [
            ("accuracy>=0.95*ref, kld<=0.05", "accuracy>=0.95*ref, kld<=0.05"),
            (" acc >= 95% * ref ", "accuracy>=0.95*ref"),
            ("acc>=ref,ppl<=1.02*ref", "accuracy>=1*ref, perplexity<=1.02*ref"),
            ("rows.csv.accuracy>=0.8,piqa.acc_norm>=0.7", "rows.csv.accuracy>=0.8, piqa.acc_norm>=0.7"),
            ("same_top>=90%", "same_top>=0.9"),
        ] {
            let floors: Floors = text.parse().unwrap();
            assert_eq!(floors.to_string(), shown);
            assert_eq!(shown.parse::<Floors>().unwrap(), floors);
        }
    }

    /// The error names the part of the expression.
    #[test]
    fn wrong_parts_are_named() {
        for (text, words) in [
            ("", "floor: want METRIC"),
            ("accuracy>=0.9,", "floor: want METRIC"),
            ("accuracy", "accuracy: want METRIC"),
            ("kld<=0.1, speed>=3", "speed>=3: `speed` is no metric"),
            ("accuracy<=0.9", "accuracy<=0.9: `<=`: larger values"),
            ("accuracy>0.9", "`>`: larger"),
            ("accuracy=0.9", "`=`: larger"),
            ("kld>=0.9", "`>=`: smaller values of kld"),
            ("kld<=0.9*ref", "`ref`: kld compares"),
            ("accuracy>=0.9*model", "`model` after `*`"),
            ("accuracy>=x", "`x`: want a number"),
            ("accuracy>=nan", "`nan`: want a number"),
            ("accuracy>=inf", "`inf`"),
            ("accuracy>=-1", "`-1`"),
            ("accuracy>=0", "`0`"),
            ("accuracy>=95", "`95`: a share is at most 1"),
            ("accuracy>=", "``: want a number"),
            (".accuracy>=1", "before the dot is missing"),
            ("acc>=0.9,accuracy>=0.8", "a second floor"),
            ("accuracy>\u{e9}", "`>`"),
        ] {
            let error = text.parse::<Floors>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
