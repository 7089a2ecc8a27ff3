//! Features, encoder and decoder against transformers (`data/make.py`), on a tiny model whose weights follow from a
//! formula, in all forms of its files; damaged files of all kinds; and published models where they are at hand.

use leyden_kernels::{Cpu, Tier};
use leyden_speech::{Audio, AudioLimits, Mel, Network, Options, Precision, Timestamps, Whisper};
use serde_json::{Value, json};
use std::f64::consts::TAU;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns the audio of `make.py`: a chirp that grows, a pause, and a low tone.
fn audio() -> Vec<f32> {
    let n = 16_000 * 7;
    let at = |i: usize| {
        let x = i as f64;
        let on = if (60_000..=80_000).contains(&i) { 0.0 } else { 1.0 };
        let chirp = 0.4 * (TAU * (200.0 + x * 0.02) * x / 16_000.0).sin() * (x / n as f64) * on;
        (chirp + 0.1 * (TAU * 110.0 * x / 16_000.0).sin()) as f32
    };
    (0..n).map(at).collect()
}

/// Returns values between -1 and 1 that depend on the name, as `make.py` does.
fn values(name: &str, n: usize) -> Vec<f32> {
    let seed: u64 = name.bytes().enumerate().map(|(k, c)| (k as u64 + 1) * u64::from(c)).sum();
    let at = |k: u64| {
        let mut x = (k * 2_654_435_761 + seed * 40_503) % (1 << 32);
        x = (x ^ (x >> 15)) * 2_246_822_519 % (1 << 32);
        x ^= x >> 13;
        (x as f64 / f64::from(1_u32 << 31) - 1.0) as f32
    };
    (0..n as u64).map(at).collect()
}

/// Returns names and shapes of the tiny model's tensors.
fn shapes(bins: usize) -> Vec<(String, Vec<usize>)> {
    let (w, mut all) = (64, Vec::new());
    let mut add = |name: String, shape: &[usize]| all.push((name, shape.to_vec()));
    add("encoder.conv1.weight".into(), &[w, bins, 3]);
    add("encoder.conv1.bias".into(), &[w]);
    add("encoder.conv2.weight".into(), &[w, w, 3]);
    add("encoder.conv2.bias".into(), &[w]);
    add("encoder.embed_positions.weight".into(), &[1500, w]);
    add("decoder.embed_positions.weight".into(), &[64, w]);
    add("decoder.embed_tokens.weight".into(), &[1900, w]);
    for (side, hidden) in [("encoder", 128), ("decoder", 96)] {
        for part in ["weight", "bias"] {
            add(format!("{side}.layer_norm.{part}"), &[w]);
        }
        for i in 0..2 {
            let layer = format!("{side}.layers.{i}");
            let attentions: &[(&str, &str)] = match side {
                "encoder" => &[("self_attn", "self_attn_layer_norm")],
                _ => &[("self_attn", "self_attn_layer_norm"), ("encoder_attn", "encoder_attn_layer_norm")],
            };
            for (attention, norm) in attentions {
                for p in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                    add(format!("{layer}.{attention}.{p}.weight"), &[w, w]);
                    if p != "k_proj" {
                        add(format!("{layer}.{attention}.{p}.bias"), &[w]);
                    }
                }
                for part in ["weight", "bias"] {
                    add(format!("{layer}.{norm}.{part}"), &[w]);
                }
            }
            for (part, shape) in [("fc1", [hidden, w]), ("fc2", [w, hidden])] {
                add(format!("{layer}.{part}.weight"), &shape);
                add(format!("{layer}.{part}.bias"), &shape[..1]);
            }
            for part in ["weight", "bias"] {
                add(format!("{layer}.final_layer_norm.{part}"), &[w]);
            }
        }
    }
    all
}

/// Returns a tensor's values.
fn tensor(name: &str, shape: &[usize]) -> Vec<f32> {
    let norm = name.contains("layer_norm") && name.ends_with("weight");
    let all = values(name, shape.iter().product());
    let of = |x: f32| match (norm, shape.len()) {
        (true, _) => 1.0 + 0.3 * x,
        (false, 1) => 0.1 * x,
        _ => 0.25 * x,
    };
    all.into_iter().map(of).collect()
}

/// Writes the tiny model as a Hugging Face folder.
fn folder(at: &Path, bins: usize) {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in shapes(bins) {
        let begin = data.len();
        tensor(&name, &shape).iter().for_each(|x| data.extend(x.to_le_bytes()));
        let entry = json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert(format!("model.{name}"), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    fs::write(at.join("model.safetensors"), file).unwrap();
    let config = json!({
        "model_type": "whisper", "d_model": 64, "vocab_size": 1900, "num_mel_bins": bins, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 96, "max_source_positions": 1500, "max_target_positions": 64
    });
    fs::write(at.join("config.json"), config.to_string()).unwrap();
    fs::write(at.join("tokenizer.json"), tokenizer().to_string()).unwrap();
}

/// Returns a tokenizer of single bytes and special tokens.
fn tokenizer() -> Value {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    let mut vocab = serde_json::Map::new();
    for b in 0..256_u32 {
        let code = if printable(b) { b } else { next };
        next += u32::from(!printable(b));
        vocab.insert(char::from_u32(code).unwrap().to_string(), b.into());
    }
    let special = [
        "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
        "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
    ];
    let added: Vec<Value> = special
        .iter()
        .enumerate()
        .map(|(i, name)| {
            json!({ "id": 256 + i, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true })
        })
        .collect();
    json!({
        "version": "1.0", "added_tokens": added, "normalizer": null,
        "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true },
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": { "type": "BPE", "vocab": vocab, "merges": [] }
    })
}

fn reference(bins: usize) -> Value {
    let all: Value = serde_json::from_str(include_str!("data/reference.json")).unwrap();
    all[bins.to_string()].clone()
}

fn numbers(row: &Value) -> Vec<f64> {
    row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// Asserts that rows are within `bound` of those of the reference.
fn near(what: &str, want: &Value, got: impl Fn(usize) -> Vec<f32>, bound: f64) {
    for (i, row) in want.as_array().unwrap().iter().enumerate() {
        for (want, got) in numbers(row).iter().zip(got(i)) {
            assert!((want - f64::from(got)).abs() <= bound, "{what} {i}: {got}, want {want}");
        }
    }
}

fn cpu() -> Cpu {
    Cpu::new(Tier::best(), 2).unwrap()
}

#[test]
fn features_encoder_and_decoder_are_those_of_transformers() {
    for bins in [80, 128] {
        let (cpu, want, dir) = (cpu(), reference(bins), tempfile::tempdir().unwrap());
        let mel = Mel::new(&cpu, &audio(), bins);
        let window = mel.window(0, 3000);
        near("frame", &want["features"], |i| window[100 * i * bins..][..bins].to_vec(), 1e-4);
        folder(dir.path(), bins);
        let network = Network::load(&cpu, dir.path(), Precision::Stored).unwrap();
        let encoded = network.encode(&cpu, window).unwrap();
        near("position", &want["encoded"], |i| encoded[77 * i * 64..][..64].to_vec(), 1e-4);
        let ids: Vec<u32> = numbers(&want["ids"]).iter().map(|id| *id as u32).collect();
        let logits = network.logits(&cpu, &encoded, &ids).unwrap();
        let row = |i: usize| logits[4 * i * 1900..][..1900].iter().copied().step_by(50).collect();
        near("token", &want["logits"], row, 1e-4);
        for (precision, bound) in [(Precision::Q8_0, 0.15), (Precision::Int8, 0.4)] {
            let network = Network::load(&cpu, dir.path(), precision).unwrap();
            let encoded = network.encode(&cpu, window).unwrap();
            near(&format!("{precision} position"), &want["encoded"], |i| encoded[77 * i * 64..][..64].to_vec(), bound);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_tier() {
    let (dir, audio) = (tempfile::tempdir().unwrap(), Audio::from_samples(audio()[..48_000].to_vec()));
    folder(dir.path(), 80);
    let results = Tier::available().into_iter().flat_map(|tier| [1, 2].map(|threads| (tier, threads)));
    let all: Vec<_> = results
        .map(|(tier, threads)| {
            let cpu = Cpu::new(tier, threads).unwrap();
            let model = Whisper::load(&cpu, dir.path(), Precision::Stored).unwrap();
            let options = Options { temperatures: vec![0.5], best_of: 2, ..Options::default() };
            model.transcribe(&cpu, &audio, &options, &mut |_| true).unwrap()
        })
        .collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn work_stops_when_its_observer_says_so() {
    let (cpu, dir) = (cpu(), tempfile::tempdir().unwrap());
    folder(dir.path(), 80);
    let model = Whisper::load(&cpu, dir.path(), Precision::Stored).unwrap();
    let (audio, mut left) = (Audio::from_samples(audio()), 3);
    let mut go_on = |_: leyden_speech::Event<'_>| {
        left -= 1;
        left > 0
    };
    let error = model.transcribe(&cpu, &audio, &Options::default(), &mut go_on).unwrap_err();
    assert!(matches!(error.kind(), leyden_speech::ErrorKind::Stopped), "{error}");
    for (options, want) in [
        (Options { language: Some("xx".into()), ..Options::default() }, "language: \"xx\" is no language of Whisper"),
        (Options { translate: true, ..Options::default() }, "translate: this model knows English alone"),
        (Options { temperatures: vec![3.0], ..Options::default() }, "temperature: 3 is not between 0 and 2"),
    ] {
        let error = model.transcribe(&cpu, &audio, &options, &mut |_| true).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

#[test]
fn damaged_models_are_errors_with_a_name() {
    let (cpu, dir) = (cpu(), tempfile::tempdir().unwrap());
    folder(dir.path(), 80);
    let config = fs::read_to_string(dir.path().join("config.json")).unwrap();
    for (from, to, want) in [
        ("\"d_model\":64", "\"d_model\":65", "encoder heads"),
        ("\"encoder_attention_heads\":4", "\"encoder_attention_heads\":0", "encoder heads"),
        ("\"vocab_size\":1900", "\"vocab_size\":2000", "embed_tokens"),
        ("\"num_mel_bins\":80", "\"num_mel_bins\":4000", "mel bins"),
        ("\"max_source_positions\":1500", "\"max_source_positions\":100000", "audio context"),
        ("\"encoder_layers\":2", "\"encoder_layers\":3", "layers.2"),
        ("whisper", "bert", "model_type"),
    ] {
        fs::write(dir.path().join("config.json"), config.replace(from, to)).unwrap();
        let error = Whisper::load(&cpu, dir.path(), Precision::Stored).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    fs::write(dir.path().join("config.json"), config).unwrap();
    fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    let error = Whisper::load(&cpu, dir.path(), Precision::Stored).unwrap_err().to_string();
    assert!(error.contains("no tokenizer.json"), "{error}");
}

/// Returns a WAV file of 16-bit samples.
fn wav(samples: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|x| ((x * 32_767.0) as i16).to_le_bytes()).collect();
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data".to_vec();
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    file
}

#[test]
fn damaged_audio_is_an_error_and_never_a_panic() {
    let limits = AudioLimits { bytes: 1 << 20, seconds: 60 };
    let good = wav(&audio()[..4000]);
    assert_eq!(Audio::decode(good.clone(), &limits).unwrap().samples().len(), 4000);
    for at in 0..60.min(good.len()) {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let _ = Audio::decode(bad, &limits);
        }
        let _ = Audio::decode(good[..at].to_vec(), &limits);
    }
    // Beginnings of other formats, followed by noise.
    let noise: Vec<u8> = (0..20_000).map(leyden_testkit::random).map(|x| x as u8).collect();
    for start in [&b"fLaC\0\0\0\x22"[..], b"OggS\0\x02", b"ID3\x04\0\0\0\0\0\x01", b"\xff\xfb\x90\x64", b"\0\0\0\x20ftypM4A ", b"RIFF"] {
        for cut in [0, 1, 50, 4000, 20_000] {
            let error = Audio::decode([start, &noise[..cut]].concat(), &limits);
            assert!(error.is_err(), "{start:?} {cut}");
        }
    }
    let error = Audio::decode(vec![0; (1 << 20) + 1], &limits).unwrap_err().to_string();
    assert!(error.contains("at most 1048576"), "{error}");
}

/// Returns a file of `../models`, where `fetch_models.py` puts published models; `None`, with a note, if it is absent.
fn published(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../models").join(name);
    if path.exists() {
        return Some(path);
    }
    let _ = writeln!(std::io::stderr(), "skipped: ../models has no {name} (fetch_models.py)");
    None
}

/// Opening of A Tale of Two Cities as both published models write it down.
const TWO_CITIES: &str = "It was the best of times, it was the worst of times. It was the age of wisdom, it was the age of \
    foolishness. It was the epoch of belief, it was the epoch of incredulity. It was the season of light, it was the season \
    of darkness. It was the spring of hope, it was the winter of despair.";

#[test]
fn published_models_transcribe_a_reading() {
    let cpu = cpu();
    for name in ["whisper-tiny.en", "whisper-base"] {
        let (Some(model), Some(wav)) = (published(name), published("two_cities.wav")) else { return };
        let audio = Audio::open(&wav, &AudioLimits::default()).unwrap();
        for precision in [Precision::Stored, Precision::Q8_0] {
            let whisper = Whisper::load(&cpu, &model, precision).unwrap();
            let options = Options { timestamps: Timestamps::Word, ..Options::default() };
            let result = whisper.transcribe(&cpu, &audio, &options, &mut |_| true).unwrap();
            assert_eq!(result.language, "en");
            assert!(result.text.starts_with(TWO_CITIES), "{name} {precision}: {}", result.text);
            let words: Vec<_> = result.segments.iter().flat_map(|segment| &segment.words).collect();
            assert!(words.len() > 100 && words.windows(2).all(|pair| pair[0].start <= pair[1].start + 0.02));
        }
    }
}
