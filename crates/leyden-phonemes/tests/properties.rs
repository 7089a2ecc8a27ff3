//! Any text: no panic, no symbol outside the alphabet, no word lost, and work that grows with the length alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use leyden_phonemes::{
    Espeak, Options, Part, Phonemizer, Sentence, chunks, is_phoneme, kokoro_ids, piper_ids, sentences,
};
use proptest::prelude::*;

fn phonemizer() -> &'static Phonemizer {
    static ONE: std::sync::OnceLock<Phonemizer> = std::sync::OnceLock::new();
    ONE.get_or_init(|| {
        Phonemizer::new(Options { espeak: Espeak::Off, ..Options::default() })
            .expect("no program is asked for")
    })
}

/// Checks a text's sentences: their spans, the alphabet, and that each stretch of letters or digits has a word.
fn check(text: &str) -> Vec<Sentence> {
    let said = phonemizer().phonemes(text).expect("no program is asked for");
    for sentence in &said {
        assert!(text.get(sentence.span.clone()).is_some());
        for part in &sentence.parts {
            match part {
                Part::Mark(mark) => assert!(".,;:!?—…()“”".contains(*mark), "{mark:?}"),
                Part::Word(word) => {
                    assert!(text.get(word.span.clone()).is_some(), "{word:?}");
                    assert!(!word.phonemes.is_empty(), "{word:?}");
                    assert!(word.phonemes.chars().all(is_phoneme), "{word:?}");
                }
            }
        }
    }
    let mut covered = vec![false; text.len() + 1];
    for word in said.iter().flat_map(Sentence::words) {
        covered[word.span.clone()].fill(true);
    }
    for (at, symbol) in text.char_indices() {
        assert!(!symbol.is_alphanumeric() || covered[at], "{symbol:?} at {at} of {text:?} is in no word");
    }
    said
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_unicode(text in "\\PC{0,120}") {
        check(&text);
    }

    #[test]
    fn marks_digits_and_letters(text in "[-a-cIVX0-9 .,:;/$£€%°+#@'’\"()\n–—…*_&=kmhMB!?]{0,60}") {
        check(&text);
        for span in sentences(&text).into_iter().chain(chunks(&text, Default::default())) {
            prop_assert!(text.get(span).is_some());
        }
    }

    #[test]
    fn words_of_letters(word in "[a-z]{1,30}") {
        prop_assert_eq!(check(&word).len(), 1);
    }
}

#[test]
fn long_inputs_end() {
    // Work that grows with the square of the length would take hours here, not seconds.
    let started = Instant::now();
    for part in [
        "a", "1", ".", "a.", "U.S. ", "-", "'", "é", "1,", "(", "one two ", "\u{301}", "—", "A", "東",
        "http://", "…", "5 kg ", "read ", "\n",
    ] {
        check(&part.repeat(300_000 / part.len()));
    }
    assert!(started.elapsed() < Duration::from_secs(600));
}

#[test]
fn ids_of_voices() {
    let said = phonemizer().phonemes("Hello (world), it's 5 o'clock; \"really\"?").unwrap();
    let symbols = "_^$ .,?!abdefhijklmnopstuvwzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒʔˈˌːθᵻ";
    let piper: HashMap<String, Vec<i64>> =
        symbols.chars().zip(0..).map(|(c, id)| (c.to_string(), vec![id])).collect();
    let ids = piper_ids(&said[0], &piper).unwrap();
    assert_eq!((ids[0], ids[1], *ids.last().unwrap()), (1, 0, 2));
    assert!(ids[1..].iter().step_by(2).all(|&id| id == 0));
    let mut short = piper;
    short.remove("ˈ");
    assert!(piper_ids(&said[0], &short).unwrap_err().to_string().contains("'ˈ'"));

    let misaki = said[0].misaki();
    let kokoro: HashMap<String, i64> = misaki.chars().map(|c| (c.to_string(), i64::from(c as u32))).collect();
    let ids = kokoro_ids(&said[0], &kokoro).unwrap();
    assert_eq!(ids.len(), misaki.chars().count() + 2);
    assert_eq!((ids[0], *ids.last().unwrap()), (0, 0));

    let long = phonemizer().phonemes(&"123456789 ".repeat(40)).unwrap();
    assert!(kokoro_ids(&long[0], &HashMap::from([(" ".to_owned(), 1)])).is_err());
    let parts = long[0].chunks(500);
    assert!(parts.len() > 1 && parts.iter().all(|part| part.misaki().chars().count() <= 510));
    assert_eq!(parts.iter().flat_map(Sentence::words).count(), long[0].words().count());
}

#[test]
fn voices_of_the_shared_data_know_all_symbols() {
    let Some(file) = leyden_testkit::shared("data/audio/piper/test_voice.onnx.json") else { return };
    let settings: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let map: HashMap<String, Vec<i64>> = serde_json::from_value(settings["phoneme_id_map"].clone()).unwrap();
    let text = "Boys measure thy judge; singing churches vow to buy new water, oil, butter (huh?), and bird's \"nests\" — either way… uh-oh, button!";
    for sentence in phonemizer().phonemes(text).unwrap() {
        assert!(!piper_ids(&sentence, &map).unwrap().is_empty());
    }
    let dictionary = leyden_phonemes::Dictionary::embedded();
    for (word, entry) in dictionary.iter() {
        for symbol in leyden_phonemes::to_espeak(entry.pronunciation(&[]).unwrap_or_default()).chars() {
            assert!(map.contains_key(&symbol.to_string()), "{word}: {symbol:?}");
        }
    }
}
