//! The item of a conversation that contains its summary.

use crate::base64;

/// Beginning of the message that a summary is converted to.
const HEADING: &str = "Summary of the conversation until here:\n\n";

/// Marker at the beginning of a summary's bytes.
const MARK: &str = "leyden summary\n";

/// The kind of items that contain a summary.
pub(super) const KIND: &str = "compaction";

/// Returns the text of the message that an item's summary is converted to; `None` for a summary of another server.
pub(super) fn message_of(content: &str) -> Option<String> {
    let bytes = String::from_utf8(base64::decode(content)?).ok()?;
    Some(format!("{HEADING}{}", bytes.strip_prefix(MARK)?))
}

/// Returns the content of the item with this summary.
pub(super) fn content_of(summary: &str) -> String {
    base64::encode(format!("{MARK}{}", summary.trim()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_becomes_a_message() {
        assert_eq!(message_of(&content_of("Hm.")), Some(format!("{HEADING}Hm.")));
        assert_eq!(message_of("gAAAAABo"), None);
        assert_eq!(message_of(&base64::encode(b"Hm.")), None);
    }
}
