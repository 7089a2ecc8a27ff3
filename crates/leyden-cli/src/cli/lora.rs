//! Options of LoRA adapters.

use std::path::{Path, PathBuf};

use leyden::LoadOptions;

/// LoRA adapters.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Lora {
    /// LoRA adapter: a PEFT folder or a GGUF file. May be repeated; results of several adapters are added
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    lora: Vec<PathBuf>,
    /// LoRA adapter with a scale: its results are multiplied by SCALE
    #[arg(long, value_name = "FILE:SCALE", value_delimiter = ',', value_parser = scaled)]
    lora_scaled: Vec<(PathBuf, f32)>,
}

impl Lora {
    /// Adds the adapters to load options, those of `--lora` first.
    pub(super) fn of(&self, options: LoadOptions) -> LoadOptions {
        let whole = self.lora.iter().map(|path| (path.clone(), 1.0));
        let all = whole.chain(self.lora_scaled.iter().cloned());
        all.fold(options, |options, (path, scale)| options.lora(path, scale))
    }
}

/// LoRA adapters of a served model.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ServedLora {
    /// LoRA adapter: a PEFT folder or a GGUF file, for all requests; with NAME=, for requests with NAME as `model`. May
    /// be repeated
    #[arg(long, visible_alias = "lora-modules", value_name = "[NAME=]FILE", value_delimiter = ',')]
    lora: Vec<String>,
    /// LoRA adapter with a scale: its results are multiplied by SCALE
    #[arg(long, value_name = "FILE:SCALE", value_delimiter = ',', value_parser = scaled)]
    lora_scaled: Vec<(PathBuf, f32)>,
}

/// Adapter of a served model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) name: Option<String>,
    pub(super) path: PathBuf,
    /// Default scale of requests.
    pub(super) scale: f32,
}

impl ServedLora {
    /// Returns all adapters, in the order of their ids.
    pub(super) fn all(&self) -> Result<Vec<Named>, String> {
        let scaled = self.lora_scaled.iter().map(|(path, scale)| Ok(of_scale(path.clone(), *scale)));
        self.lora.iter().map(|text| named(text)).chain(scaled).collect()
    }
}

/// Parses `FILE` or `NAME=FILE`. A text that is an existing file has no name.
pub(super) fn named(text: &str) -> Result<Named, String> {
    match text.split_once('=') {
        Some((name, path)) if !Path::new(text).exists() => {
            if name.is_empty() || path.is_empty() {
                return Err(format!("`{text}`: must be NAME=FILE"));
            }
            Ok(Named { name: Some(name.to_owned()), path: PathBuf::from(path), scale: 0.0 })
        }
        _ => Ok(of_scale(PathBuf::from(text), 1.0)),
    }
}

fn of_scale(path: PathBuf, scale: f32) -> Named {
    Named { name: None, path, scale }
}

/// Parses `FILE:SCALE`.
pub(super) fn with_scale(text: &str) -> Result<Named, String> {
    scaled(text).map(|(path, scale)| of_scale(path, scale))
}

/// Returns the maximum of bytes that an adapter takes in memory: twice its file size.
///
/// # Errors
/// There is no such file or folder.
pub(super) fn memory_bytes(path: &Path) -> Result<u64, String> {
    let weights = ["adapter_model.safetensors", "adapter_model.bin"].map(|name| path.join(name));
    let file = if path.is_dir() { weights.iter().find(|file| file.exists()) } else { None };
    let file = file.map_or(path, PathBuf::as_path);
    let size = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    Ok(size.saturating_mul(2))
}

fn scaled(text: &str) -> Result<(PathBuf, f32), String> {
    let (path, scale) = text.rsplit_once(':').ok_or("must be FILE:SCALE")?;
    let finite = scale.parse::<f32>().ok().filter(|scale| scale.is_finite());
    let scale = finite.ok_or_else(|| format!("`{scale}` is not a number"))?;
    if path.is_empty() { Err("the file is missing".to_owned()) } else { Ok((PathBuf::from(path), scale)) }
}

#[cfg(test)]
mod tests {
    use super::{Named, named, scaled};
    use std::path::PathBuf;

    #[test]
    fn a_name_stands_before_the_file() {
        let pirate = Named { name: Some("pirate".to_owned()), path: PathBuf::from("a/b"), scale: 0.0 };
        assert_eq!(named("pirate=a/b"), Ok(pirate));
        assert_eq!(named("a/b"), Ok(Named { name: None, path: PathBuf::from("a/b"), scale: 1.0 }));
        assert!(named("=a").is_err() && named("a=").is_err());
    }

    #[test]
    fn the_scale_is_behind_the_last_colon() {
        assert_eq!(scaled("a.gguf:0.5"), Ok((PathBuf::from("a.gguf"), 0.5)));
        assert_eq!(scaled("c:/a:-1"), Ok((PathBuf::from("c:/a"), -1.0)));
        for wrong in ["a.gguf", "a.gguf:", "a.gguf:x", ":1", "a:inf", "a:nan"] {
            assert!(scaled(wrong).is_err(), "{wrong}");
        }
    }
}
