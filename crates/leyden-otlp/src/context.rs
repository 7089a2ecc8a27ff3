//! [`TraceContext`]: the trace to which a request belongs, from the header `traceparent` of W3C's Trace Context.

/// Trace of a caller, and the caller's span in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; not 0.
    pub trace: u128,
    /// Id of the span; not 0.
    pub span: u64,
    /// True if the caller records the trace.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`: `00-` and the ids in lower-case hexadecimal digits, and two digits of flags. Later versions
    /// may have more after these. `None` if it is not valid; the standard has a new trace begin then.
    ///
    /// ```
    /// use leyden_otlp::TraceContext;
    ///
    /// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let context = TraceContext::parse(text).unwrap();
    /// assert!(context.sampled && context.to_string() == text);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<TraceContext> {
        let mut parts = text.splitn(5, '-');
        let version = digits(parts.next()?, 2)?;
        let trace = digits(parts.next()?, 32)?;
        let span = u64::try_from(digits(parts.next()?, 16)?).ok()?;
        let flags = digits(parts.next()?, 2)?;
        let longer = parts.next().is_some();
        if version == 0xff || (version == 0 && longer) || trace == 0 || span == 0 {
            return None;
        }
        Some(TraceContext { trace, span, sampled: flags & 1 == 1 })
    }
}

/// Returns the number of exactly `n` lower-case hexadecimal digits.
fn digits(text: &str, n: usize) -> Option<u128> {
    let valid = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (text.len() == n && text.bytes().all(valid)).then(|| u128::from_str_radix(text, 16).ok())?
}

impl std::fmt::Display for TraceContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_contexts_are_read() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for (text, wanted) in [
            (format!("00-{trace}-00f067aa0ba902b7-01"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-00"), Some(false)),
            (format!("00-{trace}-00f067aa0ba902b7-03"), Some(true)),
            (format!("cc-{trace}-00f067aa0ba902b7-01-what-follows"), Some(true)),
            (format!("00-{trace}-00f067aa0ba902b7-01-more"), None),
            (format!("ff-{trace}-00f067aa0ba902b7-01"), None),
            (format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()), None),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), None),
            (format!("00-{trace}-{}-01", "0".repeat(16)), None),
            (format!("00-{trace}-00f067aa0ba902b7"), None),
            (format!("00-{trace}-00f067aa0ba902b-01"), None),
            (format!("00-{trace}-+0f067aa0ba902b7-01"), None),
            (String::new(), None),
        ] {
            assert_eq!(TraceContext::parse(&text).map(|context| context.sampled), wanted, "{text}");
        }
    }
}
