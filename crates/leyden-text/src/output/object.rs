//! Incremental reading of a call that is a JSON object: its name, id and arguments.

use super::calls::CallBody;
use super::json_scan::Step;
use super::tools::is_object;
use serde_json::Value as Json;

/// Members of the object read so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    key: Key,
    /// Start of the current key or value.
    from: usize,
    name: Option<String>,
    id: Option<String>,
    arguments: Arguments,
}

/// Role of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Key {
    #[default]
    Other,
    Name,
    Id,
    Arguments,
}

#[derive(Clone, Debug, Default)]
enum Arguments {
    #[default]
    None,
    /// Not an object, or not yet known to be one.
    Unread,
    /// An object at this position in the text, which has been output up to `emitted`.
    Inside { from: usize, to: Option<usize>, emitted: usize },
    /// An object encoded in a string; true once it was output.
    Apart(String, bool),
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Fine,
    /// Not valid in a call.
    Wrong,
}

impl Object {
    /// Takes the scanner's result for the byte at `at`.
    pub(super) fn take(&mut self, step: Step, text: &str, at: usize, body: &CallBody) -> Read {
        let part = || &text[self.from..=at];
        match step {
            Step::KeyBegins => self.from = at,
            Step::KeyEnds => {
                let Ok(key) = serde_json::from_str::<String>(part()) else { return Read::Wrong };
                self.key = key_of(&key, body);
            }
            Step::ValueBegins => {
                self.from = at;
                if self.key == Key::Arguments && matches!(self.arguments, Arguments::None) {
                    let inside = text.as_bytes()[at] == b'{';
                    let here = Arguments::Inside { from: at, to: None, emitted: at };
                    self.arguments = if inside { here } else { Arguments::Unread };
                }
            }
            Step::ValueEnds => {
                let text = || serde_json::from_str::<String>(part()).ok();
                match (self.key, &mut self.arguments) {
                    (Key::Name, _) if self.name.is_none() => {
                        self.name = text().filter(|name| !name.is_empty())
                    }
                    (Key::Id, _) if self.id.is_none() => self.id = text(),
                    (Key::Arguments, Arguments::Inside { to: to @ None, .. }) => *to = Some(at + 1),
                    (Key::Arguments, Arguments::Unread) => match apart(part()) {
                        Some(text) => self.arguments = Arguments::Apart(text, false),
                        None => return Read::Wrong,
                    },
                    _ => {}
                }
                if self.key == Key::Name && self.name.is_none() {
                    return Read::Wrong;
                }
            }
            Step::More | Step::Whole | Step::Wrong => {}
        }
        Read::Fine
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn id(&self) -> Option<String> {
        self.id.clone()
    }

    /// Returns whether the arguments have at least begun.
    pub(super) fn has_arguments(&self) -> bool {
        matches!(self.arguments, Arguments::Inside { .. } | Arguments::Apart(..))
    }

    /// Returns whether the members read so far form a complete call.
    pub(super) fn is_call(&self) -> bool {
        self.name.is_some() && !matches!(self.arguments, Arguments::Unread)
    }

    /// Returns the arguments, once complete.
    pub(super) fn arguments<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        match &self.arguments {
            Arguments::Inside { from, to, .. } => text.get(*from..(*to)?),
            Arguments::Apart(text, _) => Some(text),
            Arguments::None | Arguments::Unread => None,
        }
    }

    /// Returns the part of the arguments not yet output, of a text read up to `at`, and where that part ends.
    pub(super) fn news(&mut self, text: &str, at: usize) -> Option<(String, usize)> {
        match &mut self.arguments {
            Arguments::Inside { to, emitted, .. } => {
                let to = to.unwrap_or(at);
                let news = text.get(*emitted..to)?.to_owned();
                *emitted = to;
                Some((news, to))
            }
            Arguments::Apart(text, emitted @ false) => {
                *emitted = true;
                Some((text.clone(), at))
            }
            _ => None,
        }
    }
}

fn key_of(key: &str, body: &CallBody) -> Key {
    let CallBody::Object { name, arguments, id, .. } = body else { return Key::Other };
    match key {
        _ if key == name => Key::Name,
        _ if id.as_deref() == Some(key) => Key::Id,
        // Models confuse the two keys.
        _ if key == arguments || ["arguments", "parameters"].contains(&key) => Key::Arguments,
        _ => Key::Other,
    }
}

/// Returns the arguments object encoded in a string; an empty object for null.
fn apart(value: &str) -> Option<String> {
    match serde_json::from_str::<Json>(value).ok()? {
        Json::String(inner) => is_object(&inner).then_some(inner),
        Json::Null => Some("{}".into()),
        _ => None,
    }
}
