//! The rule of Jais 2: that of Llama 3, but with the white space between words split into powers of two:
//! `…|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|…|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`.

use super::cl100k;

pub(super) fn split<'t>(text: &'t str, word: &mut dyn FnMut(&'t str)) {
    cl100k::split::<3>(text, &mut |piece| {
        // White space with line ends stays whole. Other white space is split where the look-ahead can match.
        if !piece.chars().all(|c| c.is_whitespace() && !matches!(c, '\r' | '\n')) {
            return word(piece);
        }
        let mut rest = piece;
        let mut left = piece.chars().count();
        while left > 0 {
            let n = 1 << left.ilog2().min(9);
            let len = rest.chars().take(n).map(char::len_utf8).sum();
            let (first, after) = rest.split_at(len);
            word(first);
            (rest, left) = (after, left - n);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn splits_as_the_expression_does() {
        let lens = |text: &str| words(split, text).iter().map(|word| word.len()).collect::<Vec<_>>();
        assert_eq!(lens(&" ".repeat(1039)), [512, 512, 8, 4, 2, 1]);
        assert_eq!(lens(&format!("a{}b", " ".repeat(8))), [1, 4, 2, 1, 2]);
        assert_eq!(
            words(split, "a  \n  b \u{3000}\u{3000}1"),
            ["a", "  \n", " ", " b", " \u{3000}", "\u{3000}", "1"]
        );
    }
}
