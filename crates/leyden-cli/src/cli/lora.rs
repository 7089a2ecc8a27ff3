//! The options of commands that load a model with adapters.

use std::path::PathBuf;

use leyden::LoadOptions;

/// LoRA adapters.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Lora {
    /// LoRA adapter: a folder of PEFT, or a GGUF file. May be repeated; several are added up
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    lora: Vec<PathBuf>,
    /// The same with a number that its results are multiplied by
    #[arg(long, value_name = "FILE:SCALE", value_delimiter = ',', value_parser = scaled)]
    lora_scaled: Vec<(PathBuf, f32)>,
}

impl Lora {
    /// The options for a model with these adapters: those of `--lora` first.
    pub(super) fn of(&self, options: LoadOptions) -> LoadOptions {
        let whole = self.lora.iter().map(|path| (path.clone(), 1.0));
        let all = whole.chain(self.lora_scaled.iter().cloned());
        all.fold(options, |options, (path, scale)| options.lora(path, scale))
    }
}

fn scaled(text: &str) -> Result<(PathBuf, f32), String> {
    let (path, scale) = text.rsplit_once(':').ok_or("want FILE:SCALE")?;
    let finite = scale.parse::<f32>().ok().filter(|scale| scale.is_finite());
    let scale = finite.ok_or_else(|| format!("`{scale}` is not a number"))?;
    if path.is_empty() { Err("the file is missing".to_owned()) } else { Ok((PathBuf::from(path), scale)) }
}

#[cfg(test)]
mod tests {
    use super::scaled;
    use std::path::PathBuf;

    #[test]
    fn the_scale_is_behind_the_last_colon() {
        assert_eq!(scaled("a.gguf:0.5"), Ok((PathBuf::from("a.gguf"), 0.5)));
        assert_eq!(scaled("c:/a:-1"), Ok((PathBuf::from("c:/a"), -1.0)));
        for wrong in ["a.gguf", "a.gguf:", "a.gguf:x", ":1", "a:inf", "a:nan"] {
            assert!(scaled(wrong).is_err(), "{wrong}");
        }
    }
}
