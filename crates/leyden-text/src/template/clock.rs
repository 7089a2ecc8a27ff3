//! Dates for `strftime_now`, in UTC.

use leyden_dates::Date;
use std::time::SystemTime;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Formats `now` in the manner of `strftime`. The error is the unknown directive.
pub(super) fn strftime(now: SystemTime, format: &str) -> Result<String, String> {
    let seconds = match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(0),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(0),
    };
    // Limits the year to 1 to 9999, far beyond any clock.
    let seconds = seconds.clamp(-62_135_596_800, 253_402_300_799);
    let date = Date::of_days(seconds.div_euclid(86_400));
    let (month, day, weekday) = (date.month as usize - 1, i64::from(date.day), date.weekday());
    let second = seconds.rem_euclid(86_400);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let hour12 = (hour + 11) % 12 + 1;

    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next();
        let unpadded = directive == Some('-');
        if unpadded {
            directive = chars.next();
        }
        let padded = |number: i64, width: usize| match unpadded {
            true => number.to_string(),
            false => format!("{number:0width$}"),
        };
        match directive {
            Some('Y') => out += &padded(date.year, 4),
            Some('y') => out += &padded(date.year.rem_euclid(100), 2),
            Some('m') => out += &padded(i64::from(date.month), 2),
            Some('d') => out += &padded(day, 2),
            Some('e') => out += &format!("{day:2}"),
            Some('j') => out += &padded(i64::from(date.day_of_year()), 3),
            Some('B') => out += MONTHS[month],
            Some('b' | 'h') => out += &MONTHS[month][..3],
            Some('A') => out += DAYS[weekday],
            Some('a') => out += &DAYS[weekday][..3],
            Some('u') => out += &(weekday + 1).to_string(),
            Some('w') => out += &((weekday + 1) % 7).to_string(),
            Some('H') => out += &padded(hour, 2),
            Some('I') => out += &padded(hour12, 2),
            Some('M') => out += &padded(minute, 2),
            Some('S') => out += &padded(second % 60, 2),
            Some('p') => out += if hour < 12 { "AM" } else { "PM" },
            Some('F') => out += &date.to_string(),
            Some('T') => out += &format!("{hour:02}:{minute:02}:{:02}", second % 60),
            Some('Z') => out += "UTC",
            Some('z') => out += "+0000",
            Some('%') => out.push('%'),
            other => return Err(other.into_iter().collect()),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_and_times() {
        for (seconds, format, want) in [
            (0, "%A %d %B %Y %H:%M:%S %j", "Thursday 01 January 1970 00:00:00 001"),
            (951_782_400, "%F %a", "2000-02-29 Tue"),
            (1_709_251_199, "%Y-%m-%d %T %j", "2024-02-29 23:59:59 060"),
            (1_795_219_200, "%d %b %Y, %-d/%-m/%y %I %p", "21 Nov 2026, 21/11/26 12 AM"),
            (4_102_444_799, "%e %u %w %%", "31 4 4 %"),
        ] {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(strftime(now, format).as_deref(), Ok(want));
        }
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(strftime(before, "%F %T %a").as_deref(), Ok("1969-12-31 23:59:59 Wed"));
        assert_eq!(strftime(before, "%Q"), Err("Q".into()));
        assert_eq!(strftime(before, "%"), Err(String::new()));
    }
}
