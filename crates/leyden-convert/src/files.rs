//! Settings files of a folder as texts, for GGUF files that have them beside GGUF's own keys.

use crate::error::Error;
use leyden_files::OutputOptions;
use leyden_tensor::{FolderFiles, HfFile, HfFolder};
use serde_json::Value as Json;
use std::path::Path;

/// Maximum size of a file in bytes: the largest vocabularies take some 40 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Reads the settings files of a folder.
pub(crate) fn of_folder(folder: &HfFolder) -> Result<FolderFiles, Error> {
    let mut names: Vec<String> = HfFolder::settings_names().map(str::to_owned).collect();
    if let Some(list) = folder.read(HfFile::Modules)? {
        let path = folder.path().join(HfFile::Modules.name());
        let list: Json = serde_json::from_slice(&list).map_err(|error| Error::unlike(&path, error))?;
        let paths = list.as_array().into_iter().flatten().filter_map(|module| module["path"].as_str());
        let configs = paths.filter(|path| !path.is_empty()).map(|path| format!("{path}/config.json"));
        names.extend(configs.filter(|name| name != HfFile::Pooling.name()));
    }
    let mut all = Vec::new();
    for name in names {
        let path = folder.path().join(&name);
        let Ok(found) = std::fs::metadata(&path) else { continue };
        if !found.is_file() || found.len() > MAX_BYTES {
            return Err(Error::unlike(&path, format!("is no file of at most {MAX_BYTES} bytes")));
        }
        let text =
            std::fs::read(&path).map_err(|error| Error::unlike(&path, format!("cannot read: {error}")))?;
        let text = String::from_utf8(text).map_err(|_| Error::unlike(&path, "is not valid UTF-8"))?;
        all.push((name, text));
    }
    Ok(FolderFiles::new(all))
}

/// Writes the files into a folder.
pub(crate) fn write(files: &FolderFiles, to: &Path) -> Result<(), Error> {
    for (name, text) in files.iter() {
        // Names from a downloaded file must not lead out of the folder.
        let inside = |part: &str| {
            !part.starts_with('.') && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if name.is_empty()
            || name.split('/').count() > 2
            || !name.split('/').all(|part| !part.is_empty() && inside(part))
        {
            return Err(Error::unlike(
                to,
                format!("leyden.folder.names: `{}` is no name of a file", name.escape_default()),
            ));
        }
        let path = to.join(name);
        let failed = |error: std::io::Error| Error::unlike(&path, format!("cannot write: {error}"));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        leyden_files::write(&path, text.as_bytes(), OutputOptions::new().files_only()).map_err(failed)?;
    }
    Ok(())
}
