//! [`Time`]: seconds since 1970 in UTC, written as in RFC 3339.

use leyden_dates::{DAY, Date};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Last year that can be written in four digits.
const MAX_YEAR: i64 = 9999;

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
        Time(leyden_dates::unix_time())
    }

    /// Returns the time so many seconds later.
    #[must_use]
    pub fn plus(self, seconds: u64) -> Time {
        Time(self.0.saturating_add(seconds))
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Later times are written as the last day.
        let last = Date { year: MAX_YEAR, month: 12, day: 31 }.days();
        let day = i64::try_from(self.0 / DAY).unwrap_or(last).min(last);
        write!(f, "{}T{}Z", Date::of_days(day), leyden_dates::time_of_day(self.0))
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
        let small = |n: u64| u32::try_from(n).unwrap_or(0);
        let date = i64::try_from(year).ok().and_then(|year| Date::new(year, small(month), small(day)));
        let days = date.and_then(|date| u64::try_from(date.days()).ok()).ok_or_else(wrong)?;
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
