//! Numbers as English words, of digits in any amount: words are separated by single spaces and have no hyphens.

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];

const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Names of powers of 1000, from 1000 itself.
const THOUSANDS: [&str; 8] =
    ["thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion", "septillion"];

/// Number of digits above which a number is said digit by digit.
const MAX_DIGITS: usize = 27;

/// A number as written: digits without separators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) sign: Option<char>,
    pub(crate) whole: String,
    /// Digits after the point; there may be none.
    pub(crate) fraction: Option<String>,
    pub(crate) has_separators: bool,
}

impl Number {
    /// Reads a whole text as a number: sign, digits with commas in groups of three, point and digits.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let sign = text.chars().next().filter(|c| matches!(c, '-' | '+' | '−' | '±'));
        let rest = &text[sign.map_or(0, char::len_utf8)..];
        let (whole, fraction) = match rest.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (rest, None),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if fraction.is_some_and(|fraction| !digits(fraction)) || (whole.is_empty() && fraction.is_none()) {
            return None;
        }
        let groups: Vec<&str> = whole.split(',').collect();
        let has_separators = groups.len() > 1;
        let grouped = (1..=3).contains(&groups[0].len()) && groups[1..].iter().all(|group| group.len() == 3);
        if has_separators && !grouped || !whole.is_empty() && !groups.iter().all(|group| digits(group)) {
            return None;
        }
        Some(Self { sign, whole: groups.concat(), fraction: fraction.map(str::to_owned), has_separators })
    }

    /// Returns true for digits alone: no sign, no separators, no fraction.
    pub(crate) fn is_plain(&self) -> bool {
        self.sign.is_none() && self.fraction.is_none() && !self.has_separators
    }

    /// Returns true if the noun after the number is singular.
    pub(crate) fn is_one(&self) -> bool {
        self.whole == "1" && self.fraction.is_none()
    }

    /// Returns the words.
    pub(crate) fn words(&self) -> String {
        let mut words = match self.sign {
            Some('+') => "plus ".to_owned(),
            Some('±') => "plus or minus ".to_owned(),
            Some(_) => "minus ".to_owned(),
            None => String::new(),
        };
        words += &cardinal(if self.whole.is_empty() { "0" } else { &self.whole });
        if let Some(fraction) = &self.fraction {
            words += " point ";
            words += &digits(fraction);
        }
        words
    }
}

/// Returns digits one by one.
pub(crate) fn digits(text: &str) -> String {
    let words: Vec<&str> =
        text.bytes().filter(u8::is_ascii_digit).map(|digit| ONES[usize::from(digit - b'0')]).collect();
    words.join(" ")
}

/// Returns a number below 1000.
fn below_thousand(number: usize) -> String {
    let mut words = Vec::new();
    if number >= 100 {
        words.extend([ONES[number / 100], "hundred"]);
    }
    let rest = number % 100;
    if rest >= 20 {
        words.push(TENS[rest / 10]);
        if !rest.is_multiple_of(10) {
            words.push(ONES[rest % 10]);
        }
    } else if rest > 0 || number == 0 {
        words.push(ONES[rest]);
    }
    words.join(" ")
}

/// Returns a whole number; with zeros in front of it, or more than 27 digits, digit by digit.
pub(crate) fn cardinal(text: &str) -> String {
    if text.len() > MAX_DIGITS || (text.len() > 1 && text.starts_with('0')) {
        return digits(text);
    }
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let n = (rest.len() - 1) % 3 + 1;
        let (group, tail) = rest.split_at(n);
        let value: usize = group.parse().unwrap_or(0);
        if value > 0 {
            words.push(below_thousand(value));
            if let Some(power) = (tail.len() / 3).checked_sub(1) {
                words.push(THOUSANDS[power].to_owned());
            }
        }
        rest = tail;
    }
    if words.is_empty() { ONES[0].to_owned() } else { words.join(" ") }
}

/// Returns the ordinal of a whole number: the last word of the cardinal changed.
pub(crate) fn ordinal(text: &str) -> String {
    let words = cardinal(text);
    let (front, last) = words.rsplit_once(' ').map_or(("", words.as_str()), |(front, last)| (front, last));
    let last = match last {
        "one" => "first".to_owned(),
        "two" => "second".to_owned(),
        "three" => "third".to_owned(),
        "five" => "fifth".to_owned(),
        "eight" => "eighth".to_owned(),
        "nine" => "ninth".to_owned(),
        "twelve" => "twelfth".to_owned(),
        _ => last.strip_suffix('y').map_or_else(|| format!("{last}th"), |stem| format!("{stem}ieth")),
    };
    if front.is_empty() { last } else { format!("{front} {last}") }
}

/// Returns a year of four digits as years are said, others as numbers.
pub(crate) fn year(text: &str) -> String {
    let Some((century, rest)) = (text.len() == 4).then(|| text.split_at(2)) else { return cardinal(text) };
    match (century, rest) {
        ("00", _) => cardinal(text),
        (_, "00") if century.ends_with('0') => cardinal(text),
        (_, "00") => format!("{} hundred", cardinal(century)),
        (_, rest) if rest.starts_with('0') && century.ends_with('0') => cardinal(text),
        (_, rest) if rest.starts_with('0') => format!("{} oh {}", cardinal(century), cardinal(&rest[1..])),
        _ => format!("{} {}", cardinal(century), cardinal(rest)),
    }
}

/// Returns the plural of a number's last word: "nineties", "hundreds".
pub(crate) fn plural(words: &str) -> String {
    match words.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if words.ends_with('x') => format!("{words}es"),
        None => format!("{words}s"),
    }
}

/// Returns a fraction of two whole numbers.
pub(crate) fn fraction(top: &str, bottom: &str) -> String {
    let one = top == "1";
    let part = match bottom {
        "2" if one => "half".to_owned(),
        "2" => "halves".to_owned(),
        "4" if one => "quarter".to_owned(),
        "4" => "quarters".to_owned(),
        _ if bottom.len() > 2 || bottom.starts_with('0') || bottom == "1" => {
            return format!("{} over {}", cardinal(top), cardinal(bottom));
        }
        _ if one => ordinal(bottom),
        _ => format!("{}s", ordinal(bottom)),
    };
    format!("{} {part}", cardinal(top))
}

/// Returns the value of a Roman numeral in capitals, if it is written as usual and less than 4000.
pub(crate) fn roman(text: &str) -> Option<usize> {
    const PARTS: [(&str, usize); 13] = [
        ("M", 1000),
        ("CM", 900),
        ("D", 500),
        ("CD", 400),
        ("C", 100),
        ("XC", 90),
        ("L", 50),
        ("XL", 40),
        ("X", 10),
        ("IX", 9),
        ("V", 5),
        ("IV", 4),
        ("I", 1),
    ];
    let (mut rest, mut value, mut usual) = (text, 0, String::new());
    for (part, worth) in PARTS {
        let mut written = 0;
        while let Some(tail) = rest.strip_prefix(part).filter(|_| written < 3) {
            rest = tail;
            value += worth;
            written += 1;
        }
    }
    let mut left = value;
    for (part, worth) in PARTS {
        usual.push_str(&part.repeat(left / worth));
        left %= worth;
    }
    (usual == text && value > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cardinals_of_all_sizes() {
        for (text, words) in [
            ("0", "zero"),
            ("7", "seven"),
            ("13", "thirteen"),
            ("20", "twenty"),
            ("42", "forty two"),
            ("100", "one hundred"),
            ("115", "one hundred fifteen"),
            ("1000", "one thousand"),
            ("1001", "one thousand one"),
            ("1000000", "one million"),
            ("12345678", "twelve million three hundred forty five thousand six hundred seventy eight"),
            ("007", "zero zero seven"),
            ("1000000000000", "one trillion"),
        ] {
            assert_eq!(cardinal(text), words);
        }
        assert_eq!(cardinal(&"1".repeat(1000)).split(' ').count(), 1000);
        assert!(cardinal(&"9".repeat(27)).starts_with("nine hundred ninety nine septillion"));
    }

    #[test]
    fn ordinals_years_fractions() {
        for (text, words) in [
            ("1", "first"),
            ("12", "twelfth"),
            ("20", "twentieth"),
            ("21", "twenty first"),
            ("100", "one hundredth"),
        ] {
            assert_eq!(ordinal(text), words);
        }
        for (text, words) in [
            ("1984", "nineteen eighty four"),
            ("1900", "nineteen hundred"),
            ("1905", "nineteen oh five"),
            ("2000", "two thousand"),
            ("2005", "two thousand five"),
            ("2026", "twenty twenty six"),
            ("1066", "ten sixty six"),
            ("476", "four hundred seventy six"),
        ] {
            assert_eq!(year(text), words);
        }
        for (top, bottom, words) in [
            ("1", "2", "one half"),
            ("3", "4", "three quarters"),
            ("2", "3", "two thirds"),
            ("7", "100", "seven over one hundred"),
        ] {
            assert_eq!(fraction(top, bottom), words);
        }
    }

    #[test]
    fn roman_numerals_as_usually_written() {
        for (text, value) in
            [("I", 1), ("IV", 4), ("VIII", 8), ("XIX", 19), ("XL", 40), ("MCMXCIV", 1994), ("MMXXVI", 2026)]
        {
            assert_eq!(roman(text), Some(value));
        }
        for text in ["IIII", "VV", "IC", "", "A", "IVI1", "XIVI"] {
            assert_eq!(roman(text), None, "{text}");
        }
    }
}
