//! A folder from the hub as a GGUF file.

use crate::error::Error;
use crate::family::{Family, heads_reordered, names};
use crate::{Report, Watch, cast, tokenizer};
use leyden_models::{HfModel, RopeConfig, RopeScaling, config_of_json};
use leyden_tensor::{DType, GgufWriter, HfFile, HfFolder, Metadata, Value, WeightSource};
use std::io::Write;
use std::path::Path;

/// The divisors of rotary frequencies in GGUF.
const ROPE_FREQS: &str = "rope_freqs.weight";

/// Writes the model in a folder as a GGUF file. Matrices keep their type if that is F32, F16 or BF16, and become F16
/// otherwise; with `dtype` all have that one. Under the name there is the whole file, read back and compared, or what was
/// there before.
///
/// # Errors
/// A file cannot be read or written, the model or its tokenizer has something that GGUF has no word for, or `watch` said stop.
pub fn to_gguf(from: &Path, to: &Path, dtype: Option<DType>, watch: &mut Watch<'_>) -> Result<Report, Error> {
    let folder = HfFolder::open(from)?;
    let config = config_of_json(folder.config())?;
    let family = Family::named(config.architecture).map_err(|what| Error::unlike(from, what))?;
    if config.layers.iter().any(|layer| layer.mask.window().is_some_and(|window| window < config.context)) {
        return Err(Error::unlike(from, "sliding_window: windows are not converted yet"));
    }
    let model = HfModel::new(folder)?;
    let table = model.require("token_embd.weight")?;
    let (entries, rule) = tokenizer::of_folder(model.folder(), table.rows())?;
    let layer = &config.layers[0];
    let mut writer = GgufWriter::new();
    let name = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let name =
        name.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    writer.set("general.architecture", Value::from(family.architecture));
    writer.set("general.type", Value::from("model")).set("general.name", Value::from(&name[..]));
    describe(&mut writer, model.metadata(), family);
    let key = |key: &str| format!("{}.{key}", family.architecture);
    let narrow = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
    writer.set(&key("vocab_size"), narrow(table.rows()));
    writer.set(&key("attention.value_length"), narrow(layer.value_dim));
    let mut divisors = None;
    if let Some(rope) = &layer.rope {
        writer.set(&key("rope.dimension_count"), narrow(rope.dims));
        match rope.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                writer.set(&key("rope.scaling.type"), Value::from("linear"));
                writer.set(&key("rope.scaling.factor"), Value::F32(factor));
            }
            RopeScaling::Llama3 { factor, low, high, original_context } => {
                divisors = Some(llama3(rope, factor, low, high, original_context));
            }
            _ => {
                return Err(Error::unlike(
                    model.folder().config().file().as_ref(),
                    "rope_scaling: of this type is not converted yet",
                ));
            }
        }
    }
    for (key, value) in entries {
        writer.set(&key, value);
    }
    let template = template(model.folder())?;
    if let Some(template) = &template {
        writer.set("tokenizer.chat_template", Value::from(&template[..]));
    }
    let mut tensors = Vec::new();
    let mut bytes = 0;
    for (name, _) in names(config.layers.len()) {
        let Some(view) = model.optional(&name)? else { continue };
        let to = match (view.shape().len(), dtype, view.dtype()) {
            (1, ..) => DType::F32,
            (_, Some(dtype), _) => dtype,
            (_, None, kept @ (DType::F32 | DType::F16 | DType::BF16)) => kept,
            (_, None, _) => DType::F16,
        };
        bytes += to.row_bytes(view.cols()).unwrap_or(0) * view.rows();
        writer.announce_tensor(&name, to, view.shape())?;
        tensors.push((name, to));
    }
    let known = model.tensor_names().len();
    if known > tensors.len() {
        let what = format!("{} of {known} tensors have no name in GGUF here", known - tensors.len());
        return Err(Error::unlike(from, what));
    }
    let file_type =
        tensors.iter().find(|(name, _)| name.ends_with("attn_output.weight")).map(|(_, dtype)| *dtype);
    writer.set(
        "general.file_type",
        Value::U32(match file_type {
            Some(DType::F32) => 0,
            Some(DType::BF16) => 32,
            _ => 1,
        }),
    );
    if let Some(divisors) = &divisors {
        let raw: Vec<u8> = divisors.iter().flat_map(|d| d.to_le_bytes()).collect();
        writer.add_tensor(ROPE_FREQS, DType::F32, &[divisors.len()], raw)?;
    }
    let (mut done, mut types, target) = (0, tensors.iter(), to);
    writer.write_made_to(to, &mut |name, out: &mut dyn Write| -> Result<(), Error> {
        let view = model.require(name)?;
        let Some((_, to)) = types.next() else { return Err(Error::Stopped) };
        let heads = [("attn_q.", layer.heads), ("attn_k.", layer.kv_heads)];
        let mut made = cast(&view, *to);
        if let Some((_, heads)) = heads.iter().find(|(part, _)| family.interleaved && name.contains(part)) {
            made = heads_reordered(&view, &made, [*heads, layer.head_dim], true)
                .map_err(|what| Error::unlike(from, what))?;
        }
        model.advise_dontneed(name, 0..view.bytes().len());
        out.write_all(&made).map_err(|error| Error::unlike(target, format!("cannot write: {error}")))?;
        done += made.len();
        if watch(done, bytes).is_break() { Err(Error::Stopped) } else { Ok(()) }
    })?;
    model.check_intact()?;
    Ok(Report { tensors: tensors.len(), bytes, rule, template: template.is_some() })
}

/// Sizes under GGUF's keys, in 32 bits as llama.cpp reads them.
fn describe(writer: &mut GgufWriter<'_>, metadata: &Metadata, family: Family) {
    for (key, value) in metadata.iter().filter(|(key, _)| key.starts_with(family.architecture)) {
        let narrow = value.as_integer().and_then(|n| u32::try_from(n).ok()).map(Value::U32);
        writer.set(key, narrow.unwrap_or_else(|| value.clone()));
    }
}

/// What Llama 3.1's scaling divides each frequency by.
fn llama3(rope: &RopeConfig, factor: f32, low: f32, high: f32, original_context: usize) -> Vec<f32> {
    let [factor, low, high] = [factor, low, high].map(f64::from);
    let divisor = |i: usize| {
        let frequency = f64::from(rope.base).powf(-2.0 * i as f64 / rope.dims as f64);
        let turns = original_context as f64 * frequency / std::f64::consts::TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - kept) / factor + kept)) as f32
    };
    (0..rope.dims / 2).map(divisor).collect()
}

/// The chat template, from its own file or among the tokenizer's settings.
fn template(folder: &HfFolder) -> Result<Option<String>, Error> {
    if let Some(bytes) = folder.read(HfFile::ChatTemplate)? {
        return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
    }
    let Some(bytes) = folder.read(HfFile::TokenizerConfig)? else { return Ok(None) };
    let path = folder.path().join(HfFile::TokenizerConfig.name());
    let config: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| Error::unlike(&path, error))?;
    let named = config["chat_template"].as_array().into_iter().flatten();
    let default = named.clone().find(|t| t["name"] == "default").or_else(|| named.clone().next());
    let text = config["chat_template"].as_str().or_else(|| default.and_then(|t| t["template"].as_str()));
    Ok(text.map(str::to_owned))
}
