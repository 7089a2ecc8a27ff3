//! Sentences of the shared texts, chosen for their numbers, names and dates: no word is lost.

use std::collections::HashMap;

use leyden_phonemes::{Espeak, Options, Phonemizer, Sentence, Source, sentences};

/// Number of sentences.
const SENTENCES: usize = 300;

/// Returns sentences of a text with a digit or two names, at even distances.
fn chosen(text: &str, n: usize) -> Vec<&str> {
    let interesting = |sentence: &&str| {
        let capitals =
            sentence.split_whitespace().skip(1).filter(|word| word.starts_with(char::is_uppercase)).count();
        sentence.len() > 20 && (sentence.contains(|c: char| c.is_ascii_digit()) || capitals >= 2)
    };
    let all: Vec<&str> = sentences(text).into_iter().map(|span| &text[span]).filter(interesting).collect();
    let step = (all.len() / n).max(1);
    all.into_iter().step_by(step).take(n).collect()
}

#[test]
fn no_word_of_shared_texts_is_lost() {
    let Some(folder) = leyden_testkit::shared("data/text") else { return };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let texts = [
        read("wikitext-2/test.txt"),
        read("tinyshakespeare/input.txt"),
        read("calibration/calibration_datav3.txt"),
    ];
    let picked: Vec<&str> = texts.iter().zip([180, 40, 80]).flat_map(|(text, n)| chosen(text, n)).collect();
    assert_eq!(picked.len(), SENTENCES);
    let phonemizer = Phonemizer::new(Options { espeak: Espeak::Off, ..Options::default() }).unwrap();
    let mut sources: HashMap<Source, usize> = HashMap::new();
    for text in picked {
        let said = phonemizer.phonemes(text).unwrap();
        let mut covered = vec![false; text.len()];
        for word in said.iter().flat_map(Sentence::words) {
            covered[word.span.clone()].fill(true);
            *sources.entry(word.source).or_default() += 1;
            assert!(
                word.phonemes.chars().any(leyden_phonemes::is_vowel) || word.phonemes.len() < 4,
                "{word:?}"
            );
        }
        let lost = text.char_indices().find(|&(at, symbol)| symbol.is_alphanumeric() && !covered[at]);
        assert_eq!(lost, None, "{text}");
    }
    let total: usize = sources.values().sum();
    let known = sources[&Source::Dictionary];
    assert!(total > 6_000 && known * 100 > total * 90, "{sources:?}");
}

/// Returns the number of changed, missing and added symbols.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let best = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[b.len()]
}

#[test]
fn ipa_is_near_that_of_piper() {
    let Some(file) = leyden_testkit::shared("data/audio/piper/test_en-us.jsonl") else { return };
    let phonemizer = Phonemizer::new(Options { espeak: Espeak::Off, ..Options::default() }).unwrap();
    let (mut different, mut total) = (0, 0);
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        // Spaces, lengths and secondary stress differ with the joining of small words.
        let plain = |text: &str| {
            text.chars().filter(|c| !c.is_whitespace() && !"ːˌˈ".contains(*c)).collect::<Vec<_>>()
        };
        let theirs: String =
            value["phonemes"].as_array().unwrap().iter().filter_map(|symbol| symbol.as_str()).collect();
        let said = phonemizer.phonemes(value["text"].as_str().unwrap()).unwrap();
        let ours: String = said.iter().map(Sentence::espeak).collect();
        let (ours, theirs) = (plain(&ours), plain(&theirs));
        different += distance(&ours, &theirs);
        total += theirs.len();
    }
    // Unstressed vowels are written differently by the two: "ɪ", "ᵻ" or "ə".
    assert!(total > 400 && different * 100 < total * 15, "{different} of {total} symbols differ");
}
