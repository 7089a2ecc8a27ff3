//! Temporary folders that releases until 28 November 2026 left behind when they were killed.
//!
//! These have no lock that tells whether their process lives, as those of `leyden-files` have. A conversion writes all the
//! time, so a folder into which nothing was written for a week is nobody's.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Time after the last write in which a folder stays.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Letters and digits behind the prefix.
const RANDOM_CHARS: usize = 6;

/// Removes the folders of former releases in `folder` that belong to the owner of `own` and to no running conversion. A folder
/// that cannot be read stays.
pub(crate) fn sweep(folder: &Path, own: &Metadata, now: SystemTime) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(is_former) {
            continue;
        }
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() && found.uid() == own.uid() && is_old(&entry.path(), &found, now) {
            // Nobody is told of a folder that stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns true for a name from an earlier release.
fn is_former(name: &str) -> bool {
    let random = name.strip_prefix(".leyden-convert-");
    random.is_some_and(|r| r.len() == RANDOM_CHARS && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns true if neither the folder nor a file in it was written to lately. Former releases made no folders in it.
fn is_old(path: &Path, folder: &Metadata, now: SystemTime) -> bool {
    let old = |metadata: &Metadata| {
        metadata.modified().ok().and_then(|at| now.duration_since(at).ok()).is_some_and(|age| age > KEPT)
    };
    let Ok(entries) = fs::read_dir(path) else { return false };
    let file = |entry: std::io::Result<fs::DirEntry>| {
        entry.and_then(|entry| entry.metadata()).is_ok_and(|metadata| metadata.is_file() && old(&metadata))
    };
    old(folder) && entries.into_iter().all(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_folders_of_this_name_go() {
        let place = tempfile::tempdir().unwrap();
        for name in
            [".leyden-convert-a1B2c3", ".leyden-convert-a1B2c", ".leyden-17-0.tmp", "leyden-convert-a1B2c3"]
        {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join("model.safetensors"), "x").unwrap();
        }
        fs::create_dir_all(place.path().join(".leyden-convert-folder/inner")).unwrap();
        fs::write(place.path().join(".leyden-convert-a_file"), "x").unwrap();
        std::os::unix::fs::symlink(place.path(), place.path().join(".leyden-convert-linked")).unwrap();
        let (own, now) = (place.path().metadata().unwrap(), SystemTime::now());
        let names = || {
            let all =
                fs::read_dir(place.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut all: Vec<String> = all.collect();
            all.sort();
            all
        };
        let before = names();
        sweep(place.path(), &own, now);
        sweep(place.path(), &own, now + KEPT / 2);
        assert_eq!(names(), before, "young folders stay");
        sweep(place.path(), &own, now + KEPT * 2);
        let left: Vec<String> = before.into_iter().filter(|name| name != ".leyden-convert-a1B2c3").collect();
        assert_eq!(names(), left);
    }
}
