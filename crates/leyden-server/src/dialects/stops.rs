//! Which stop text ended an answer: the answer is asked for with it, and here it is told apart again.

use leyden_text::output::OutputEvent;

/// The end of a content, of which nobody knows yet whether it is a stop text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops {
    texts: Vec<String>,
    held: String,
}

impl Stops {
    /// For an answer with these stop texts, which are part of it.
    pub(crate) fn new(texts: Vec<String>) -> Stops {
        Stops { texts, held: String::new() }
    }

    /// More of an answer without what may be a stop text.
    pub(crate) fn hear(&mut self, parts: Vec<OutputEvent>) -> Vec<OutputEvent> {
        let Some(longest) = self.texts.iter().map(String::len).max() else { return parts };
        let mut told = Vec::new();
        for part in parts {
            let OutputEvent::Content(text) = part else {
                // A stop text is the last that is said.
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

    /// What is left when the answer has ended, and the stop text that did it, if one did.
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
        assert_eq!(stops.hear(vec![content("one EN")]), [content("one")]);
        assert_eq!(stops.hear(vec![content("ts END")]), [content(" ENts ")]);
        assert_eq!(stops.clone().end(false), (Some(content("END")), None));
        assert_eq!(stops.end(true), (None, Some("END".to_owned())));
        assert_eq!(stops.hear(vec![content("aé")]), []);
        assert_eq!(stops.end(true), (Some(content("a")), Some("é".to_owned())));
        let mut none = Stops::default();
        assert_eq!(none.hear(vec![content("END")]), [content("END")]);
        assert_eq!(none.end(true), (None, None));
    }
}
