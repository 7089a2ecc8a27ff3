//! The Gregorian calendar in UTC, for all dates that the program reads and writes.
//!
//! [`Date`] is a day, [`date_time`] a time in seconds since 1970 as text. Leap seconds do not exist here, as in Unix time.
#![forbid(unsafe_code)]

use std::fmt::{self, Display};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub const DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const TO_1970: i64 = 719_468;

/// Day of the Gregorian calendar, which is continued before its introduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// Year.
    pub year: i64,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
}

impl Date {
    /// Returns the date so many days after 1970-01-01; days are limited to 2^53, 24 million million years.
    ///
    /// ```
    /// assert_eq!(leyden_dates::Date::of_days(11_016).to_string(), "2000-02-29");
    /// ```
    #[must_use]
    pub fn of_days(days: i64) -> Date {
        // Years begin in March here, so that a leap day is the last day of its year.
        let days = days.clamp(-(1 << 53), 1 << 53) + TO_1970;
        let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // Months of 31 and 30 days alternate: 153 days in five.
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Date { year: 400 * era + year + later, month: month as u32, day: day as u32 }
    }

    /// Returns the date of these parts; `None` if there is no such day.
    #[must_use]
    pub fn new(year: i64, month: u32, day: u32) -> Option<Date> {
        let exists = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        (exists && year.abs() < 1 << 40).then_some(Date { year, month, day })
    }

    /// Returns the number of days after 1970-01-01, which is negative before.
    #[must_use]
    pub fn days(self) -> i64 {
        let (month, year) = match self.month {
            m @ 3.. => (i64::from(m) - 3, self.year),
            m => (i64::from(m) + 9, self.year - 1),
        };
        let (era, year) = (year.div_euclid(400), year.rem_euclid(400));
        let day = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * ERA_DAYS + 365 * year + year / 4 - year / 100 + day - TO_1970
    }

    /// Returns the day of the year, from 1.
    #[must_use]
    pub fn day_of_year(self) -> u32 {
        (1..self.month).map(|month| days_of_month(self.year, month)).sum::<u32>() + self.day
    }

    /// Returns the day of the week, from 0 for Monday.
    #[must_use]
    pub fn weekday(self) -> usize {
        // 1970-01-01 was a Thursday.
        (self.days() + 3).rem_euclid(7) as usize
    }
}

impl Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

fn days_of_month(year: i64, month: u32) -> u32 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the present time in seconds since 1970.
#[must_use]
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the day of a time in seconds since 1970, as `2026-11-28`.
#[must_use]
pub fn date(seconds: u64) -> String {
    of_seconds(seconds).to_string()
}

/// Returns a time in seconds since 1970 in the form of RFC 3339, as `2026-11-28T23:50:00Z`.
#[must_use]
pub fn date_time(seconds: u64) -> String {
    format!("{}T{}Z", of_seconds(seconds), time_of_day(seconds))
}

/// Returns the time of day of a time in seconds since 1970, as `23:50:00`.
#[must_use]
pub fn time_of_day(seconds: u64) -> String {
    let time = seconds % DAY;
    format!("{:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
}

fn of_seconds(seconds: u64) -> Date {
    Date::of_days(i64::try_from(seconds / DAY).unwrap_or(i64::MAX))
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
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_258_205, "2026-11-21T10:50:05Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date_time(seconds), text);
            assert_eq!(date(seconds), text[..10]);
        }
    }

    #[test]
    fn days_are_dates_and_back() {
        let mut before = Date::of_days(-800_000);
        for days in -799_999..800_000 {
            let date = Date::of_days(days);
            assert_eq!((date.days(), Date::new(date.year, date.month, date.day)), (days, Some(date)));
            let follows = match (date.month, date.day) {
                (1, 1) => (before.month, before.day, before.year + 1) == (12, 31, date.year),
                (_, 1) => before.month + 1 == date.month && before.year == date.year,
                (_, day) => before.day + 1 == day,
            };
            assert!(follows && before < date, "{before} {date}");
            before = date;
        }
        assert_eq!(Date::of_days(-719_162).to_string(), "0001-01-01");
        for days in [i64::MIN, i64::MAX] {
            let _ = Date::of_days(days).to_string();
        }
    }

    #[test]
    fn dates_know_their_place_in_year_and_week() {
        let date = Date::new(2024, 2, 29).unwrap();
        assert_eq!((date.day_of_year(), date.weekday()), (60, 3));
        assert_eq!(Date::new(2026, 12, 31).map(Date::day_of_year), Some(365));
        for (year, month, day) in
            [(2026, 2, 29), (2100, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 4, 31), (1, 1, 0)]
        {
            assert_eq!(Date::new(year, month, day), None);
        }
    }
}
