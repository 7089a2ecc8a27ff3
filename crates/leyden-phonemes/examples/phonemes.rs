//! Prints each word of standard input with its sounds and their source, separated by tabs; an empty line after each line of the input.

use std::io::{BufRead as _, Write as _};

use leyden_phonemes::{Espeak, Options, Phonemizer, Sentence};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let off = std::env::args().any(|argument| argument == "--no-espeak");
    let espeak = if off { Espeak::Off } else { Espeak::IfPresent };
    let phonemizer = Phonemizer::new(Options { espeak, ..Options::default() })?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        for word in phonemizer.phonemes(&line?)?.iter().flat_map(Sentence::words) {
            writeln!(out, "{}\t{}\t{:?}", word.text, word.phonemes, word.source)?;
        }
        writeln!(out)?;
    }
    Ok(())
}
