//! Character classes of the pre-tokenizers' patterns.

pub(crate) use super::class::Class;
use super::unicode_classes::RUNS;

const PAGE_BITS: u32 = 8;
const PAGES: usize = 0x110000 >> PAGE_BITS;

/// Index of the run that contains the first code point of each page of 256, so that a lookup searches a few runs
/// instead of all.
static FIRST_RUN: [u16; PAGES + 1] = first_runs();

const fn first_runs() -> [u16; PAGES + 1] {
    let mut first = [0; PAGES + 1];
    let mut page = 0;
    let mut run = 0;
    while page <= PAGES {
        while run + 1 < RUNS.len() && RUNS[run + 1].0 <= (page as u32) << PAGE_BITS {
            run += 1;
        }
        first[page] = run as u16;
        page += 1;
    }
    first
}

/// Returns the class of `c`.
pub(crate) fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' => return Class::Letter,
        '0'..='9' => return Class::Number,
        '\0'..='\x1f' => return Class::Control,
        ' ' => return Class::Other,
        _ => {}
    }
    let page = (c as u32 >> PAGE_BITS) as usize;
    let (low, high) = (usize::from(FIRST_RUN[page]), usize::from(FIRST_RUN[page + 1]));
    let runs = &RUNS[low..=high];
    runs[runs.partition_point(|&(start, _)| start <= c as u32) - 1].1
}

/// Returns whether `c` is a letter (`\p{L}`).
pub(crate) fn is_letter(c: char) -> bool {
    class(c) == Class::Letter
}

/// Returns whether `c` is a number (`\p{N}`).
pub(crate) fn is_number(c: char) -> bool {
    class(c) == Class::Number
}

/// Returns whether `c` is neither white space, nor letter, nor number (`[^\s\p{L}\p{N}]`). White space is Unicode's
/// `White_Space`, which is the same in all relevant versions.
pub(crate) fn is_other(c: char) -> bool {
    !c.is_whitespace() && !matches!(class(c), Class::Letter | Class::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_agrees_with_a_plain_scan_of_the_runs() {
        let mut run = 0;
        for cp in 0..=0x10ffff {
            while run + 1 < RUNS.len() && RUNS[run + 1].0 <= cp {
                run += 1;
            }
            if let Some(c) = char::from_u32(cp) {
                assert_eq!(class(c), RUNS[run].1, "U+{cp:04X}");
            }
        }
    }

    #[test]
    fn class_of_well_known_characters() {
        for (c, want) in [
            ('é', Class::Letter),
            ('中', Class::Letter),
            ('ª', Class::Letter),
            ('²', Class::Number),
            ('Ⅷ', Class::Number),
            ('٣', Class::Number),
            ('\u{301}', Class::Mark),
            ('…', Class::Punctuation),
            ('€', Class::Symbol),
            ('🦙', Class::Symbol),
            ('\u{a0}', Class::Other),
            ('\n', Class::Control),
            ('\u{85}', Class::Control),
            ('\u{200d}', Class::Control),
            ('\u{e000}', Class::Control),
            (' ', Class::Other),
            ('\u{378}', Class::Other),
            ('\u{10ffff}', Class::Other),
        ] {
            assert_eq!(class(c), want, "{c:?}");
        }
    }
}
