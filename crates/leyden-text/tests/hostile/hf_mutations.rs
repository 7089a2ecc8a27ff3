//! 20,000 damaged `tokenizer.json` and 20,000 damaged `tokenizer_config.json`: each is refused with an error that
//! names the file, or becomes a working tokenizer, without a panic, in limited time and memory.
//!
//! The mutations are the same in every run. All of them share one test, because the memory that it measures is that
//! of the whole process.
use crate::MEMORY;
use leyden_testkit::{json_tokens, patience, random};
use std::path::Path;
use std::time::{Duration, Instant};

use leyden_tensor::HfFolder;
use leyden_text::{ChatTemplate, Error, Special, Tokenizer, from_hf, from_tokenizer_json};

/// Maximum memory beyond the file for reading and use, mostly for automata of regular expressions.
const CEILING: usize = 64 << 20;
/// Maximum time per file.
const PATIENCE: Duration = Duration::from_secs(4);

/// Byte-pair encoding with nearly every kind of component.
const BPE: &str = r###"{"version":"1.0","truncation":null,"padding":{"x":[1,{}]},"added_tokens":[
{"id":15,"content":"<s>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":true},
{"id":16,"content":"fox","single_word":true,"lstrip":true,"rstrip":false,"normalized":true,"special":false}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend","prepend":"▁"},
{"type":"Replace","pattern":{"String":" "},"content":"▁"},{"type":"Replace","pattern":{"Regex":"a{2,3}(?!b)|\\s+"},"content":"a"},
{"type":"Strip","strip_left":true,"strip_right":false},{"type":"StripAccents"},{"type":"Nmt"},{"type":"Lowercase"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"'s| ?\\p{L}+|\\s+(?!\\S)|\\s+"},"behavior":"MergedWithPrevious","invert":false},
{"type":"Digits","individual_digits":true},{"type":"Punctuation","behavior":"Contiguous"},
{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true},{"type":"FixedLength","length":7},
{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[15],"tokens":["<s>"]}}},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","dropout":null,"unk_token":"?","continuing_subword_prefix":null,"end_of_word_suffix":"","fuse_unk":true,"byte_fallback":true,"ignore_merges":true,
"vocab":{"?":0,"a":1,"b":2,"c":3,"ab":4,"abc":5,"<0x41>":6,"<0xC3>":7,"â":8,"ĸ":9,"ģ":10,"âĸ":11,"âĸģ":12,"Ġ":13,"ca":14},
"merges":["a b",["ab","c"],"â ĸ","âĸ ģ",["c","a"]]}}"###;

const UNIGRAM: &str = r###"{"added_tokens":[{"id":1,"content":"</s>","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Precompiled","precompiled_charsmap":"CHARSMAP"},{"type":"NFKD"}]},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","add_prefix_space":true}]},
"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":true},{"type":"RobertaProcessing","sep":["</s>",1],"cls":["<s>",0],"trim_offsets":true,"add_prefix_space":true}]},
"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},
"model":{"type":"Unigram","unk_id":2,"byte_fallback":true,"vocab":[["<s>",0.0],["</s>",0.0],["<unk>",0],["▁",-2.5],["a",-3.25],["b",-4e0],["ab",-5],["▁ab",-6.5],["<0x41>",-9],["c",-1e-3]]}}"###;

const WORD_PIECE: &str = r###"{"version":"1.0","added_tokens":[{"id":0,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["[CLS]",1]},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3,"ab":4,"##b":5,"##bc":6,"c":7,"'":8,"s":9,".":10,"##":11}}}"###;

const CONFIG: &str = r###"{"add_bos_token":true,"add_eos_token":false,"tokenizer_class":"LlamaTokenizerFast",
"added_tokens_decoder":{"2":{"content":"[SEP]","lstrip":false,"normalized":false,"rstrip":true,"single_word":false,"special":true},"12":{"content":"<x>"}},
"additional_special_tokens":["[SEP]",{"content":"ab","lstrip":true}],"extra_special_tokens":{"a":"b"},
"bos_token":"[CLS]","eos_token":{"content":"[SEP]","lstrip":false,"normalized":false,"rstrip":false,"single_word":false},"pad_token":null,"unk_token":"[UNK]",
"chat_template":[{"name":"default","template":"{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"},{"name":"tool_use","template":"{{ eos_token }}"}],
"model_max_length":1000000000000000019884624838656}"###;

/// Replacements of numbers.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "15",
    "100",
    "65536",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "1.5",
    "-1e308",
    "1e999",
];
/// Tokens to insert, or to replace other tokens with.
const TOKENS: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "false",
    "[]",
    "{}",
    "\"\"",
    "\"type\"",
    "\"Sequence\"",
    "\"NFKC\"",
    "\"ByteLevel\"",
    "\"Metaspace\"",
    "\"Replace\"",
    "\"Fuse\"",
    "\"Strip\"",
    "\"WordPiece\"",
    "\"BPE\"",
    "\"Unigram\"",
    "\"WordLevel\"",
    "\"BPEDecoder\"",
    "\"CTC\"",
    "\"Isolated\"",
    "\"Removed\"",
    "\"always\"",
    "\"never\"",
    "\"Regex\"",
    "\"(?:a|ab)*(?=c)\"",
    "\"(a*)*b\"",
    "\"\\\\p{L}{1,1000}{1,1000}\"",
    "\"(\"",
    "\"(?<!a+)b|\"",
    "\"\\u0000\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83d\"",
    "\\",
    "\n",
    "[[[[[[[[[[[[[[[[[[[[",
    "\u{feff}",
];

/// Mutation `i` of JSON text: tokens replaced, removed, repeated, exchanged or inserted, or bytes flipped, up to
/// three times.
fn mutate(text: &[u8], i: u64) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for k in 0..1 + random(i) % 3 {
        let r = random(i * 4 + k + (1 << 40));
        let spans = json_tokens(&bytes);
        if spans.is_empty() {
            return bytes;
        }
        let pick = |r: u64| spans[r as usize % spans.len()];
        let (begin, end) = pick(r >> 8);
        match r % 10 {
            0 | 1 => {
                let numbers: Vec<_> = spans.iter().filter(|s| bytes[s.0].is_ascii_digit()).collect();
                if let Some(&&(begin, end)) = numbers.get((r >> 8) as usize % numbers.len().max(1)) {
                    bytes.splice(begin..end, NUMBERS[(r >> 32) as usize % NUMBERS.len()].bytes());
                }
            }
            2 => drop(bytes.splice(begin..end, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            3 => drop(bytes.splice(begin..begin, TOKENS[(r >> 32) as usize % TOKENS.len()].bytes())),
            4 => drop(bytes.drain(begin..end)),
            5 => {
                // A stretch of text twice: members, components, brackets.
                let (_, to) = pick(r >> 32);
                let stretch = bytes[begin..to.max(end)].to_vec();
                bytes.splice(begin..begin, stretch);
            }
            6 => {
                // A string, whose place is likely to want one, by another.
                let strings: Vec<_> = spans.iter().filter(|s| bytes[s.0] == b'"').collect();
                if !strings.is_empty() {
                    let (from, to) = (
                        strings[(r >> 8) as usize % strings.len()],
                        strings[(r >> 32) as usize % strings.len()],
                    );
                    let token = bytes[from.0..from.1].to_vec();
                    bytes.splice(to.0..to.1, token);
                }
            }
            7 => bytes.truncate((r >> 8) as usize % (bytes.len() + 1)),
            _ => {
                let at = (r >> 8) as usize % bytes.len();
                bytes[at] ^= 1 << (r >> 60 & 7);
            }
        }
        if bytes.is_empty() {
            return bytes;
        }
    }
    bytes
}

#[derive(Default)]
struct Tally {
    opened: u32,
    refused: u32,
    peak: usize,
    slowest: Duration,
}

impl Tally {
    fn check(&mut self, what: &str, file: &str, open: impl FnOnce() -> Result<(), Error>) {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        match open() {
            Ok(()) => self.opened += 1,
            Err(error) => {
                self.refused += 1;
                let message = error.to_string();
                assert!(message.contains(file), "{what}: {message}");
                assert!(message.len() < 900 && !message.contains(char::is_control), "{what}: {message:?}");
            }
        }
        let extra = MEMORY.peak_usage().saturating_sub(before);
        assert!(extra <= CEILING, "{what}: {extra} bytes");
        assert!(start.elapsed() < patience(PATIENCE), "{what}: {:?}", start.elapsed());
        self.peak = self.peak.max(extra);
        self.slowest = self.slowest.max(start.elapsed());
    }

    fn report(&self, what: &str) {
        eprintln!(
            "{what}: {} opened, {} refused; at most {} bytes of memory; slowest {:?}",
            self.opened, self.refused, self.peak, self.slowest
        );
        assert!(self.opened + self.refused >= 20_000 && self.opened > 1000 && self.refused > 5000);
    }
}

/// Encodes and decodes; a text that cannot be written is an error, never a panic.
fn works(tokenizer: &dyn Tokenizer) {
    for text in [
        "",
        "abc AB</s> fox<s>  [SEP]'s. éÂ 12\n\u{0}",
        "▁ab 中文🦙\u{301}c\u{fffd} aaab (foxes)",
        "  aab\u{200d}",
    ] {
        for special in [Special::Parse, Special::AsText] {
            let Ok(ids) = tokenizer.encode(text, special) else { continue };
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
            let mut previous = None;
            for id in ids {
                let bytes = tokenizer.bytes_after(previous, id);
                assert!(bytes.is_some() && tokenizer.token_bytes(id).is_some());
                previous = Some(id);
            }
        }
    }
    for id in [0, 1, 2, 5, 15, 17, u32::MAX] {
        let _ =
            (tokenizer.token_bytes(id), tokenizer.bytes_after(Some(id), 1), tokenizer.bytes_after(None, id));
        let _ = (tokenizer.is_end(id), tokenizer.is_special(id));
    }
    let n = tokenizer.vocab_size();
    for (add, id) in [(tokenizer.add_bos(), tokenizer.bos()), (tokenizer.add_eos(), tokenizer.eos())] {
        assert!(!add || id.is_some());
        assert!(id.is_none_or(|id| (id as usize) < n));
    }
}

/// The Unigram tokenizer with a table of replacements.
fn unigram() -> String {
    let t5 = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hf/t5.json")).unwrap();
    let t5: serde_json::Value = serde_json::from_slice(&t5).unwrap();
    UNIGRAM.replace("CHARSMAP", t5["normalizer"]["precompiled_charsmap"].as_str().unwrap())
}

fn check_file(tally: &mut Tally, what: &str, bytes: &[u8]) {
    tally.check(what, "mutated.json", || {
        from_tokenizer_json(bytes, "mutated.json").map(|t| works(t.as_ref()))
    });
}

fn damaged_tokenizers(unigram: &str) -> Tally {
    let mut tally = Tally::default();
    let files = [BPE, unigram, WORD_PIECE];
    for (n, file) in files.iter().enumerate() {
        let opened = tally.opened;
        check_file(&mut tally, &format!("file {n}"), file.as_bytes());
        assert_eq!(
            tally.opened,
            opened + 1,
            "file {n} is valid: {:?}",
            from_tokenizer_json(file.as_bytes(), "").err()
        );
        for len in 0..file.len() {
            check_file(&mut tally, &format!("file {n} cut to {len}"), &file.as_bytes()[..len]);
        }
        for i in 0..6000 {
            check_file(&mut tally, &format!("file {n}, mutation {i}"), &mutate(file.as_bytes(), i));
        }
    }
    // Few of those above reach the model, so here is more of it.
    for i in 0..4000 {
        let model = BPE.find("\"model\"").unwrap();
        let bytes = [b"{\"added_tokens\":[],", &mutate(&BPE.as_bytes()[model..], i)[..]].concat();
        check_file(&mut tally, &format!("model, mutation {i}"), &bytes);
    }
    for deep in ["[", "{\"a\":", "{\"type\":\"Sequence\",\"normalizers\":["] {
        for key in ["normalizer", "x", "model"] {
            check_file(&mut tally, "deep", format!("{{\"{key}\":{}", deep.repeat(100_000)).as_bytes());
        }
    }
    let many = format!(
        "{{\"type\":\"Sequence\",\"normalizers\":[{}{{\"type\":\"NFC\"}}]}}",
        "{\"type\":\"NFC\"},".repeat(20_000)
    );
    check_file(
        &mut tally,
        "many",
        BPE.replacen("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}", &many, 1).as_bytes(),
    );
    let doubling = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"},".repeat(31);
    check_file(
        &mut tally,
        "doubling",
        UNIGRAM
            .replacen("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CHARSMAP\"},", &doubling, 1)
            .as_bytes(),
    );
    tally
}

fn damaged_configs(folder: &Path) -> Tally {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    write("model.safetensors", &[&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat());
    write("config.json", br#"{"eos_token_id": [2, 99], "bos_token_id": 1}"#);
    write("tokenizer.json", WORD_PIECE.as_bytes());
    let hf = HfFolder::open(folder).unwrap();
    let mut tally = Tally::default();
    let mut check = |what: &str, bytes: &[u8]| {
        write("tokenizer_config.json", bytes);
        tally.check(what, "_config.json", || {
            let tokenizer = from_hf(&hf)?;
            works(tokenizer.as_ref());
            ChatTemplate::from_hf(&hf, tokenizer.as_ref()).map(drop)
        });
    };
    check("the configuration itself", CONFIG.as_bytes());
    for len in 0..CONFIG.len() {
        check(&format!("cut to {len}"), &CONFIG.as_bytes()[..len]);
    }
    for i in 0..20_000 {
        check(&format!("mutation {i}"), &mutate(CONFIG.as_bytes(), i));
    }
    tally
}

#[test]
fn damaged_files_are_refused_or_work() {
    let _alone = crate::alone();
    damaged_tokenizers(&unigram()).report("tokenizer.json");
    // In memory where there is such a place: 20,000 files take a minute on a slow disk.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    damaged_configs(folder.path()).report("tokenizer_config.json");
}

#[test]
#[ignore = "writes the seeds of the fuzz target"]
fn write_fuzz_seeds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/tokenizer_json");
    std::fs::create_dir_all(folder).unwrap();
    for (name, text) in [("bpe.json", BPE), ("unigram.json", &unigram()), ("word_piece.json", WORD_PIECE)] {
        std::fs::write(format!("{folder}/{name}"), text).unwrap();
    }
}
