//! [`verify_folder`]: a bundle that was unpacked by other programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leyden_verify::Key;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hash::hex;
use crate::names;
use crate::read::{MAX_CONTENTS_BYTES, MAX_SIGNATURE_BYTES, Verified, described};
use crate::statement::Statement;
use crate::write::{Heard, copy, open};

/// Maximum number of files and folders in a folder.
const MAX_FILES: usize = 200_000;

/// Verifies an unpacked bundle like [`verify`](crate::verify). Modes and times are not compared.
///
/// # Errors
/// The first file that is not as signed, missing or in excess, or an error of the system.
pub fn verify_folder(folder: &Path, key: Option<&Key>, heard: Heard<'_>) -> Result<Verified> {
    let mut found = BTreeMap::new();
    list(folder, folder, "", &mut found)?;
    let failed = |name: &str, what: &str| Error::entry(folder, name, what);
    if found.remove(names::SIGNATURE).is_none() {
        return Err(Error::bundle(folder, format!("not a bundle: there is no {}", names::SIGNATURE)));
    }
    let signature = small(&folder.join(names::SIGNATURE), MAX_SIGNATURE_BYTES, heard)?;
    let (statement, key) = Statement::open(&signature, key).map_err(|why| failed(names::SIGNATURE, &why))?;
    let (mut files, mut contents) = (Vec::new(), None);
    for resource in &statement.resources {
        let name = &resource.name[..];
        if found.remove(name).is_none() {
            return Err(failed(name, "it is missing"));
        }
        let path = folder.join(name);
        let (mut file, _) = open(&path)?;
        let mut hasher = Sha256::new();
        let bytes = copy(&mut file, &path, u64::MAX, heard, &mut |part| {
            hasher.update(part);
            Ok(())
        })?;
        let sum = hex(&hasher.finalize());
        if sum != resource.sha256 {
            return Err(failed(name, &format!("sha256 {sum}, not {}", resource.sha256)));
        }
        if name == names::CONTENTS {
            contents = Some(small(&path, MAX_CONTENTS_BYTES, heard)?);
        }
        files.push((resource.clone(), bytes));
    }
    if let Some((name, ())) = found.pop_first() {
        return Err(failed(&name, "it is not in the signed list"));
    }
    let contents = described(folder, &statement, contents.as_deref())?;
    Ok(Verified { key: key.id(), contents, files })
}

fn small(path: &Path, most: u64, heard: Heard<'_>) -> Result<Vec<u8>> {
    let (mut file, bytes) = open(path)?;
    if bytes > most {
        return Err(Error::bundle(path, format!("it has {bytes} bytes; {most} are the most")));
    }
    let mut content = Vec::new();
    copy(&mut file, path, most, heard, &mut |part| {
        content.extend_from_slice(part);
        Ok(())
    })?;
    Ok(content)
}

/// Lists all files below a folder, by their names in the bundle.
fn list(root: &Path, folder: &Path, below: &str, found: &mut BTreeMap<String, ()>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read the folder", folder))? {
        let entry = entry.map_err(Error::io("read the folder", folder))?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(Error::io("examine", &entry.path()))?;
        if kind.is_symlink() {
            return Err(Error::entry(
                root,
                &name,
                "it is a symbolic link, and a bundle has plain files alone",
            ));
        }
        if !kind.is_dir() && !kind.is_file() {
            return Err(Error::entry(root, &name, "it is no plain file"));
        }
        // A folder that is too deep is not listed in any statement.
        if kind.is_dir() {
            names::check_name(&name).map_err(|why| Error::entry(root, &name, why))?;
            list(root, &entry.path(), &format!("{name}/"), found)?;
        } else {
            found.insert(name, ());
        }
        if found.len() > MAX_FILES {
            return Err(Error::bundle(root, format!("more than {MAX_FILES} files")));
        }
    }
    Ok(())
}
