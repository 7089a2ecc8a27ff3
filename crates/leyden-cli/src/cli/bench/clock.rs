//! Timestamps in llama-bench's form.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::text;

/// Returns the current time, as `2026-11-21T10:30:00Z`.
pub(super) fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    text::date_time(seconds)
}

#[cfg(test)]
mod tests {
    use crate::cli::text::date_time;

    #[test]
    fn known_moments() {
        assert_eq!(date_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_time(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_time(1_795_258_205), "2026-11-21T10:50:05Z");
        assert_eq!(date_time(4_107_542_399), "2100-02-28T23:59:59Z");
    }
}
