//! [`Detokenizer`]: joins the bytes of tokens to whole characters.

/// Converter of tokens' bytes to text as they arrive. A token may end inside a character; the bytes of an incomplete
/// character are held back, so that printed text never changes.
///
/// However the bytes are split, the joined results are [`String::from_utf8_lossy`] of all bytes: invalid bytes
/// become U+FFFD.
///
/// ```
/// let mut detokenizer = leyden_text::Detokenizer::new();
/// assert_eq!(detokenizer.push(b"caf\xc3"), "caf");
/// assert_eq!(detokenizer.push(b"\xa9!\xf0\x9f"), "é!");
/// assert_eq!(detokenizer.finish(), "\u{fffd}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// Incomplete character at the end: at most three bytes.
    held: Vec<u8>,
}

impl Detokenizer {
    /// Creates a detokenizer for a new text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the characters that are complete.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    let Some(bad) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[bad..];
                }
            }
        }
        self.held = rest.to_vec();
        text
    }

    /// Ends the text and returns U+FFFD if a character is incomplete.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Generates bytes of whole and truncated characters.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            prop::sample::select(vec![
                0x80u8, 0xbf, 0xc0, 0xc3, 0xe0, 0xe2, 0xed, 0xa0, 0xf0, 0x9f, 0xf4, 0xff
            ])
            .prop_map(|b| vec![b]),
            any::<u8>().prop_map(|b| vec![b]),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_chunks_join_to_the_lossy_whole(bytes in bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut detokenizer = Detokenizer::new();
            let mut text = String::new();
            for pair in cuts.windows(2) {
                text += &detokenizer.push(&bytes[pair[0]..pair[1]]);
                prop_assert!(detokenizer.held.len() < 4);
            }
            text += &detokenizer.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn single_bytes_are_released_with_the_last_of_a_character() {
        let mut detokenizer = Detokenizer::new();
        let out: Vec<String> = "é🦙".bytes().map(|b| detokenizer.push(&[b])).collect();
        assert_eq!(out, ["", "é", "", "", "", "🦙"]);
        assert_eq!(detokenizer.finish(), "");
    }

    #[test]
    fn finish_starts_over() {
        let mut detokenizer = Detokenizer::new();
        assert_eq!(detokenizer.push(&[0xf0, 0x9f]), "");
        assert_eq!(detokenizer.finish(), "\u{fffd}");
        assert_eq!(detokenizer.push(b"\xa6x"), "\u{fffd}x");
    }
}
