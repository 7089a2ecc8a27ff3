//! Syntax of tool calls.

use super::literal::Literal;

/// Maximum length of a call in bytes; longer ones are content.
pub(super) const MAX_CALL_BYTES: usize = 1 << 20;

/// Syntax of a model's tool calls. Whitespace between the words of these texts is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSyntax {
    /// Markers around all calls of an answer; both empty if there are none.
    pub section: (String, String),
    /// Marker before each call. If it and the section are empty, a call is a JSON object at the beginning of the
    /// content.
    pub start: String,
    /// Alternative marker before a call.
    pub other_start: Option<String>,
    /// Marker after each call.
    pub end: String,
    /// Form of the text between the markers.
    pub body: CallBody,
}

/// Form of the text between a call's start and end markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallBody {
    /// A JSON object with the name and the arguments, or a list of such objects.
    Object {
        /// Key of the name.
        name: String,
        /// Key of the arguments.
        arguments: String,
        /// Key of the call's id, if there is one.
        id: Option<String>,
        /// True if the model writes a list of objects; the parser accepts both.
        list: bool,
    },
    /// The name, followed by the arguments as a JSON object.
    Named {
        /// Text between name and arguments.
        separator: String,
        /// Text before the name if an id contains it, such as `functions.name:0`.
        prefix: String,
        /// True if the name is followed by a colon and the number of the call.
        numbered: bool,
        /// Text between the name and the call's id, in formats with an id.
        id: Option<String>,
    },
    /// The name, followed by each argument separately, as text.
    Tagged {
        /// Text after the name.
        separator: String,
        /// Text before the name of a parameter.
        key_start: String,
        /// Text between the parameter's name and its value.
        key_end: String,
        /// Text after the value.
        value_end: String,
        /// True if a value has a line break before and after it.
        framed: bool,
    },
}

impl CallSyntax {
    /// Returns all markers of the syntax.
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

    /// Returns true if calls have ids, which then consist of nine letters and digits.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        matches!(&self.body, CallBody::Object { id: Some(_), .. } | CallBody::Named { id: Some(_), .. })
    }

    /// Returns true if a call has no marker before it.
    pub(super) fn is_bare(&self) -> bool {
        self.start.is_empty() && self.section.0.is_empty()
    }
}

/// Result of parsing so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// All calls are complete, and end before this byte.
    Done(usize),
    /// Not a call; this many bytes of the text were examined.
    Failed(usize),
}

/// Call syntax, split into words.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Marker before the first call.
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
    /// True if only calls of known tools count.
    pub(super) known_only: bool,
    /// True if values that are not JSON have line breaks around them.
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
