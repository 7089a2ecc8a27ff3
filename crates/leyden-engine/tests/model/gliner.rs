//! GLiNER compared with its package, on tiny folders whose weights follow from a formula
//! (`tests/golden/make/gliner_models.py`): tokens, words, the logits of all spans, and the entities among them.

use super::encoders::{folder_as, states, values};
use super::shared::{engine_on, numbers, own};
use leyden_engine::Engine;
use leyden_kernels::attention::KvType;
use leyden_kernels::{Cpu, Tier};
use leyden_models::heads::SpanLogits;
use leyden_models::{HfModel, choose_spans};
use leyden_tensor::WeightSource;
use leyden_text::{Bounds, LabelMarks, LabelPrompt, LabelledText, Tokenizer, WindowLimits, from_hf};
use serde_json::{Value as Json, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn golden() -> Json {
    serde_json::from_str(&fs::read_to_string(own("tests/golden/gliner.json")).unwrap()).unwrap()
}

/// A model's folder, as the package saves it.
pub(crate) fn folder(model: &Json) -> tempfile::TempDir {
    let folder = folder_as(model, str::to_owned);
    fs::rename(folder.path().join("config.json"), folder.path().join("gliner_config.json")).unwrap();
    fs::write(folder.path().join("tokenizer.json"), model["tokenizer"].to_string()).unwrap();
    folder
}

fn engine(folder: &Path, tier: Tier, threads: usize) -> Engine {
    let source = Arc::new(HfModel::open(folder).unwrap());
    engine_on(source, Cpu::new(tier, threads).unwrap().with_exact(true), KvType::Q8_0)
}

/// The text of a case, with its labels before it.
fn read(e: &Engine, tokenizer: &dyn Tokenizer, case: &Json) -> (LabelPrompt, LabelledText) {
    let spans = e.model().config().spans.clone().unwrap();
    let labels: Vec<&str> = case["labels"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    let marks = LabelMarks::find(tokenizer, [&spans.mark, &spans.separator], e.model().vocabulary());
    let marks = marks.unwrap().unwrap();
    assert_eq!(Some(marks.mark), spans.mark_id);
    let prompt = LabelPrompt::new(tokenizer, &labels, &marks, &Bounds::NONE).unwrap();
    let limits = WindowLimits { tokens: e.options().context, words: spans.max_words, span: spans.max_width };
    let text = case["text"].as_str().unwrap();
    let text = LabelledText::new(tokenizer, &prompt, text, limits, &Bounds::NONE).unwrap();
    (prompt, text)
}

fn logits(e: &Engine, (prompt, text): &(LabelPrompt, LabelledText), states: &[Vec<f32>]) -> Vec<f32> {
    let spans = e.model().config().spans.clone().unwrap();
    let labels: Vec<usize> = prompt.marks().iter().map(|at| at + usize::from(!spans.of_mark)).collect();
    values(e, SpanLogits { words: text.windows[0].tokens.clone(), labels }, &states.concat())
}

#[test]
fn spans_have_the_logits_and_entities_of_the_package() {
    let golden = golden();
    let threshold = golden["threshold"].as_f64().unwrap() as f32;
    for model in golden["models"].as_array().unwrap() {
        let name = model["name"].as_str().unwrap();
        let folder = folder(model);
        let tokenizer = from_hf(HfModel::open(folder.path()).unwrap().folder()).unwrap();
        let mut e = engine(folder.path(), Tier::best(), 2);
        let mut alone = engine(folder.path(), Tier::available()[0], 1);
        let spans = e.model().config().spans.clone().unwrap();
        let cases = model["cases"].as_array().unwrap();
        let read: Vec<_> = cases.iter().map(|case| read(&e, tokenizer.as_ref(), case)).collect();
        let ids: Vec<&[u32]> = read.iter().map(|(_, text)| &text.windows[0].ids[..]).collect();
        let together = states(&mut e, &ids);
        for ((case, read), states_of) in cases.iter().zip(&read).zip(&together) {
            let text = case["text"].as_str().unwrap();
            let at = format!("{name}, {:?}, {text:?}", case["labels"]);
            let window = &read.1.windows[0];
            assert_eq!(json!(window.ids), case["tokens"], "{at}");
            let places = |byte: usize| text[..byte].chars().count();
            let words: Vec<[usize; 2]> =
                read.1.words.iter().map(|word| [places(word.start), places(word.end)]).collect();
            assert_eq!(json!(words), case["words"], "{at}");
            let mut logits_of = logits(&e, read, states_of);
            if let Some(want) = case.get("logits") {
                let want: Vec<f64> = want.as_array().unwrap().iter().flat_map(numbers).collect();
                assert_eq!(logits_of.len(), want.len(), "{at}");
                for (i, (got, want)) in logits_of.iter().zip(&want).enumerate() {
                    assert!((f64::from(*got) - want).abs() < 1e-4, "{at}: logit {i} is {got}, not {want}");
                }
            }
            // In a step with others and on any machine the bits are the same as alone.
            let by_itself = states(&mut alone, &[&window.ids[..]]);
            assert!(logits(&alone, read, &by_itself[0]) == logits_of, "{at}");
            let labels = case["labels"].as_array().unwrap();
            let tier = e.cpu().tier();
            let found =
                spans.found(tier, &mut logits_of, labels.len(), (0, words.len()), threshold, |_| true);
            for (kind, nested) in [("flat", false), ("nested", true)] {
                let want = case[kind].as_array().unwrap();
                let chosen = choose_spans(found.clone(), nested);
                assert_eq!(chosen.len(), want.len(), "{at}, {kind}: {chosen:?}, not {want:?}");
                for (span, want) in chosen.iter().zip(want) {
                    let (first, last) = (words[span.words.start], words[span.words.end - 1]);
                    let got = json!([labels[span.label], first[0], last[1]]);
                    assert_eq!(got, json!([want[0], want[2], want[3]]), "{at}, {kind}");
                    assert!((f64::from(span.score) - want[1].as_f64().unwrap()).abs() < 1e-4, "{at}, {kind}");
                }
            }
        }
    }
}

/// Returns the error of a folder after a change to its configuration or to its tensors' names and shapes.
fn refusal(model: &Json, change: impl FnOnce(&mut Json)) -> String {
    let mut model = model.clone();
    change(&mut model);
    let folder = folder(&model);
    let opened = HfModel::open(folder.path()).map(|source| source.path().to_owned());
    let loaded = opened.and_then(|path| {
        let source = Arc::new(HfModel::open(&path)?);
        leyden_models::load(source, &Cpu::new(Tier::best(), 1).unwrap(), &mut |_, _| {})
    });
    loaded.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn folders_that_do_not_fit_are_refused_by_key_or_tensor() {
    let golden = golden();
    let model = &golden["models"][0];
    let key = |key: &'static str, value: Json| {
        refusal(model, move |model| {
            model["config"][key] = value;
        })
    };
    let tensors = |rename: fn(&str) -> Option<(&str, Json)>| {
        refusal(model, move |model| {
            for tensor in model["tensors"].as_array_mut().unwrap() {
                let name = tensor[0].as_str().unwrap().to_owned();
                if let Some((name, shape)) = rename(&name) {
                    *tensor = json!([name, shape]);
                }
            }
        })
    };
    let hh = "rnn.lstm.weight_hh_l0";
    for (error, wanted) in [
        (key("encoder_config", Json::Null), "encoder_config: missing, and the folder has no config.json"),
        (key("encoder_config", json!([])), "encoder_config: want object, found array"),
        (
            key("encoder_config", json!({ "model_type": "warp" })),
            "encoder_config: model_type: architecture `warp`",
        ),
        (key("vocab_size", json!(12)), "gliner_config.json: vocab_size: 12 differs from the 136 rows"),
        (key("hidden_size", json!(32)), "out_project.0.weight: shape [96, 48] does not match"),
        (
            key("num_rnn_layers", json!(0)),
            "rnn.lstm.bias_hh_l0: architecture `deberta-v2` has no use for this tensor",
        ),
        (key("num_rnn_layers", json!(2)), "rnn.lstm.bias_ih_l1: required tensor is missing"),
        (key("num_rnn_layers", json!(-2)), "gliner_config.json: num_rnn_layers: "),
        (key("class_token_index", json!(-3)), "gliner_config.json: class_token_index: "),
        (
            key("max_width", json!(1_000_000)),
            "gliner_config.json: max_width: 1000000 is not between 1 and 64",
        ),
        (
            key("span_mode", json!("token_level")),
            "gliner_config.json: span_mode: `token_level` is not supported",
        ),
        (tensors(|name| (name == "rnn.lstm.weight_hh_l0").then_some((name, json!([48, 13])))), hh),
        (
            tensors(|name| name.strip_suffix("prompt_rep_layer.3.bias").map(|_| ("x", json!([24])))),
            "prompt_rep_layer.3.bias: required tensor is missing",
        ),
    ] {
        assert!(error.contains(wanted), "{error:?}, not {wanted:?}");
    }
}
