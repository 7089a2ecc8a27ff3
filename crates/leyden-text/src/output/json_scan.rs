//! Strict byte-by-byte scanner of a JSON object or array in text that arrives in pieces.
//!
//! Accepted bytes are always a prefix of valid JSON, so they may be passed on before the end is known. Unpaired
//! surrogates and the ranges of numbers are not checked here but by the later parser.

/// Maximum nesting depth of arrays and objects.
const MAX_DEPTH: usize = 64;

/// Position in a JSON object or array.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonScan {
    open: Vec<u8>,
    expect: Expect,
    lexeme: Lexeme,
}

/// Lexemes that may come next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
}

/// Current lexeme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lexeme {
    #[default]
    None,
    /// A string; true if it is a key.
    Text(bool),
    Escape(bool),
    /// An escape `\u` with this many digits missing.
    Hex(bool, u8),
    Number(Number),
    /// Missing rest of `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// Progress within a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Sign,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    ESign,
    Exponent,
}

/// Effect of a byte. Keys and values are reported only for the outermost object, and the ends of numbers not at
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    KeyBegins,
    KeyEnds,
    ValueBegins,
    ValueEnds,
    /// The last byte of the whole value.
    Whole,
    Wrong,
}

/// Result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    More,
    /// The value ends before this byte.
    End(usize),
    /// Not valid JSON; this byte is the first invalid one.
    Wrong(usize),
}

impl JsonScan {
    /// Scans `text[from..]`, which follows the text scanned before.
    pub(super) fn scan(&mut self, text: &str, from: usize) -> Scanned {
        for (i, byte) in text.bytes().enumerate().skip(from) {
            match self.step(byte) {
                Step::Whole => return Scanned::End(i + 1),
                Step::Wrong => return Scanned::Wrong(i),
                _ => {}
            }
        }
        Scanned::More
    }

    /// Takes the next byte.
    pub(super) fn step(&mut self, byte: u8) -> Step {
        match self.lexeme {
            Lexeme::None => self.between(byte),
            Lexeme::Text(key) => match byte {
                b'\\' => self.goes_on(Lexeme::Escape(key)),
                b'"' if key => {
                    (self.lexeme, self.expect) = (Lexeme::None, Expect::Colon);
                    if self.is_outermost() { Step::KeyEnds } else { Step::More }
                }
                b'"' => self.value_ends(),
                0..0x20 => Step::Wrong,
                _ => Step::More,
            },
            Lexeme::Escape(key) => match byte {
                b'u' => self.goes_on(Lexeme::Hex(key, 4)),
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.goes_on(Lexeme::Text(key)),
                _ => Step::Wrong,
            },
            Lexeme::Hex(key, left) if byte.is_ascii_hexdigit() => {
                self.goes_on(if left > 1 { Lexeme::Hex(key, left - 1) } else { Lexeme::Text(key) })
            }
            Lexeme::Hex(..) => Step::Wrong,
            Lexeme::Word(rest) => match rest.split_first() {
                Some((first, [])) if *first == byte => self.value_ends(),
                Some((first, rest)) if *first == byte => self.goes_on(Lexeme::Word(rest)),
                _ => Step::Wrong,
            },
            Lexeme::Number(number) => match number.next(byte) {
                Ok(Some(next)) => self.goes_on(Lexeme::Number(next)),
                Ok(None) => {
                    let _ = self.value_ends();
                    self.between(byte)
                }
                Err(()) => Step::Wrong,
            },
        }
    }

    fn between(&mut self, byte: u8) -> Step {
        match (byte, self.expect) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => Step::More,
            (b'"', Expect::Key | Expect::KeyOrEnd) => {
                self.lexeme = Lexeme::Text(true);
                if self.is_outermost() { Step::KeyBegins } else { Step::More }
            }
            (b':', Expect::Colon) => {
                self.expect = Expect::Value;
                Step::More
            }
            (b',', Expect::CommaOrEnd) => {
                self.expect = if self.open.last() == Some(&b'{') { Expect::Key } else { Expect::Value };
                Step::More
            }
            (b'}', Expect::KeyOrEnd | Expect::CommaOrEnd) => self.close(b'{'),
            (b']', Expect::ValueOrEnd | Expect::CommaOrEnd) => self.close(b'['),
            (_, Expect::Value | Expect::ValueOrEnd) => self.value_begins(byte),
            _ => Step::Wrong,
        }
    }

    fn value_begins(&mut self, byte: u8) -> Step {
        let outermost = self.is_outermost();
        match byte {
            b'{' | b'[' if self.open.len() < MAX_DEPTH => {
                self.open.push(byte);
                self.expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ValueOrEnd };
            }
            // The whole value must be an object or an array.
            _ if self.open.is_empty() => return Step::Wrong,
            b'"' => self.lexeme = Lexeme::Text(false),
            b't' => self.lexeme = Lexeme::Word(b"rue"),
            b'f' => self.lexeme = Lexeme::Word(b"alse"),
            b'n' => self.lexeme = Lexeme::Word(b"ull"),
            b'-' => self.lexeme = Lexeme::Number(Number::Sign),
            b'0' => self.lexeme = Lexeme::Number(Number::Zero),
            b'1'..=b'9' => self.lexeme = Lexeme::Number(Number::Whole),
            _ => return Step::Wrong,
        }
        if outermost { Step::ValueBegins } else { Step::More }
    }

    fn value_ends(&mut self) -> Step {
        (self.lexeme, self.expect) = (Lexeme::None, Expect::CommaOrEnd);
        if self.is_outermost() { Step::ValueEnds } else { Step::More }
    }

    fn close(&mut self, opened: u8) -> Step {
        if self.open.pop() != Some(opened) {
            return Step::Wrong;
        }
        match self.open.is_empty() {
            true => Step::Whole,
            false => self.value_ends(),
        }
    }

    fn goes_on(&mut self, lexeme: Lexeme) -> Step {
        self.lexeme = lexeme;
        Step::More
    }

    /// Returns true directly within the outermost object, outside nested values.
    fn is_outermost(&self) -> bool {
        self.open == [b'{']
    }
}

impl Number {
    /// Returns the state after another byte; `None` if the number ends before it.
    fn next(self, byte: u8) -> Result<Option<Number>, ()> {
        let digit = byte.is_ascii_digit();
        let e = matches!(byte, b'e' | b'E');
        Ok(Some(match self {
            Number::Sign if byte == b'0' => Number::Zero,
            Number::Sign if digit => Number::Whole,
            Number::Zero if digit => return Err(()),
            Number::Whole if digit => Number::Whole,
            Number::Zero | Number::Whole if byte == b'.' => Number::Point,
            Number::Point | Number::Fraction if digit => Number::Fraction,
            Number::Zero | Number::Whole | Number::Fraction if e => Number::E,
            Number::E if matches!(byte, b'+' | b'-') => Number::ESign,
            Number::E | Number::ESign | Number::Exponent if digit => Number::Exponent,
            Number::Zero | Number::Whole | Number::Fraction | Number::Exponent => return Ok(None),
            Number::Sign | Number::Point | Number::E | Number::ESign => return Err(()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::IgnoredAny;

    #[test]
    fn ends_are_found_in_pieces() {
        let text = r#" {"a}\"": [1, {"b": "]"}]} rest"#;
        let end = text.find(" rest").unwrap();
        assert_eq!(JsonScan::default().scan(text, 0), Scanned::End(end));
        for cut in 0..end {
            let mut scan = JsonScan::default();
            assert_eq!(scan.scan(&text[..cut], 0), Scanned::More, "{cut}");
            assert_eq!(scan.scan(text, cut), Scanned::End(end), "{cut}");
        }
        let deep = "[".repeat(100);
        let wrong = [
            "x",
            "\"a\"",
            "1",
            "{]",
            "}",
            "{'a'",
            "{\"a\nb\"",
            "{\"a\" 1",
            "{\"a\":01",
            "[1 2",
            "[,",
            "[1,]",
        ];
        for wrong in
            wrong.into_iter().chain([deep.as_str(), "{\"a\": tru1", "[\"\\x", "[-]", "[1.]", "[1e]", "{a"])
        {
            assert!(matches!(JsonScan::default().scan(wrong, 0), Scanned::Wrong(_)), "{wrong}");
        }
    }

    #[test]
    fn members_of_the_outermost_object_are_told() {
        let text = r#"{"n": "x", "a": {"n": [1]}, "e": -1.5e+3, "z": null}"#;
        let mut scan = JsonScan::default();
        let steps =
            text.bytes().enumerate().map(|(i, b)| (i, scan.step(b))).filter(|(_, s)| *s != Step::More);
        let keys: Vec<(usize, Step)> = steps.collect();
        use Step::{KeyBegins, KeyEnds, ValueBegins, ValueEnds, Whole};
        let want = [
            (1, KeyBegins),
            (3, KeyEnds),
            (6, ValueBegins),
            (8, ValueEnds),
            (11, KeyBegins),
            (13, KeyEnds),
            (16, ValueBegins),
            (25, ValueEnds),
            (28, KeyBegins),
            (30, KeyEnds),
            (33, ValueBegins),
            (42, KeyBegins),
            (44, KeyEnds),
            (47, ValueBegins),
            (50, ValueEnds),
            (51, Whole),
        ];
        assert_eq!(keys, want);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Checks that the scanner agrees with a parser on valid JSON and on its prefixes.
        #[test]
        fn is_as_strict_as_a_parser(rest in "[\\[\\]{},:\"\\\\ntu0-9a-f.eE+ é-]{0,14}") {
            let text = format!("[{rest}");
            let parsed = serde_json::from_str::<IgnoredAny>(&text);
            match JsonScan::default().scan(&text, 0) {
                Scanned::End(end) => {
                    prop_assert!(serde_json::from_str::<IgnoredAny>(&text[..end]).is_ok(), "{}", text);
                }
                // For a number without digits the parser reports an invalid number.
                Scanned::More => prop_assert!(parsed.is_err(), "{}", text),
                Scanned::Wrong(_) => {
                    // The parser reads the four digits of an escape at once, and reports the end of the text at the
                    // fourth if they are truncated.
                    let longer = serde_json::from_str::<IgnoredAny>(&format!("{text}    "));
                    prop_assert!(longer.is_err_and(|e| !e.is_eof()), "{}", text);
                }
            }
        }
    }
}
