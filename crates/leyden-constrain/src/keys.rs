//! Detection of duplicate keys in JSON text.
//!
//! A grammar cannot express this, as the allowed keys depend on those already written. So the text is parsed along,
//! byte by byte and with escapes decoded, and a token that would complete a duplicate key is removed from the mask.
//! A token completes a key only with its closing quote, so few tokens are examined. The items of arrays with
//! `uniqueItems` are checked likewise.
//!
//! The state is only appended to, which makes rollback cheap; tokens are tried by rolling back.

use std::collections::HashSet;
use std::sync::Arc;

use crate::schema::Places;

/// Keys of a text so far.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    now: State,
    /// All containers opened so far; the first represents the surrounding text.
    containers: Vec<Container>,
    /// Concatenated decoded bytes of all keys.
    text: Vec<u8>,
    /// Completed keys with their containers, in order.
    completed: Vec<(u32, Box<[u8]>)>,
    /// State before each token.
    tokens: Vec<Point>,
    /// Tags, if values are between tags, and all bytes read so far.
    tags: Option<(Arc<Tags>, Vec<u8>)>,
    /// Arrays with unique items, if there are any.
    places: Option<Arc<Places>>,
}

/// Tags around values, some of which are plain texts and not JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    /// Tag before a key, between key and value, and after the value.
    pub(crate) key_start: Vec<u8>,
    pub(crate) key_end: Vec<u8>,
    pub(crate) value_end: Vec<u8>,
    /// Keys whose values are plain texts.
    pub(crate) texts: Vec<String>,
    /// True if any value may be a plain text.
    pub(crate) all_texts: bool,
}

/// Current region of a text with values between tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Json,
    /// A key, starting at `from`.
    Key {
        from: usize,
    },
    Text,
}

#[derive(Clone, Debug, Default)]
struct Container {
    around: u32,
    is_object: bool,
    /// Number of keys of the open containers before this one.
    keys_before: u32,
    /// Keys of an object, or items of an array with unique items.
    keys: HashSet<Box<[u8]>>,
    /// Places in the schema.
    places: Vec<u32>,
    unique: bool,
}

#[derive(Clone, Copy, Debug)]
struct State {
    container: u32,
    mode: Mode,
    /// High surrogate of a pair of escapes, or zero.
    high: u16,
    /// Start of the current key.
    key_start: usize,
    /// Number of keys of the open containers.
    keys: u32,
    region: Region,
    /// True within a number or a word such as `true` that is an item; it begins at `key_start`.
    scalar: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Between strings; `key` is true if a key comes next, provided that the container is an object.
    Between {
        key: bool,
    },
    Text {
        key: bool,
    },
    /// After a backslash.
    Escape {
        key: bool,
    },
    /// Within the digits of `\u`.
    Digits {
        key: bool,
        count: u8,
        value: u16,
    },
}

/// State for rollback.
#[derive(Clone, Copy, Debug)]
struct Point {
    state: State,
    containers: usize,
    text: usize,
    completed: usize,
    read: usize,
}

/// Error of a key that its object already has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repeated;

impl Keys {
    /// Creates the state for a text that begins with a value, or with text without quotes and brackets.
    pub(crate) fn new(tags: Option<Arc<Tags>>) -> Keys {
        let between = Mode::Between { key: false };
        Keys {
            now: State {
                container: 0,
                mode: between,
                high: 0,
                key_start: 0,
                keys: 0,
                region: Region::Json,
                scalar: false,
            },
            places: None,
            tags: tags.map(|tags| (tags, Vec::new())),
            containers: vec![Container::default()],
            text: Vec::new(),
            completed: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Adds arrays with unique items.
    pub(crate) fn with_places(mut self, places: Option<Arc<Places>>) -> Keys {
        self.containers[0].places =
            places.as_ref().map(|places| places.outermost.clone()).unwrap_or_default();
        self.places = places;
        self
    }

    /// Returns the minimum number of quotes in a token that could complete a duplicate key or item; 0 if any token
    /// could.
    pub(crate) fn quotes(&self) -> usize {
        if self.places.is_some() {
            return usize::from(!matches!(self.now.mode, Mode::Between { .. }));
        }
        // Without a previous key both must be in the token itself.
        let more = if self.now.keys == 0 { 2 } else { 0 };
        if self.now.region != Region::Json {
            return 4;
        }
        more + match self.now.mode {
            Mode::Text { key: true } | Mode::Escape { key: true } | Mode::Digits { key: true, .. } => 1,
            Mode::Between { .. } => 2,
            _ => 3,
        }
    }

    /// Returns whether a token of these bytes would complete a duplicate key.
    pub(crate) fn would_repeat(&mut self, bytes: &[u8]) -> bool {
        let before = self.point();
        let repeated = self.read(bytes).is_err();
        self.back_to(before);
        repeated
    }

    /// Appends a token.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Repeated> {
        let before = self.point();
        let read = self.read(bytes);
        match read {
            Ok(()) => self.tokens.push(before),
            Err(_) => self.back_to(before),
        }
        read
    }

    /// Rolls back the last tokens.
    pub(crate) fn rollback(&mut self, tokens: usize) {
        let kept = self.tokens.len().saturating_sub(tokens);
        if let Some(point) = self.tokens.get(kept).copied() {
            self.back_to(point);
            self.tokens.truncate(kept);
        }
    }

    fn point(&self) -> Point {
        Point {
            state: self.now,
            containers: self.containers.len(),
            text: self.text.len(),
            completed: self.completed.len(),
            read: self.tags.as_ref().map_or(0, |(_, read)| read.len()),
        }
    }

    /// Returns whether special tokens of the model's format are part of the text.
    pub(crate) fn reads_marks(&self) -> bool {
        self.tags.is_some()
    }

    fn back_to(&mut self, point: Point) {
        for (container, key) in self.completed.drain(point.completed..) {
            self.containers[container as usize].keys.remove(&key);
        }
        self.containers.truncate(point.containers);
        self.text.truncate(point.text);
        if let Some((_, read)) = &mut self.tags {
            read.truncate(point.read);
        }
        self.now = point.state;
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Repeated> {
        bytes.iter().try_for_each(|byte| match self.tags {
            Some(_) => self.step_between_tags(*byte),
            None => self.step(*byte),
        })?;
        if self.is_bound_to_repeat() { Err(Repeated) } else { Ok(()) }
    }

    fn step_between_tags(&mut self, byte: u8) -> Result<(), Repeated> {
        let Some((tags, read)) = &mut self.tags else { return Ok(()) };
        read.push(byte);
        match self.now.region {
            Region::Key { from } => {
                if read.len() - from >= tags.key_end.len() && read.ends_with(&tags.key_end) {
                    let key = &read[from..read.len() - tags.key_end.len()];
                    let is_text =
                        tags.all_texts || tags.texts.iter().any(|text| text.as_bytes() == key.trim_ascii());
                    self.now.region = if is_text { Region::Text } else { Region::Json };
                    (self.now.container, self.now.mode) = (0, Mode::Between { key: false });
                }
                Ok(())
            }
            Region::Text => {
                if read.ends_with(&tags.value_end) {
                    self.now.region = Region::Json;
                }
                Ok(())
            }
            Region::Json => {
                let outside = self.now.container == 0 && matches!(self.now.mode, Mode::Between { .. });
                if outside && read.ends_with(&tags.key_start) {
                    self.now.region = Region::Key { from: read.len() };
                    return Ok(());
                }
                self.step(byte)
            }
        }
    }

    fn step(&mut self, byte: u8) -> Result<(), Repeated> {
        match self.now.mode {
            Mode::Between { key } => match byte {
                b'+' | b'-' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E'
                    if self.containers[self.now.container as usize].unique =>
                {
                    if !self.now.scalar {
                        (self.now.scalar, self.now.key_start) = (true, self.text.len());
                    }
                    self.text.push(byte);
                }
                _ if self.now.scalar => {
                    self.now.scalar = false;
                    let item = item(&self.text[self.now.key_start..]);
                    self.insert(item.into_bytes().into())?;
                    return self.step(byte);
                }
                b'{' | b'[' => {
                    let places = self.places_within();
                    let unique = byte == b'[' && self.places.as_ref().is_some_and(|all| all.unique(&places));
                    self.containers.push(Container {
                        places,
                        unique,
                        around: self.now.container,
                        is_object: byte == b'{',
                        keys_before: self.now.keys,
                        keys: HashSet::new(),
                    });
                    self.now.container = self.containers.len() as u32 - 1;
                    self.now.mode = Mode::Between { key: true };
                }
                b'}' | b']' if self.now.container > 0 => {
                    let closed = &self.containers[self.now.container as usize];
                    (self.now.container, self.now.keys) = (closed.around, closed.keys_before);
                    self.now.mode = Mode::Between { key: false };
                }
                b',' => self.now.mode = Mode::Between { key: true },
                b':' => self.now.mode = Mode::Between { key: false },
                b'"' => {
                    let container = &self.containers[self.now.container as usize];
                    let key = container.unique || key && container.is_object;
                    self.now.mode = Mode::Text { key };
                    self.now.key_start = self.text.len();
                    if container.unique {
                        // Distinguishes it from any number.
                        self.text.push(b'"');
                    }
                }
                _ => {}
            },
            Mode::Text { key } => match byte {
                b'"' => {
                    self.now.mode = Mode::Between { key: false };
                    if key {
                        self.unpaired();
                        return self.complete();
                    }
                }
                b'\\' => self.now.mode = Mode::Escape { key },
                byte => self.plain(key, byte),
            },
            Mode::Escape { key } => {
                self.now.mode = Mode::Text { key };
                match byte {
                    b'u' => self.now.mode = Mode::Digits { key, count: 0, value: 0 },
                    b'b' => self.plain(key, 8),
                    b'f' => self.plain(key, 12),
                    b'n' => self.plain(key, b'\n'),
                    b'r' => self.plain(key, b'\r'),
                    b't' => self.plain(key, b'\t'),
                    byte => self.plain(key, byte),
                }
            }
            Mode::Digits { key, count, value } => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default() as u16;
                let value = value << 4 | digit;
                self.now.mode = Mode::Digits { key, count: count + 1, value };
                if count == 3 {
                    self.now.mode = Mode::Text { key };
                    if key {
                        self.unit(value);
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends a decoded byte of a string.
    fn plain(&mut self, key: bool, byte: u8) {
        if key {
            self.unpaired();
            self.text.push(byte);
        }
    }

    /// Appends a UTF-16 code unit.
    fn unit(&mut self, value: u16) {
        let pair = [self.now.high, value];
        if let Some(Ok(c)) = char::decode_utf16(pair).next()
            && self.now.high != 0
        {
            self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            self.now.high = 0;
            return;
        }
        self.unpaired();
        match char::from_u32(u32::from(value)) {
            Some(c) => self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => self.now.high = value,
        }
    }

    /// Appends a pending unpaired surrogate, encoded as in UTF-8.
    fn unpaired(&mut self) {
        let high = std::mem::take(&mut self.now.high);
        if high != 0 {
            let six = |shift: u16| 0x80 | (high >> shift & 0x3f) as u8;
            self.text.extend_from_slice(&[0xe0 | (high >> 12) as u8, six(6), six(0)]);
        }
    }

    fn complete(&mut self) -> Result<(), Repeated> {
        self.insert(self.text[self.now.key_start..].into())
    }

    /// Returns the places of a container that begins here.
    fn places_within(&self) -> Vec<u32> {
        let Some(places) = &self.places else { return Vec::new() };
        let container = &self.containers[self.now.container as usize];
        if self.now.container == 0 {
            return container.places.clone();
        }
        // The last key is that of this value.
        let key = self.completed.last().filter(|(of, _)| container.is_object && *of == self.now.container);
        places.within(&container.places, key.map(|(_, key)| &**key))
    }

    /// Returns whether the current item has no other completion than a value written before.
    fn is_bound_to_repeat(&self) -> bool {
        if !self.now.scalar {
            return false;
        }
        let keys = &self.containers[self.now.container as usize].keys;
        match &self.text[self.now.key_start..] {
            b"0" | b"-0" => keys.contains(b"0".as_slice()),
            [b't', ..] => keys.contains(b"true".as_slice()),
            [b'f', ..] => keys.contains(b"false".as_slice()),
            [b'n', ..] => keys.contains(b"null".as_slice()),
            _ => false,
        }
    }

    fn insert(&mut self, key: Box<[u8]>) -> Result<(), Repeated> {
        let keys = &mut self.containers[self.now.container as usize].keys;
        if keys.contains(&key) {
            return Err(Repeated);
        }
        keys.insert(key.clone());
        self.completed.push((self.now.container, key));
        self.now.keys += 1;
        Ok(())
    }
}

/// Returns the canonical form of an item that is not a text: equal values have equal forms.
fn item(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    match text.parse::<f64>() {
        // Both zeros are equal.
        Ok(number) => (number + 0.0).to_string(),
        Err(_) => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(text: &str) -> bool {
        let whole = Keys::new(None).push(text.as_bytes()).is_err();
        // However the text is split.
        let mut keys = Keys::new(None);
        let cut = text.bytes().any(|byte| {
            let would = keys.would_repeat(&[byte]);
            assert_eq!(keys.push(&[byte]).is_err(), would);
            would
        });
        assert_eq!(whole, cut, "{text}");
        whole
    }

    #[test]
    fn keys_repeat_within_their_object_alone() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1},"c":[{"a":1}], "a" : 2}"#,
            r#"{"a":"\"}{","a":2}"#,
            r#"[{"a":1},{"b":{"x":1, "x":2}}]"#,
            r#"{"\u0061":1,"a":2}"#,
            r#"{"😀":1,"\ud83d\uDE00":2}"#,
            r#"{"\n":1,"\u000A":2}"#,
            r#"{"\ud83d":1,"\ud83d":2}"#,
            r#"{"":1,"":2}"#,
            r#"{"a\"b":1,"a\u0022b":2}"#,
        ] {
            assert!(repeats(text), "{text}");
        }
        for text in [
            r#"{"a":"a","b":"a"}"#,
            r#"[{"a":1},{"a":2}]"#,
            r#"{"a":{"a":{"a":["a","a"]}}}"#,
            r#"["a","a"]"#,
            r#""a""#,
            r#"{"a":1,"A":2,"a ":3,"\\a":4}"#,
            r#"{"\ud83d":1,"\ud83d\ude00":2,"\ud83da":3}"#,
        ] {
            assert!(!repeats(text), "{text}");
        }
    }

    #[test]
    fn what_is_taken_back_was_not_written() {
        let mut keys = Keys::new(None);
        for token in ["{\"", "a\":", "{\"b\":1", "},\"", "c"] {
            keys.push(token.as_bytes()).unwrap();
        }
        assert!(!keys.would_repeat(b"\":") && keys.push(b"\":1,\"a\"").is_err());
        keys.rollback(1);
        assert!(keys.would_repeat(b"a\"") && !keys.would_repeat(b"b\""));
        keys.rollback(1);
        assert!(keys.would_repeat(b",\"b\"") && !keys.would_repeat(b",\"a\""));
        keys.rollback(2);
        keys.push(b"a\":1,\"b\":2,\"").unwrap();
        assert!(keys.would_repeat(b"b\""));
        keys.rollback(2);
        assert_eq!((keys.containers.len(), keys.completed.len(), keys.text.len()), (1, 0, 0));
    }

    #[test]
    fn texts_between_tags_are_no_json() {
        let tags = Tags {
            key_start: b"<p=".to_vec(),
            key_end: b">".to_vec(),
            value_end: b"</p>".to_vec(),
            texts: vec!["t".into()],
            all_texts: false,
        };
        let tags = Arc::new(tags);
        let repeats = |text: &str| {
            let mut cut = Keys::new(Some(Arc::clone(&tags)));
            let cut = text.bytes().any(|byte| cut.would_repeat(&[byte]) || cut.push(&[byte]).is_err());
            assert_eq!(Keys::new(Some(Arc::clone(&tags))).push(text.as_bytes()).is_err(), cut, "{text}");
            cut
        };
        let twice = r#"{"a":1,"a":2}"#;
        assert!(repeats(twice) && repeats(&format!("f<p=j>\n{twice}\n</p>")));
        assert!(!repeats(&format!("f<p=t>\n{twice}\n</p>")));
        assert!(repeats(&format!("f<p=t>{{\"</p><p=j>{twice}</p>")));
        assert!(!repeats("<p=j>{\"a\":\"<p=t>\",\"b\":1}</p><p=k>{\"a\":1}</p>"));
    }

    #[test]
    fn few_tokens_have_to_be_looked_at() {
        let mut keys = Keys::new(None);
        for (token, quotes) in [
            ("{", 4),
            ("\"", 3),
            ("a", 3),
            ("\"", 2),
            (":", 2),
            ("\"b", 3),
            ("\",", 2),
            ("\"x", 1),
            ("\\u00", 1),
        ] {
            keys.push(token.as_bytes()).unwrap();
            assert_eq!(keys.quotes(), quotes, "{token}");
        }
    }
}
