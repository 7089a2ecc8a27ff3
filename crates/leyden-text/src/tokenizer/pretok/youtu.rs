//! Rule of Youtu: `[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`, then the rule of o200k without cases and
//! with single digits.

use super::alternatives::*;
use super::o200k;

const KOREAN: &[(char, char)] = &[('\u{3131}', '\u{318e}'), ('\u{ac00}', '\u{d7a3}')];
const CHINESE_PUNCTUATION: &[(char, char)] = &[
    ('\u{2014}', '\u{2014}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{201c}', '\u{201d}'),
    ('\u{2026}', '\u{2026}'),
    ('\u{3001}', '\u{303f}'),
    ('\u{fe30}', '\u{fe4f}'),
    ('\u{ff01}', '\u{ff01}'),
    ('\u{ff0c}', '\u{ff0c}'),
    ('\u{ff1a}', '\u{ff1b}'),
];
const BOPOMOFO: &[(char, char)] = &[('\u{3105}', '\u{312f}')];
const IDEOGRAPHS_AND_KANA: &[(char, char)] = &[('\u{3040}', '\u{30ff}'), ('\u{4e00}', '\u{9fa5}')];

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    fn scripts<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
        let alternatives: [Alternative; 4] = [
            |text| run(text, |c| in_ranges(c, KOREAN)),
            |text| run(text, |c| in_ranges(c, CHINESE_PUNCTUATION)),
            |text| run(text, |c| in_ranges(c, BOPOMOFO)),
            |text| run(text, |c| in_ranges(c, IDEOGRAPHS_AND_KANA)),
        ];
        isolate(text, &alternatives, word);
    }
    stages(text, &[scripts, o200k::caseless::<1>], word);
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expressions_do() {
        for (text, want) in [
            ("한국어中文！ㄅab's", &["한국어", "中文", "！", "ㄅ", "ab's"][..]),
            ("aB 12/\n", &["aB", " ", "1", "2", "/\n"]),
        ] {
            assert_eq!(words(split, text), want, "{text:?}");
        }
    }
}
