//! [`Time`]: seconds since 1970 in UTC, written as in RFC 3339.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Last year that can be written in four digits.
const MAX_YEAR: u64 = 9999;

/// A time in seconds since 1970, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

/// Returns a number of days in seconds.
#[must_use]
pub fn days(n: u32) -> u64 {
    u64::from(n) * DAY
}

impl Time {
    /// Returns the present time.
    #[must_use]
    pub fn now() -> Time {
        Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// Returns the time so many seconds later.
    #[must_use]
    pub fn plus(self, seconds: u64) -> Time {
        Time(self.0.saturating_add(seconds))
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days from 1970 to the begin of a year.
fn days_before(year: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    365 * (year - 1970) + leaps(year - 1) - leaps(1969)
}

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut day, time) = (self.0 / DAY, self.0 % DAY);
        // Later times are written as the last day.
        day = day.min(days_before(MAX_YEAR + 1) - 1);
        let mut year = 1970 + day / 366;
        while days_before(year + 1) <= day {
            year += 1;
        }
        day -= days_before(year);
        let mut month = 1;
        while month < 12 && day >= days_of_month(year, month) {
            day -= days_of_month(year, month);
            month += 1;
        }
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        write!(f, "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
    }
}

impl FromStr for Time {
    type Err = String;

    /// Parses `2026-11-28T23:50:00Z`, or a date as the begin of the day.
    fn from_str(text: &str) -> Result<Time, String> {
        let wrong = || format!("`{text}` is no time such as 2026-11-28T23:50:00Z");
        let number = |part: &str, digits: usize| -> Result<u64, String> {
            let is_plain = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
            part.parse().ok().filter(|_| is_plain).ok_or_else(wrong)
        };
        let (date, time) = text.split_once('T').map_or((text, None), |(date, time)| (date, Some(time)));
        let mut parts = date.splitn(3, '-');
        let mut next = |digits| number(parts.next().unwrap_or_default(), digits);
        let (year, month, day) = (next(4)?, next(2)?, next(2)?);
        if year < 1970 || !(1..=12).contains(&month) || !(1..=days_of_month(year, month)).contains(&day) {
            return Err(wrong());
        }
        let days = days_before(year) + (1..month).map(|m| days_of_month(year, m)).sum::<u64>() + day - 1;
        let mut seconds = 0;
        if let Some(time) = time {
            let time = time.strip_suffix('Z').ok_or_else(wrong)?;
            let mut parts = time.splitn(3, ':');
            for most in [24, 60, 60] {
                let value = number(parts.next().unwrap_or_default(), 2)?;
                if value >= most {
                    return Err(wrong());
                }
                seconds = 60 * seconds + value;
            }
        }
        Ok(Time(days * DAY + seconds))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -u -d @N +%FT%TZ` prints these.
    #[test]
    fn times_are_those_of_date() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Time(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(seconds)));
        }
        for day in 0..60_000 {
            let time = Time(day * DAY + 3661);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        assert_eq!("2026-11-28".parse(), Ok(Time(1_795_824_000)));
        for wrong in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "1969-12-31",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
        ] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
        assert!(Time(u64::MAX).to_string().starts_with("9999-12-31"));
    }
}
