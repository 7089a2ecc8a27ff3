//! A call that is a JSON object, as it is written: its name, its id and its arguments.

use super::calls::CallBody;
use super::json_scan::Step;
use super::tools::is_object;
use serde_json::Value as Json;

/// What is known of the object.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    key: Key,
    /// Where the current key or value begins.
    from: usize,
    name: Option<String>,
    id: Option<String>,
    arguments: Arguments,
}

/// What a member is.
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
    /// Not an object, or not known to be one.
    Unread,
    /// An object that stands here, which has been given out up to `told`.
    Inside { from: usize, to: Option<usize>, told: usize },
    /// An object in a string, and whether it has been given out.
    Apart(String, bool),
}

/// What a step of the scan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Fine,
    /// No call has this.
    Wrong,
}

impl Object {
    /// Takes what the scan said of the byte at `at`.
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
                    let here = Arguments::Inside { from: at, to: None, told: at };
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

    /// Whether there are arguments, at least their beginning.
    pub(super) fn has_arguments(&self) -> bool {
        matches!(self.arguments, Arguments::Inside { .. } | Arguments::Apart(..))
    }

    /// Whether what was read, if that is all, is a call.
    pub(super) fn is_call(&self) -> bool {
        self.name.is_some() && !matches!(self.arguments, Arguments::Unread)
    }

    /// The arguments, once they are whole.
    pub(super) fn arguments<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        match &self.arguments {
            Arguments::Inside { from, to, .. } => text.get(*from..(*to)?),
            Arguments::Apart(text, _) => Some(text),
            Arguments::None | Arguments::Unread => None,
        }
    }

    /// What of the arguments has not been given out yet of a text that was read up to `at`, and where that ends.
    pub(super) fn news(&mut self, text: &str, at: usize) -> Option<(String, usize)> {
        match &mut self.arguments {
            Arguments::Inside { to, told, .. } => {
                let to = to.unwrap_or(at);
                let news = text.get(*told..to)?.to_owned();
                *told = to;
                Some((news, to))
            }
            Arguments::Apart(text, told @ false) => {
                *told = true;
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
        // Models confuse the two.
        _ if key == arguments || ["arguments", "parameters"].contains(&key) => Key::Arguments,
        _ => Key::Other,
    }
}

/// Arguments that are the text of an object in a string, or none.
fn apart(value: &str) -> Option<String> {
    match serde_json::from_str::<Json>(value).ok()? {
        Json::String(inner) => is_object(&inner).then_some(inner),
        Json::Null => Some("{}".into()),
        _ => None,
    }
}
