//! Timestamps: RFC 3339 texts, and seconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time as RFC 3339 in UTC with milliseconds: `2026-11-27T08:00:00.000Z`. Times before 1970 become
/// 1970-01-01.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (date, time) = (leyden_dates::date(since.as_secs()), leyden_dates::time_of_day(since.as_secs()));
    format!("{date}T{time}.{:03}Z", since.subsec_millis())
}

pub(crate) use leyden_dates::unix_time;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // Expected values from `date -u -d @SECONDS`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_799, "2000-02-29T23:59:59.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(1234)), "1970-01-01T00:00:01.234Z");
    }
}
