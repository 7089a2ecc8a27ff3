//! [`Lengths`]: distribution of the token counts of prompts or answers; [`Pause`]: think time of users.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::random::Random;

/// Maximum tokens of a prompt or answer: far beyond any context, small enough to catch a typo.
pub const MAX_TOKENS: u32 = 1 << 20;
/// The normal distribution's 95th percentile.
const Z95: f64 = 1.644_853_626_951_472_7;

/// A distribution of lengths in tokens.
///
/// Written `128` (fixed), `30..200` (uniform, both ends included), or `p50,p95` with an optional maximum:
/// `200,900` or `200,900,4000` (lognormal with these percentiles, clipped to the maximum).
///
/// ```
/// use leyden_load::{Lengths, Random};
/// let lengths: Lengths = "30..200".parse()?;
/// assert!((30..=200).contains(&lengths.draw(&mut Random::new(1, 1))));
/// # Ok::<(), leyden_load::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lengths {
    /// A fixed length.
    Fixed(u32),
    /// Uniform distribution between two lengths, both included.
    Uniform(u32, u32),
    /// A lognormal distribution.
    Lognormal {
        /// Median.
        p50: u32,
        /// 95th percentile.
        p95: u32,
        /// Maximum, to which longer ones are clipped.
        most: u32,
    },
}

impl Lengths {
    /// Draws a length, from 1 to [`MAX_TOKENS`].
    pub fn draw(&self, random: &mut Random) -> u32 {
        match *self {
            Self::Fixed(n) => n,
            Self::Uniform(low, high) => low + random.below(u64::from(high - low) + 1) as u32,
            Self::Lognormal { p50, p95, most } => {
                let sigma = (f64::from(p95) / f64::from(p50)).ln() / Z95;
                let value = f64::from(p50) * (sigma * random.normal()).exp();
                (value.round() as u32).clamp(1, most)
            }
        }
    }

    /// Returns the largest length that can be drawn.
    #[must_use]
    pub fn most(&self) -> u32 {
        match *self {
            Self::Fixed(n) | Self::Uniform(_, n) | Self::Lognormal { most: n, .. } => n,
        }
    }
}

impl FromStr for Lengths {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::setting(text, why);
        let number = |part: &str| {
            let n: u32 = part.trim().parse().map_err(|_| wrong("not N, LOW..HIGH or P50,P95[,MAX]"))?;
            if (1..=MAX_TOKENS).contains(&n) { Ok(n) } else { Err(wrong("not from 1 to 1048576 tokens")) }
        };
        if let Some((low, high)) = text.split_once("..") {
            let (low, high) = (number(low)?, number(high)?);
            return if low <= high { Ok(Self::Uniform(low, high)) } else { Err(wrong("the range is empty")) };
        }
        let parts = text.split(',').map(number).collect::<Result<Vec<u32>>>()?;
        let (p50, p95, most) = match parts[..] {
            [n] => return Ok(Self::Fixed(n)),
            [p50, p95] => (p50, p95, MAX_TOKENS),
            [p50, p95, most] => (p50, p95, most),
            _ => return Err(wrong("more than three numbers")),
        };
        if p50 > p95 || p95 > most {
            return Err(wrong("the numbers do not ascend"));
        }
        Ok(Self::Lognormal { p50, p95, most })
    }
}

impl Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Uniform(low, high) => write!(f, "{low}..{high}"),
            Self::Lognormal { p50, p95, most: MAX_TOKENS } => write!(f, "{p50},{p95}"),
            Self::Lognormal { p50, p95, most } => write!(f, "{p50},{p95},{most}"),
        }
    }
}

/// A time between an answer and the next request: `2s`, or `1s..5s` (uniform).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    low: Duration,
    high: Duration,
}

impl Pause {
    /// Draws a pause.
    pub fn draw(&self, random: &mut Random) -> Duration {
        self.low + (self.high - self.low).mul_f64(random.unit())
    }
}

impl FromStr for Pause {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (parse_duration(low)?, parse_duration(high)?);
        if low > high {
            return Err(Error::setting(text, "the range is empty"));
        }
        Ok(Self { low, high })
    }
}

/// Parses `500ms`, `2s`, `1.5m` or `1h`; a bare number is seconds. At most a day.
///
/// # Errors
/// The text is not such a duration.
///
/// ```
/// # use std::time::Duration;
/// assert_eq!(leyden_load::parse_duration("1.5m")?, Duration::from_secs(90));
/// # Ok::<(), leyden_load::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    let text = text.trim();
    // `ms` before `m` and `s`, which end in the same letters.
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = units.iter().find_map(|(name, seconds)| Some((text.strip_suffix(name)?, *seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1.0));
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value = number.parse::<f64>().ok().filter(|_| plain);
    let value =
        value.ok_or_else(|| Error::setting(text, "not a duration such as 500ms, 2s or 1.5m"))? * seconds;
    if value > 86400.0 {
        return Err(Error::setting(text, "longer than a day"));
    }
    Ok(Duration::from_secs_f64(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Samples;

    #[test]
    fn lengths_are_read_and_shown() {
        for text in ["1", "128", "30..200", "200,900", "200,900,4000"] {
            assert_eq!(text.parse::<Lengths>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "not N"),
            ("0", "not from 1"),
            ("x..3", "not N"),
            ("3..2", "empty"),
            ("1,2,3,4", "more than three"),
            ("9,2", "ascend"),
            ("2,9,8", "ascend"),
            ("9999999", "not from 1"),
            ("-1", "not N"),
        ] {
            let error = text.parse::<Lengths>().unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn draws_follow_the_distribution() {
        let mut random = Random::new(3, 0);
        let mut draw = |text: &str| {
            let lengths: Lengths = text.parse().unwrap();
            Samples::new((0..20_000).map(|_| f64::from(lengths.draw(&mut random))).collect())
        };
        let uniform = draw("10..20");
        assert_eq!((uniform.percentile(0.001), uniform.percentile(100.0)), (Some(10.0), Some(20.0)));
        let lognormal = draw("200,900");
        let near = |p, wanted: f64| (lognormal.percentile(p).unwrap() / wanted - 1.0).abs() < 0.06;
        assert!(near(50.0, 200.0) && near(95.0, 900.0));
        assert_eq!(draw("200,900,1000").percentile(100.0), Some(1000.0));
    }

    #[test]
    fn durations_are_read() {
        for (text, ms) in
            [("500ms", 500), ("2s", 2000), (" 2", 2000), ("0", 0), ("0.5m", 30_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "s", "-1s", "1e3", "nan", "inf", "25h", "2 weeks", "1.2.3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let pause: Pause = "1s..2s".parse().unwrap();
        let drawn = pause.draw(&mut Random::new(0, 0));
        assert!((1.0..2.0).contains(&drawn.as_secs_f64()));
        assert!("2s..1s".parse::<Pause>().is_err());
    }
}
