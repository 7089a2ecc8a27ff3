//! How calls of tools are written.

use super::literal::Literal;

/// The longest call, in bytes; longer ones are content.
pub(super) const MOST_CALL_BYTES: usize = 1 << 20;

/// How a model writes calls of tools. Blanks between the words of these texts do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSyntax {
    /// What stands around all calls of an answer; both empty if nothing does.
    pub section: (String, String),
    /// What stands before each call. If it and the section are empty, a call is a JSON object at the beginning of the
    /// content.
    pub start: String,
    /// What may stand there as well.
    pub other_start: Option<String>,
    /// What stands after each call.
    pub end: String,
    /// What stands between.
    pub body: CallBody,
}

/// What stands between the beginning and the end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallBody {
    /// A JSON object with the name and the arguments, or a list of such objects.
    Object {
        /// The key of the name.
        name: String,
        /// The key of the arguments.
        arguments: String,
        /// The key of the call's id, if there is one.
        id: Option<String>,
        /// Whether the model writes a list of them; either is read.
        list: bool,
    },
    /// The name, and behind it the arguments as a JSON object.
    Named {
        /// What stands between name and arguments.
        separator: String,
        /// What stands before the name in an id that holds it, such as `functions.name:0`.
        prefix: String,
        /// Whether the name is followed by a colon and the number of the call.
        numbered: bool,
        /// What stands between the name and an id of the call, where the format has one.
        id: Option<String>,
    },
    /// The name, and behind it each argument by itself, as text.
    Tagged {
        /// What stands behind the name.
        separator: String,
        /// What stands before the name of a parameter.
        key_start: String,
        /// What stands between it and the value.
        key_end: String,
        /// What stands behind the value.
        value_end: String,
        /// Whether a line break stands before a value and one behind it.
        framed: bool,
    },
}

impl CallSyntax {
    /// All texts that the syntax knows.
    pub(super) fn texts(&self) -> Vec<&str> {
        let mut texts = vec![&self.section.0, &self.section.1, &self.start, &self.end];
        texts.extend(&self.other_start);
        match &self.body {
            CallBody::Object { .. } => {}
            CallBody::Named { separator, id, .. } => {
                texts.push(separator);
                texts.extend(id);
            }
            CallBody::Tagged { separator, key_start, key_end, value_end, .. } => {
                texts.extend([separator, key_start, key_end, value_end]);
            }
        }
        texts.into_iter().map(String::as_str).collect()
    }

    /// Whether a call has an id, which then has nine letters and digits.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        matches!(&self.body, CallBody::Object { id: Some(_), .. } | CallBody::Named { id: Some(_), .. })
    }

    /// Whether a call has no mark before it.
    pub(super) fn is_bare(&self) -> bool {
        self.start.is_empty() && self.section.0.is_empty()
    }
}

/// What reading came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// All calls are whole, and end before this byte.
    Done(usize),
    /// No call after all; so much of the text has been looked at.
    Failed(usize),
}

/// The syntax, cut into words.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// What begins all calls, before the first.
    pub(super) section: Literal,
    pub(super) start: Literal,
    pub(super) other_start: Literal,
    pub(super) end: Literal,
    pub(super) body: CallBody,
    pub(super) separator: Literal,
    pub(super) id: Literal,
    pub(super) key_start: Literal,
    pub(super) key_end: Literal,
    pub(super) value_end: Literal,
    /// Only a known tool makes a call.
    pub(super) known_only: bool,
    /// Whether line breaks stand around values that are not JSON.
    pub(super) framed: bool,
}

impl Reader {
    pub(super) fn new(syntax: &CallSyntax, framed: bool) -> Reader {
        let empty = Literal::default;
        let (separator, id, key_start, key_end, value_end) = match &syntax.body {
            CallBody::Object { .. } => (empty(), empty(), empty(), empty(), empty()),
            CallBody::Named { separator, id, .. } => (
                Literal::new(separator),
                Literal::new(id.as_deref().unwrap_or_default()),
                empty(),
                empty(),
                empty(),
            ),
            CallBody::Tagged { separator, key_start, key_end, value_end, .. } => (
                Literal::new(separator),
                empty(),
                Literal::new(key_start),
                Literal::new(key_end),
                Literal::new(value_end),
            ),
        };
        Reader {
            section: Literal::new(&syntax.section.0),
            start: Literal::new(&syntax.start),
            other_start: Literal::new(syntax.other_start.as_deref().unwrap_or_default()),
            end: Literal::new(&syntax.end),
            body: syntax.body.clone(),
            separator,
            id,
            key_start,
            key_end,
            value_end,
            known_only: syntax.is_bare(),
            framed,
        }
    }
}
