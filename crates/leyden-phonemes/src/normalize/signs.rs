//! Signs: marks around words, names of symbols, names of letters of other scripts.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Returns true for a character that stands before a word and is no part of it.
pub(super) fn is_lead(symbol: char) -> bool {
    "\"'“”‘’„‚«»‹›([{…—–-−*_`¿¡!?,;:|•·‐‑".contains(symbol) || is_invisible(symbol)
}

/// Returns true for a character that stands after a word and is no part of it.
pub(super) fn is_trail(symbol: char) -> bool {
    ".,;:!?…)]}\"“”'’‘»«›—–-*_`|。、！？•·‐‑".contains(symbol) || is_invisible(symbol)
}

/// Returns the mark that is kept of a character before a word.
pub(super) fn opening(symbol: char) -> Option<char> {
    match symbol {
        '"' | '“' | '„' | '«' | '”' => Some('“'),
        '(' | '[' | '{' => Some('('),
        '—' | '–' => Some('—'),
        '|' => Some(','),
        '…' | '!' | '?' | ',' | ';' | ':' => Some(symbol),
        _ => None,
    }
}

/// Returns the mark that is kept of a character after a word.
pub(super) fn closing(symbol: char) -> Option<char> {
    match symbol {
        '"' | '”' | '“' | '»' => Some('”'),
        ')' | ']' | '}' => Some(')'),
        '—' | '–' => Some('—'),
        '。' => Some('.'),
        '、' | '|' => Some(','),
        '！' => Some('!'),
        '？' => Some('?'),
        '.' | ',' | ';' | ':' | '!' | '?' | '…' => Some(symbol),
        _ => None,
    }
}

/// Returns true for characters without a form: controls, joiners, variation selectors, marks of direction, unassigned private ones.
pub(super) fn is_invisible(symbol: char) -> bool {
    symbol.is_control()
        || matches!(symbol, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Returns true for a character that is said: a letter, a digit or a named sign, and no mark.
pub(crate) fn is_sounded(symbol: char) -> bool {
    !(symbol.is_whitespace() || is_lead(symbol) || is_trail(symbol) || is_accent(symbol))
}

/// Names of signs.
const NAMES: &[(char, &str)] = &[
    ('&', "and"),
    ('+', "plus"),
    ('=', "equals"),
    ('#', "hash"),
    ('@', "at"),
    ('%', "percent"),
    ('‰', "per mille"),
    ('$', "dollar"),
    ('£', "pound"),
    ('€', "euro"),
    ('¥', "yen"),
    ('₹', "rupee"),
    ('¢', "cent"),
    ('₿', "bitcoin"),
    ('*', "asterisk"),
    ('/', "slash"),
    ('\\', "backslash"),
    ('_', "underscore"),
    ('<', "less than"),
    ('>', "greater than"),
    ('≤', "less than or equal to"),
    ('≥', "greater than or equal to"),
    ('≠', "not equal to"),
    ('≈', "approximately"),
    ('×', "times"),
    ('÷', "divided by"),
    ('±', "plus or minus"),
    ('~', "tilde"),
    ('^', "caret"),
    ('|', "bar"),
    ('°', "degrees"),
    ('′', "prime"),
    ('″', "double prime"),
    ('§', "section"),
    ('¶', "paragraph"),
    ('©', "copyright"),
    ('®', "registered"),
    ('™', "trademark"),
    ('№', "number"),
    ('→', "to"),
    ('←', "from"),
    ('↑', "up"),
    ('↓', "down"),
    ('↔', "to and from"),
    ('⇒', "implies"),
    ('∞', "infinity"),
    ('√', "square root of"),
    ('∑', "sum"),
    ('∏', "product"),
    ('∫', "integral"),
    ('∂', "partial"),
    ('∆', "delta"),
    ('∇', "nabla"),
    ('∈', "in"),
    ('∉', "not in"),
    ('∩', "intersection"),
    ('∪', "union"),
    ('∀', "for all"),
    ('∃', "there exists"),
    ('∧', "and"),
    ('∨', "or"),
    ('¬', "not"),
    ('∴', "therefore"),
    ('✓', "check"),
    ('✔', "check"),
    ('✗', "cross"),
    ('★', "star"),
    ('☆', "star"),
    ('♥', "heart"),
    ('❤', "heart"),
    ('♪', "note"),
    ('♫', "note"),
    ('†', "dagger"),
    ('‡', "double dagger"),
    ('½', "one half"),
    ('⅓', "one third"),
    ('⅔', "two thirds"),
    ('¼', "one quarter"),
    ('¾', "three quarters"),
    ('⅛', "one eighth"),
    ('⅜', "three eighths"),
    ('⅝', "five eighths"),
    ('⅞', "seven eighths"),
    ('⅕', "one fifth"),
    ('⅖', "two fifths"),
    ('⅗', "three fifths"),
    ('⅘', "four fifths"),
    ('⅙', "one sixth"),
    ('⅚', "five sixths"),
    ('²', "squared"),
    ('³', "cubed"),
    ('¹', "one"),
    ('🙂', "smile"),
    ('😀', "grin"),
    ('😂', "laughing"),
    ('👍', "thumbs up"),
    ('🎉', "party"),
    ('🔥', "fire"),
    ('🚀', "rocket"),
    ('α', "alpha"),
    ('β', "beta"),
    ('γ', "gamma"),
    ('δ', "delta"),
    ('ε', "epsilon"),
    ('ζ', "zeta"),
    ('η', "eta"),
    ('θ', "theta"),
    ('ι', "iota"),
    ('κ', "kappa"),
    ('λ', "lambda"),
    ('μ', "mu"),
    ('ν', "nu"),
    ('ξ', "xi"),
    ('ο', "omicron"),
    ('π', "pi"),
    ('ρ', "rho"),
    ('σ', "sigma"),
    ('ς', "sigma"),
    ('τ', "tau"),
    ('υ', "upsilon"),
    ('φ', "phi"),
    ('χ', "chi"),
    ('ψ', "psi"),
    ('ω', "omega"),
    ('µ', "micro"),
];

/// Returns the name of a sign or Greek letter.
pub(super) fn name(symbol: char) -> Option<&'static str> {
    let lower = symbol.to_lowercase().next().unwrap_or(symbol);
    NAMES.iter().find(|(sign, _)| *sign == symbol || *sign == lower).map(|&(_, name)| name)
}

/// Returns the words for a sign or a letter that has neither a name of its own nor a sound in English.
pub(super) fn group(symbol: char) -> &'static str {
    match symbol as u32 {
        0x400..=0x52f => "Cyrillic letters",
        0x530..=0x58f => "Armenian letters",
        0x590..=0x5ff => "Hebrew letters",
        0x600..=0x77f | 0xfb50..=0xfdff | 0xfe70..=0xfeff => "Arabic letters",
        0x900..=0x97f => "Hindi letters",
        0x980..=0x9ff => "Bengali letters",
        0xb80..=0xbff => "Tamil letters",
        0xe00..=0xe7f => "Thai letters",
        0x10a0..=0x10ff => "Georgian letters",
        0x370..=0x3ff | 0x1f00..=0x1fff => "Greek letters",
        0x1100..=0x11ff | 0xac00..=0xd7ff | 0x3130..=0x318f => "Korean letters",
        0x3040..=0x30ff => "Japanese letters",
        0x3400..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff => "Chinese letters",
        0x1f000..=0x1faff | 0x2600..=0x27bf => "emoji",
        _ if symbol.is_alphabetic() => "foreign letters",
        _ if symbol.is_numeric() => "number",
        _ => "symbol",
    }
}

/// Letters of the Latin script that do not come apart into a plain letter and an accent.
const LATIN: &[(char, &str)] = &[
    ('ß', "ss"),
    ('æ', "ae"),
    ('œ', "oe"),
    ('ø', "o"),
    ('đ', "d"),
    ('ð', "th"),
    ('þ', "th"),
    ('ł', "l"),
    ('ı', "i"),
    ('ħ', "h"),
    ('ŋ', "ng"),
    ('ƒ', "f"),
    ('ſ', "s"),
];

/// Returns plain letters for a Latin letter with or without accents; `None` for other characters.
pub(super) fn latin(symbol: char) -> Option<String> {
    if symbol.is_ascii_alphabetic() {
        return Some(symbol.to_string());
    }
    let lower = symbol.to_lowercase().next().unwrap_or(symbol);
    if let Some((_, plain)) = LATIN.iter().find(|(letter, _)| *letter == lower) {
        return Some((*plain).to_owned());
    }
    let plain: String = std::iter::once(symbol).nfkd().filter(|&c| !is_combining_mark(c)).collect();
    (!plain.is_empty() && plain.chars().all(|c| c.is_ascii_alphabetic())).then_some(plain)
}

/// Returns true for an accent that follows its letter, and not for the vowel signs of other scripts.
pub(super) fn is_accent(symbol: char) -> bool {
    is_combining_mark(symbol) && !symbol.is_alphanumeric()
}
