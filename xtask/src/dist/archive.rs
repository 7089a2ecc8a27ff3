//! Archives: tar in gzip, with owners, times and order that follow from the content.

use std::collections::BTreeSet;
use std::io::Write;

use flate2::{Compression, GzBuilder};

use super::tree::Item;

/// Returns a `.tar.gz` of these files, with entries for their folders.
pub(super) fn tar_gz(items: &[Item], time: u64) -> Result<Vec<u8>, String> {
    // The best level takes far longer, and gains a hundredth.
    packed(&tar(items, time).map_err(|error| format!("tar: {error}"))?, Compression::default())
}

/// Returns a page in gzip, without a name or time, as small as it gets.
pub(super) fn gz(bytes: &[u8]) -> Result<Vec<u8>, String> {
    packed(bytes, Compression::best())
}

fn packed(bytes: &[u8], level: Compression) -> Result<Vec<u8>, String> {
    let mut packed = GzBuilder::new().write(Vec::new(), level);
    packed.write_all(bytes).and_then(|()| packed.finish()).map_err(|error| format!("gzip: {error}"))
}

fn tar(items: &[Item], time: u64) -> std::io::Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut known = BTreeSet::new();
    for item in items {
        let folders = item.path.match_indices('/').map(|(at, _)| &item.path[..=at]);
        for folder in folders.filter(|folder| *folder != "./") {
            if known.insert(folder.to_owned()) {
                let mut header = header(tar::EntryType::Directory, 0o755, 0, time);
                builder.append_data(&mut header, folder, std::io::empty())?;
            }
        }
        let mode = if item.is_program { 0o755 } else { 0o644 };
        let mut header = header(tar::EntryType::Regular, mode, item.bytes.len() as u64, time);
        builder.append_data(&mut header, &item.path, &item.bytes[..])?;
    }
    builder.into_inner()
}

/// User of the container image, as in its Dockerfile.
const IMAGE_USER: u64 = 65532;

/// Returns the folders of the container image to which its user may write, as a tar archive: no command runs in the image that
/// could make them.
pub(super) fn volumes(time: u64) -> Result<Vec<u8>, String> {
    let mut builder = tar::Builder::new(Vec::new());
    for folder in ["models/", "cache/"] {
        let mut header = header(tar::EntryType::Directory, 0o755, 0, time);
        header.set_uid(IMAGE_USER);
        header.set_gid(IMAGE_USER);
        let named = header.set_username("").and_then(|()| header.set_groupname(""));
        named
            .and_then(|()| builder.append_data(&mut header, folder, std::io::empty()))
            .map_err(|e| format!("tar: {e}"))?;
    }
    builder.into_inner().map_err(|error| format!("tar: {error}"))
}

fn header(kind: tar::EntryType, mode: u32, bytes: u64, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    // The names are those that dpkg expects.
    let _ = header.set_username("root").and_then(|()| header.set_groupname("root"));
    header
}
