//! Features, encoder and decoder against transformers (`data/make.py`), on a tiny model whose weights follow from a
//! formula; damaged files of all kinds; and published models where they are at hand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod tiny;

use leyden_kernels::{Cpu, Tier};
use leyden_speech::{Audio, AudioLimits, Mel, Network, Options, Precision, Timestamps, Whisper};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tiny::{audio, folder, wav};

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
            near(
                &format!("{precision} position"),
                &want["encoded"],
                |i| encoded[77 * i * 64..][..64].to_vec(),
                bound,
            );
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
            let timestamps = Timestamps::None;
            let options = Options { temperatures: vec![0.5], best_of: 2, timestamps, ..Options::default() };
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
        (
            Options { language: Some("xx".into()), ..Options::default() },
            "language: \"xx\" is no language of Whisper",
        ),
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
    for start in [
        &b"fLaC\0\0\0\x22"[..],
        b"OggS\0\x02",
        b"ID3\x04\0\0\0\0\0\x01",
        b"\xff\xfb\x90\x64",
        b"\0\0\0\x20ftypM4A ",
        b"RIFF",
    ] {
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

/// Writes the tiny model, with the smallest vocabulary of published models, as a GGML file with this type of matrices.
fn ggml(bins: usize, half: bool) -> Vec<u8> {
    let word = |x: usize| (x as u32).to_le_bytes();
    let mut file = Vec::new();
    for x in [0x6767_6d6c, 51_864, 1500, 64, 4, 2, 64, 64, 2, 2, bins, usize::from(half), bins, 201] {
        file.extend(word(x));
    }
    file.extend(vec![0; bins * 201 * 4]);
    file.extend(word(50_256));
    for id in 0..50_256_usize {
        // Single bytes, then pairs, each made of two earlier tokens.
        let bytes = if id < 256 { vec![id as u8] } else { vec![(id / 256) as u8, (id % 256) as u8] };
        file.extend(word(bytes.len()));
        file.extend(bytes);
    }
    for (name, mut shape) in tiny::shapes(bins) {
        let mut data = tiny::tensor(&name, &shape);
        if name == "decoder.embed_tokens.weight" {
            shape[0] = 51_864;
            data.resize(51_864 * 64, 0.0);
        }
        let name = name
            .replace(".layers.", ".blocks.")
            .replace("encoder_attn_layer_norm", "cross_attn_ln")
            .replace("self_attn_layer_norm", "attn_ln")
            .replace("final_layer_norm", "mlp_ln")
            .replace("encoder_attn", "cross_attn")
            .replace("self_attn", "attn")
            .replace("q_proj", "query")
            .replace("k_proj", "key")
            .replace("v_proj", "value")
            .replace("out_proj", "out")
            .replace("fc1", "mlp.0")
            .replace("fc2", "mlp.2")
            .replace("encoder.layer_norm", "encoder.ln_post")
            .replace("decoder.layer_norm", "decoder.ln")
            .replace("embed_positions.weight", "positional_embedding")
            .replace("embed_tokens", "token_embedding");
        let half = half && shape.len() > 1 && !name.contains("positional");
        [shape.len(), name.len(), usize::from(half)].iter().for_each(|x| file.extend(word(*x)));
        shape.iter().rev().for_each(|x| file.extend(word(*x)));
        file.extend(name.as_bytes());
        for x in data {
            match half {
                true => file.extend(leyden_tensor::quant::f32_to_f16(x).to_le_bytes()),
                false => file.extend(x.to_le_bytes()),
            }
        }
    }
    file
}

#[test]
fn ggml_files_are_the_model_of_the_folder() {
    let (cpu, want, dir) = (cpu(), reference(80), tempfile::tempdir().unwrap());
    let path = dir.path().join("ggml-tiny.bin");
    let mel = Mel::new(&cpu, &audio(), 80);
    for (half, bound) in [(true, 3e-2), (false, 1e-4)] {
        fs::write(&path, ggml(80, half)).unwrap();
        assert!(Whisper::is_at(&path) && Whisper::outline_at(&path).unwrap().0.vocabulary == 51_864);
        let whisper = Whisper::load(&cpu, &path, Precision::Stored).unwrap();
        assert_eq!(whisper.languages(), ["en"]);
        let encoded = whisper.network().encode(&cpu, mel.window(0, 3000)).unwrap();
        near("position", &want["encoded"], |i| encoded[77 * i * 64..][..64].to_vec(), bound);
        let ids: Vec<u32> = numbers(&want["ids"]).iter().map(|id| *id as u32).collect();
        let logits = whisper.network().logits(&cpu, &encoded, &ids).unwrap();
        let row = |i: usize| logits[4 * i * 51_864..][..1900].iter().copied().step_by(50).collect();
        near("token", &want["logits"], row, bound);
    }
    let file = ggml(80, true);
    // Every damaged length is an error that names its place.
    for cut in [0, 3, 11, 47, 60, 100, 64_000, 200_000, file.len() - 1] {
        fs::write(&path, &file[..cut]).unwrap();
        let error = Network::load(&cpu, &path, Precision::Stored).unwrap_err().to_string();
        let known = ["file ends early", "missing", "is possible"];
        assert!(known.iter().any(|what| error.contains(what)), "{cut}: {error}");
    }
    for at in (0..56).step_by(4) {
        for value in [0, u32::MAX, 1 << 23] {
            let bad = leyden_testkit::overwrite(&file[..400_000], at, &value.to_le_bytes());
            fs::write(&path, bad).unwrap();
            assert!(Network::load(&cpu, &path, Precision::Stored).is_err(), "{at} {value}");
        }
    }
}
