//! [`JsonForm`]: formatting of generated JSON.

/// White space between the tokens of JSON: none, a space, or line breaks with an indent. It is limited, because
/// weak models would otherwise generate white space endlessly.
pub(super) const WHITESPACE: &str = r"[ ]|\n{1,2}[ \t]{0,20}";

/// Formatting of generated JSON, where the schema leaves it open.
///
/// The default is the standard's: objects may have further properties unless the schema says otherwise, and spaces
/// and line breaks are allowed between the tokens of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonForm {
    /// True if objects without `additionalProperties` have only the properties that the schema names. An object
    /// without named properties stays open, as does one that requires more properties than are named.
    pub closed: bool,
    /// True if there are no line breaks, and no spaces except one after a comma or colon.
    pub compact: bool,
}

impl JsonForm {
    /// Formatting of llama.cpp's grammars: closed objects, written compactly.
    pub const CLOSED: JsonForm = JsonForm { closed: true, compact: true };
}
