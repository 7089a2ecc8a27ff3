//! A GGUF file as a folder of the hub's layout.

use crate::error::Error;
use crate::family::{Family, heads_reordered, names};
use crate::safetensors::Writer;
use crate::{Report, Watch, cast, tokenizer};
use leyden_models::config_of;
use leyden_tensor::{DType, Gguf, HfFolder, WeightSource};
use serde_json::{Value as Json, json};
use std::path::Path;

/// Writes the model in a GGUF file as a folder with `config.json`, safetensors and tokenizer. Matrices that are quantised
/// become F16; with `dtype` all have that type. The folder appears whole, or not at all.
///
/// # Errors
/// There is such a folder, a file cannot be read or written, the model or its tokenizer has something that is not converted
/// yet, or `watch` said stop.
pub fn to_folder(
    from: &Path,
    to: &Path,
    dtype: Option<DType>,
    watch: &mut Watch<'_>,
) -> Result<Report, Error> {
    if to.exists() {
        return Err(Error::unlike(to, "is there already; name another folder, or remove it"));
    }
    let source = Gguf::open(from)?;
    let config = config_of(&source)?;
    let family = Family::named(config.architecture).map_err(|what| Error::unlike(from, what))?;
    if source.tensor("rope_freqs.weight").is_some() {
        return Err(Error::unlike(from, "rope_freqs.weight: scaled rotations are not converted yet"));
    }
    let layer = &config.layers[0];
    let parent = to.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".leyden-convert-").tempdir_in(parent).map_err(|error| {
        Error::unlike(to, format!("cannot create a folder in {}: {error}", parent.display()))
    })?;
    let (document, settings, rule) = tokenizer::of_gguf(source.metadata(), from)?;
    let mut tensors = Vec::new();
    let mut bytes = 0;
    let mut sources = Vec::new();
    for (gguf, name) in names(config.layers.len()) {
        let Some(view) = source.optional(&gguf)? else { continue };
        let kept = match view.dtype() {
            kept @ (DType::F32 | DType::F16 | DType::BF16) => kept,
            _ => DType::F16,
        };
        // Vectors follow the matrices.
        let to = dtype.unwrap_or(if view.shape().len() > 1 { kept } else { DType::F32 });
        let size = to.row_bytes(view.cols()).unwrap_or(0) * view.rows();
        tensors.push((name, to, view.shape().to_vec(), size));
        sources.push(gguf);
        bytes += size;
    }
    if let Some(other) = source.tensor_names().into_iter().find(|name| !sources.iter().any(|s| s == name)) {
        return Err(Error::unlike(from, format!("{other}: has no name in a folder here")));
    }
    let matrices = tensors.iter().find(|(name, ..)| name.ends_with("o_proj.weight")).map(|t| t.1);
    let mut writer = Writer::create(&made.path().join("model.safetensors"), &tensors)?;
    let mut done = 0;
    for (gguf, (_, to, ..)) in sources.iter().zip(&tensors) {
        let view = source.require(gguf)?;
        let mut values = cast(&view, *to);
        let heads = [("attn_q.", layer.heads), ("attn_k.", layer.kv_heads)];
        if let Some((_, heads)) = heads.iter().find(|(part, _)| family.interleaved && gguf.contains(part)) {
            values = heads_reordered(&view, &values, [*heads, layer.head_dim], false)
                .map_err(|what| Error::unlike(from, what))?;
        }
        source.advise_dontneed(gguf, 0..view.bytes().len());
        writer.write(&values)?;
        done += values.len();
        if watch(done, bytes).is_break() {
            return Err(Error::Stopped);
        }
    }
    writer.finish()?;
    source.check_intact()?;
    let tokens = leyden_text::from_gguf(source.metadata(), &from.display().to_string())?;
    let has = |name: &str| sources.iter().any(|gguf| gguf == name);
    let mut description = json!({
        "architectures": [family.class],
        "model_type": family.model_type,
        "hidden_size": config.width,
        "intermediate_size": layer.ffn,
        "num_hidden_layers": config.layers.len(),
        "num_attention_heads": layer.heads,
        "num_key_value_heads": layer.kv_heads,
        "head_dim": layer.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shortest(config.norm.eps),
        "max_position_embeddings": config.context,
        "vocab_size": source.require("token_embd.weight")?.rows(),
        "tie_word_embeddings": !has("output.weight"),
        "bos_token_id": tokens.bos(),
        "eos_token_id": tokens.eos(),
        "torch_dtype": match matrices {
            Some(DType::F32) => "float32",
            Some(DType::BF16) => "bfloat16",
            _ => "float16",
        },
    });
    if let Some(rope) = &layer.rope {
        description["rope_theta"] = json!(shortest(rope.base));
        if let leyden_models::RopeScaling::Linear { factor } = rope.scaling {
            description["rope_scaling"] = json!({ "rope_type": "linear", "factor": shortest(factor) });
        }
    }
    for (key, tensor) in family.biases {
        description[*key] = json!(has(tensor));
    }
    let write = |name: &str, value: &Json| {
        let path = made.path().join(name);
        let text = serde_json::to_vec_pretty(value).map_err(|error| Error::unlike(&path, error))?;
        std::fs::write(&path, text).map_err(|error| Error::unlike(&path, format!("cannot write: {error}")))
    };
    write("config.json", &description)?;
    write("tokenizer.json", &document)?;
    write("tokenizer_config.json", &settings)?;
    write("generation_config.json", &json!({ "bos_token_id": tokens.bos(), "eos_token_id": tokens.eos() }))?;
    let template = settings.get("chat_template").and_then(Json::as_str);
    if let Some(template) = template {
        let path = made.path().join("chat_template.jinja");
        std::fs::write(&path, template)
            .map_err(|error| Error::unlike(&path, format!("cannot write: {error}")))?;
    }
    // What was written is read before it gets its name.
    let folder = HfFolder::open(made.path())?;
    if !tokenizer::same(&folder, source.metadata(), from)? {
        return Err(Error::unlike(from, format!("tokenizer.ggml.pre: {rule}: texts would be cut otherwise")));
    }
    let mut read = leyden_models::config_of_json(folder.config())?;
    for (read, layer) in read.layers.iter_mut().zip(&config.layers) {
        // The rows are in the order that goes with the folder's pairs.
        if let (Some(read), Some(rope)) = (&mut read.rope, &layer.rope) {
            read.pairs = rope.pairs;
        }
    }
    if read != config {
        return Err(Error::unlike(
            from,
            "config.json has no key for something that this model's metadata says",
        ));
    }
    leyden_models::HfModel::new(folder)?;
    let failed =
        |error: std::io::Error| Error::unlike(to, format!("cannot rename the finished folder: {error}"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(made.path(), std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    std::fs::rename(made.path(), to).map_err(failed)?;
    // There is nothing under the temporary name any more.
    let _ = made.keep();
    Ok(Report { tensors: tensors.len(), bytes, rule, template: template.is_some(), note: None })
}

/// A float as its shortest decimal, which is what people wrote: 1e-5 and not 0.000009999999747378752.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
