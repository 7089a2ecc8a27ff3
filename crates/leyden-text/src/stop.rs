//! [`StopMatcher`]: finds stop strings in text that arrives in pieces.
//!
//! Each stop string has a Knuth-Morris-Pratt automaton, whose state is the length of the longest suffix of the text
//! that is a prefix of the stop string. So every byte is examined once per stop string, and the maximum of all
//! states is the number of bytes to hold back.

/// Result of a piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopEvent {
    /// Text that can be printed now: no stop string can begin in it any more.
    pub text: String,
    /// True if a stop string was found; `text` ends before it, and nothing follows.
    pub stopped: bool,
}

/// Matcher of stop strings in text that arrives in pieces.
///
/// The text ends at the stop string that is complete first (the longest, if several are), so the result does not
/// depend on how the text is split.
///
/// ```
/// let mut matcher = leyden_text::StopMatcher::new(&["</end>".to_string()]);
/// assert_eq!(matcher.push("one </e").text, "one ");
/// assert_eq!(matcher.push("m> two </en").text, "</em> two ");
/// let event = matcher.push("d> three");
/// assert_eq!((event.text.as_str(), event.stopped), ("", true));
/// ```
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<Automaton>,
    /// Suffix of the text that may be the beginning of a stop string.
    held: String,
    stopped: bool,
    /// True if the stop string itself is part of the text.
    included: bool,
}

#[derive(Clone, Debug)]
struct Automaton {
    stop: Box<[u8]>,
    /// For each prefix length, the length of the longest proper suffix of that prefix that is a prefix too.
    fallback: Box<[usize]>,
    state: usize,
}

impl StopMatcher {
    /// Creates a matcher for these stop strings. Empty strings are ignored.
    pub fn new(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).map(|stop| Automaton::new(stop.as_bytes()));
        StopMatcher { stops: stops.collect(), held: String::new(), stopped: false, included: false }
    }

    /// Sets whether the stop string stays in the text.
    #[must_use]
    pub fn with_stop_included(mut self, included: bool) -> Self {
        self.included = included;
        self
    }

    /// Returns true if there are no stop strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stops.is_empty()
    }

    /// Takes the next piece of the text. Input after a stop string is ignored.
    pub fn push(&mut self, text: &str) -> StopEvent {
        if self.stopped {
            return StopEvent { text: String::new(), stopped: true };
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (i, &byte) in text.as_bytes().iter().enumerate() {
            let mut found = None;
            for automaton in &mut self.stops {
                if automaton.step(byte) {
                    found = found.max(Some(automaton.stop.len()));
                }
            }
            if let Some(len) = found {
                self.stopped = true;
                self.held.truncate(before + i + 1 - if self.included { 0 } else { len });
                return StopEvent { text: std::mem::take(&mut self.held), stopped: true };
            }
        }
        let keep = self.stops.iter().map(|automaton| automaton.state).max().unwrap_or(0);
        // A state is a prefix of a string at the end of a string, so it starts at a character boundary.
        let held = self.held.split_off(self.held.len() - keep);
        StopEvent { text: std::mem::replace(&mut self.held, held), stopped: false }
    }

    /// Ends the text and returns the text that was held back.
    pub fn finish(&mut self) -> String {
        for automaton in &mut self.stops {
            automaton.state = 0;
        }
        std::mem::take(&mut self.held)
    }
}

impl Automaton {
    fn new(stop: &[u8]) -> Self {
        let mut fallback = vec![0; stop.len() + 1];
        let mut state = 0;
        for i in 1..stop.len() {
            while state > 0 && stop[i] != stop[state] {
                state = fallback[state];
            }
            if stop[i] == stop[state] {
                state += 1;
            }
            fallback[i + 1] = state;
        }
        Automaton { stop: stop.into(), fallback: fallback.into(), state: 0 }
    }

    /// Takes a byte. Returns whether the stop string is complete.
    fn step(&mut self, byte: u8) -> bool {
        while self.state > 0 && self.stop[self.state] != byte {
            self.state = self.fallback[self.state];
        }
        if self.stop[self.state] == byte {
            self.state += 1;
        }
        self.state == self.stop.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the text up to the stop string that is complete first, and whether there is one.
    fn by_definition<'t>(text: &'t str, stops: &[String]) -> (&'t str, bool) {
        let found = stops
            .iter()
            .filter(|s| !s.is_empty())
            .filter_map(|s| text.find(s.as_str()).map(|at| (at + s.len(), at)));
        found.min().map_or((text, false), |(_, at)| (&text[..at], true))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_chunks_end_at_the_same_place(
            stops in prop::collection::vec("[abé]{0,5}", 0..4),
            pieces in prop::collection::vec("[abcé🦙]{0,6}", 0..12),
        ) {
            let text = pieces.concat();
            let mut matcher = StopMatcher::new(&stops);
            let mut out = String::new();
            let mut stopped = false;
            let mut arrived = String::new();
            for piece in &pieces {
                arrived += piece;
                let event = matcher.push(piece);
                out += &event.text;
                stopped = event.stopped;
                if !stopped {
                    // The text held back is the longest suffix that may become a stop string.
                    let held = arrived.strip_prefix(&out).unwrap();
                    let longest = arrived.char_indices().map(|(i, _)| &arrived[i..])
                        .find(|end| stops.iter().any(|stop| stop.starts_with(end)));
                    prop_assert_eq!(held, longest.unwrap_or_default());
                }
            }
            out += &matcher.finish();
            prop_assert_eq!((out.as_str(), stopped), by_definition(&text, &stops));
        }
    }

    #[test]
    fn after_a_stop_everything_is_ignored() {
        let mut matcher = StopMatcher::new(&["b".into()]);
        assert_eq!(matcher.push("abc"), StopEvent { text: "a".into(), stopped: true });
        assert_eq!(matcher.push("more"), StopEvent { text: String::new(), stopped: true });
        assert_eq!(matcher.finish(), "");
    }

    #[test]
    fn the_stop_string_can_be_part_of_the_text() {
        let mut matcher = StopMatcher::new(&["bé".into()]).with_stop_included(true);
        assert_eq!(matcher.push("ab"), StopEvent { text: "a".into(), stopped: false });
        assert_eq!(matcher.push("éc"), StopEvent { text: "bé".into(), stopped: true });
        assert_eq!(matcher.push("more"), StopEvent { text: String::new(), stopped: true });
    }

    #[test]
    fn a_long_stop_string_takes_time_in_proportion() {
        let stop = "ab".repeat(50_000) + "c";
        let mut matcher = StopMatcher::new(&[stop]);
        let begin = std::time::Instant::now();
        for _ in 0..100_000 {
            matcher.push("ab");
        }
        // Under an emulator the test takes some twenty times as long.
        let limit = if std::env::var_os("LEYDEN_TEST_RUNNER").is_some() { 100 } else { 5 };
        assert!(begin.elapsed().as_secs() < limit);
        assert_eq!(matcher.finish().len(), 100_000);
    }
}
