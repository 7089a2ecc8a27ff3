//! Conversion of a Hugging Face folder to a GGUF file.

use crate::error::Error;
use crate::files;
use crate::templates;
use crate::tokenizer::{self, Described};
use crate::{Report, Watch};
use leyden_models::{HfModel, ToGguf, config_of};
use leyden_tensor::{DType, Gguf, GgufWriter, HfFolder, Value, WeightSource};
use std::io::Write;
use std::path::Path;

/// Writes the model of a folder as a GGUF file. F32, F16 and BF16 matrices keep their type, others become F16; with
/// `dtype` all get that type. `to` is the complete new file, read back and compared, or the file that was there
/// before.
///
/// # Errors
/// The architecture is not converted, a file cannot be read or written, the model or its tokenizer cannot be
/// expressed in GGUF, or `watch` asked to stop.
pub fn to_gguf(from: &Path, to: &Path, dtype: Option<DType>, watch: &mut Watch<'_>) -> Result<Report, Error> {
    let model = HfModel::new(HfFolder::open(from)?)?;
    let made = ToGguf::new(&model)?;
    let rows = model.require("token_embd.weight")?.rows();
    let whole = made.needs_folder_files();
    let Described { mut entries, rule, note } = match whole {
        true => tokenizer::beside_files(model.folder(), rows)?,
        false => tokenizer::of_folder(model.folder(), rows)?,
    };
    if whole {
        entries.extend(files::of_folder(model.folder())?.entries(model.folder().config()));
    }
    let mut writer = GgufWriter::new();
    let name = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let name =
        name.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned());
    for (key, value) in made.entries() {
        writer.set(key, value.clone());
    }
    writer.set("general.type", Value::from("model")).set("general.name", Value::from(&name[..]));
    let types: Vec<DType> = made.tensors().iter().map(|tensor| tensor.written_as(dtype)).collect();
    let all = || made.tensors().iter().zip(&types);
    let of = |(tensor, to): (&leyden_models::GgufTensor, &DType)| {
        let rows = tensor.shape.iter().rev().skip(1).product::<usize>();
        to.row_bytes(tensor.shape.last().copied().unwrap_or(1)).unwrap_or(0) * rows
    };
    let bytes: usize = all().map(of).sum();
    // Type of most matrices.
    let main = all().find(|(tensor, _)| tensor.name.ends_with("attn_output.weight")).map(|(_, to)| *to);
    writer.set(
        "general.file_type",
        Value::U32(match main {
            Some(DType::F32) => 0,
            Some(DType::BF16) => 32,
            _ => 1,
        }),
    );
    writer.set("general.quantization_version", Value::U32(2));
    for (key, value) in entries {
        writer.set(&key, value);
    }
    let templates = templates::to_gguf(model.folder())?;
    let template = templates.iter().any(|(key, _)| key == templates::KEY);
    for (key, value) in templates {
        writer.set(&key, value);
    }
    for (tensor, to) in all() {
        writer.announce_tensor(&tensor.name, *to, &tensor.shape)?;
    }
    let (mut done, mut next, target) = (0, all(), to);
    writer.write_made_to(to, &mut |_, out: &mut dyn Write| -> Result<(), Error> {
        let Some((tensor, to)) = next.next() else { return Err(Error::Stopped) };
        let values = made.values(tensor, *to)?;
        out.write_all(&values).map_err(|error| Error::unlike(target, format!("cannot write: {error}")))?;
        done += values.len();
        if watch(done, bytes).is_break() { Err(Error::Stopped) } else { Ok(()) }
    })?;
    model.check_intact()?;
    if whole {
        // Read back as a user of the file reads it.
        config_of(&Gguf::open(to)?)?;
    }
    Ok(Report { tensors: types.len(), bytes, rule, template, note })
}
