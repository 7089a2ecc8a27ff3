//! Detection of the stop string that ended an answer: the answer is generated with it, and it is removed here.

use leyden_text::output::OutputEvent;

/// The end of a content, held back because it may be a stop string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    texts: Vec<String>,
    held: String,
}

impl Stops {
    /// Creates the detection for an answer with these stop strings, which are part of it.
    pub(crate) fn new(texts: Vec<String>) -> Stops {
        Stops { texts, held: String::new() }
    }

    /// Adds output events. Returns those that cannot be part of a stop string.
    pub(crate) fn push(&mut self, parts: Vec<OutputEvent>) -> Vec<OutputEvent> {
        let Some(longest) = self.texts.iter().map(String::len).max() else { return parts };
        let mut told = Vec::new();
        for part in parts {
            let OutputEvent::Content(text) = part else {
                // A stop string only comes at the very end of the answer.
                told.extend(self.take());
                told.push(part);
                continue;
            };
            self.held.push_str(&text);
            let rest =
                self.held.split_off(self.held.floor_char_boundary(self.held.len().saturating_sub(longest)));
            told.extend(self.take());
            self.held = rest;
        }
        told
    }

    /// Returns the rest of the answer, and the stop string if one ended it.
    pub(crate) fn end(&mut self, stopped: bool) -> (Option<OutputEvent>, Option<String>) {
        let held = &self.held;
        let found =
            self.texts.iter().filter(|text| stopped && held.ends_with(*text)).max_by_key(|text| text.len());
        let found = found.cloned();
        if let Some(text) = &found {
            self.held.truncate(self.held.len() - text.len());
        }
        (self.take(), found)
    }

    fn take(&mut self) -> Option<OutputEvent> {
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(OutputEvent::Content(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_texts_are_told_apart() {
        let content = |text: &str| OutputEvent::Content(text.to_owned());
        let mut stops = Stops::new(vec!["END".to_owned(), "é".to_owned()]);
        assert_eq!(stops.push(vec![content("one EN")]), [content("one")]);
        assert_eq!(stops.push(vec![content("ts END")]), [content(" ENts ")]);
        assert_eq!(stops.clone().end(false), (Some(content("END")), None));
        assert_eq!(stops.end(true), (None, Some("END".to_owned())));
        assert_eq!(stops.push(vec![content("aé")]), []);
        assert_eq!(stops.end(true), (Some(content("a")), Some("é".to_owned())));
        let mut none = Stops::default();
        assert_eq!(none.push(vec![content("END")]), [content("END")]);
        assert_eq!(none.end(true), (None, None));
    }
}
