//! Archives written and read: round trips, every kind of damage, and archives made by hostile software.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leyden_bundle::{
    Contents, Entry, Error, Model, Prepared, Program, Verified, unpack, verify, verify_folder,
};
use leyden_verify::{Key, Time};
use proptest::prelude::*;
use tempfile::TempDir;

const BLOCK: usize = 512;

fn heard(_: u64) -> ControlFlow<()> {
    Continue(())
}

/// Returns an entry made from the others.
fn more(files: &[(&str, &str)]) -> Vec<Entry> {
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    vec![Entry::bytes("names.txt", names.join("\n"))]
}

/// An archive with its key in a folder.
struct Place {
    folder: TempDir,
    key: Key,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap(), key: Key::generate(Time::now(), 1).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bytes(&self) -> Vec<u8> {
        let weights = self.path("m.gguf");
        fs::write(&weights, vec![7; 3 * BLOCK + 5]).unwrap();
        let entries = vec![
            Entry::bytes("bin/leyden", "#!/bin/sh\n"),
            Entry::bytes("licences/LICENSE", "Apache-2.0"),
            Entry::bytes("licences/empty", ""),
            Entry::file("models/m/m.gguf", weights, None),
        ];
        let prepared = Prepared::new(entries, &more, &contents(), &self.key, &mut heard).unwrap();
        let mut bytes = Vec::new();
        prepared.write(&mut bytes, Path::new("a.tar"), &mut heard).unwrap();
        assert_eq!(prepared.archive_bytes(), bytes.len() as u64);
        bytes
    }

    fn verify(&self, bytes: &[u8]) -> Result<Verified, String> {
        let path = self.path("a.tar");
        fs::write(&path, bytes).unwrap();
        verify(&path, Some(&self.key), &mut heard).map_err(|error| error.to_string())
    }
}

fn contents() -> Contents {
    let program =
        Program { file: "bin/leyden".to_owned(), version: "1".to_owned(), target: "x86_64-linux".to_owned() };
    let model = Model {
        name: "m".to_owned(),
        folder: "models/m".to_owned(),
        main: Some("m.gguf".to_owned()),
        hub: None,
        defaults: None,
        licence: None,
        evidence: None,
        calibrations: Vec::new(),
    };
    Contents::new(Some(program), vec![model])
}

/// Returns the entries of an archive: name, first byte of the header, and first byte behind the entry.
fn entries(bytes: &[u8]) -> Vec<(String, usize, usize)> {
    let (mut at, mut all) = (0, Vec::new());
    while bytes[at..at + BLOCK].iter().any(|byte| *byte != 0) {
        let header = tar::Header::from_byte_slice(&bytes[at..at + BLOCK]);
        let size = usize::try_from(header.entry_size().unwrap()).unwrap();
        let end = at + BLOCK + size.next_multiple_of(BLOCK);
        all.push((header.path().unwrap().display().to_string(), at, end));
        at = end;
    }
    all
}

#[test]
fn a_bundle_survives_its_archive() {
    let place = Place::new();
    let bytes = place.bytes();
    assert!(bytes == place.bytes(), "the same files and the same key make the same bytes");
    let names: Vec<String> = entries(&bytes).into_iter().map(|(name, ..)| name).collect();
    let wanted = [
        "bundle.sig",
        "README.txt",
        "SHA256SUMS",
        "bin/leyden",
        "bundle.json",
        "key.pem",
        "licences/LICENSE",
        "licences/empty",
        "models/m/m.gguf",
        "names.txt",
    ];
    assert_eq!(names, wanted);
    let verified = place.verify(&bytes).unwrap();
    assert_eq!((verified.key.clone(), &verified.contents), (place.key.id(), &contents()));
    let files: Vec<_> = verified.files_below("models/m").collect();
    assert_eq!((files.len(), files[0].0, files[0].1), (1, "m.gguf", 3 * 512 + 5));
    let to = place.path("out");
    fs::create_dir(&to).unwrap();
    unpack(&place.path("a.tar"), Some(&place.key), &to, &mut heard).unwrap();
    assert_eq!(fs::read(to.join("models/m/m.gguf")).unwrap(), vec![7; 3 * BLOCK + 5]);
    use std::os::unix::fs::PermissionsExt;
    let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o111;
    assert_eq!((mode("bin/leyden") != 0, mode("licences/LICENSE")), (true, 0));
    // A file in the place of another one is never replaced.
    let again = unpack(&place.path("a.tar"), Some(&place.key), &to, &mut heard).unwrap_err().to_string();
    assert!(again.contains("bundle.sig: cannot write"), "{again}");
    let stopped = verify(&place.path("a.tar"), Some(&place.key), &mut |_| Break(())).unwrap_err();
    assert!(matches!(stopped, Error::Stopped));
}

#[test]
fn every_flipped_byte_is_found() {
    let place = Place::new();
    let bytes = place.bytes();
    let regions = entries(&bytes);
    place.verify(&bytes).unwrap();
    let path = place.path("a.tar");
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    let mut set = |i: usize, byte: u8| {
        file.seek(SeekFrom::Start(i as u64)).unwrap();
        file.write_all(&[byte]).unwrap();
    };
    // Every byte but one in seven of contents: those are alike. The envelope's are tested one by one beside its code.
    let is_header = |i: usize| regions.iter().any(|(_, at, _)| (*at..at + BLOCK).contains(&i));
    for i in (0..bytes.len()).filter(|i| is_header(*i) || i % 7 == 0) {
        set(i, bytes[i] ^ (1 << (i / 7 % 8)));
        let error = verify(&path, Some(&place.key), &mut heard).map_err(|error| error.to_string());
        let error = error.expect_err(&format!("byte {i}"));
        set(i, bytes[i]);
        // Content is found in its own entry.
        let region =
            regions.iter().find(|(name, at, end)| (at + BLOCK..*end).contains(&i) && name != "bundle.sig");
        if let Some((name, ..)) = region {
            assert!(error.contains(name.as_str()), "byte {i} of {name}: {error}");
        }
    }
}

#[test]
fn truncated_and_longer_archives_are_refused() {
    let place = Place::new();
    let bytes = place.bytes();
    for n in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        let error = place.verify(&bytes[..n]).expect_err(&format!("{n} bytes"));
        assert!(error.contains("truncated") || error.contains("ends before"), "{n} bytes: {error}");
    }
    for more in [&[0][..], &[1], &[0; BLOCK]] {
        let error = place.verify(&[&bytes[..], more].concat()).unwrap_err();
        assert!(error.contains("more behind the end"), "{error}");
    }
    for other in [&b""[..], b"x", &[0; 4096], &[0xff; 4096]] {
        assert!(place.verify(other).is_err());
    }
}

#[test]
fn missing_doubled_moved_and_added_entries_are_named() {
    let place = Place::new();
    let bytes = place.bytes();
    let all = entries(&bytes);
    let part = |i: usize| &bytes[all[i].1..all[i].2];
    let end = [0; 2 * BLOCK];
    let joined = |order: &[usize]| {
        let parts: Vec<&[u8]> = order.iter().map(|i| part(*i)).chain([&end[..]]).collect();
        place.verify(&parts.concat()).unwrap_err()
    };
    for (order, wanted) in [
        (&[1, 2, 3, 4, 5, 6, 7, 8, 9][..], "does not begin with bundle.sig"),
        (&[0, 1, 2, 4, 5, 6, 7, 8, 9], "bin/leyden: it is missing"),
        (&[0, 1, 2, 3, 4, 5, 6, 7, 8], "names.txt: it is missing"),
        (&[0, 1, 2, 3, 4, 5, 6, 7, 9], "models/m/m.gguf: it is missing"),
        (&[0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9], "bin/leyden: it is there twice"),
        (&[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "bundle.sig: it is there twice"),
        (&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9], "names.txt: it is there twice"),
        (&[0, 2, 1, 3, 4, 5, 6, 7, 8, 9], "README.txt: it is missing"),
    ] {
        let error = joined(order);
        assert!(error.contains(wanted), "{order:?}: {error}");
    }
    type Change = fn(&mut tar::Header);
    let changes: &[(Change, &str)] = &[
        (|header| header.set_path("models/m/other").unwrap(), "models/m/other: it is not in the signed list"),
        (
            |header| header.as_old_mut().name[..5].copy_from_slice(b"../x\0"),
            "../x: it is not in the signed list; it leads out",
        ),
        (
            |header| header.as_old_mut().name[..5].copy_from_slice(b"/etc\0"),
            "/etc: it is not in the signed list; it is an absolute",
        ),
        (
            |header| {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_link_name("/etc/passwd").unwrap();
            },
            "a symbolic link",
        ),
        (|header| header.set_entry_type(tar::EntryType::Link), "a hard link"),
        (|header| header.set_entry_type(tar::EntryType::Directory), "a folder"),
        (|header| header.set_entry_type(tar::EntryType::Char), "a device"),
        (|header| header.set_entry_type(tar::EntryType::XHeader), "an extended header"),
        (|header| header.set_mode(0o4755), "other fields"),
        (|header| header.set_uid(1), "other fields"),
        (|header| header.set_size(1 << 50), "truncated"),
        (|header| header.set_size(0), "sha256"),
    ];
    let add = |block: &[u8], change: Change| {
        let mut header = tar::Header::from_byte_slice(block).clone();
        change(&mut header);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let (_, at, until) = all[8].clone();
    for (change, wanted) in changes {
        let block = add(&bytes[at..at + BLOCK], *change);
        let error = place.verify(&[&bytes[..at], &block, &bytes[at + BLOCK..]].concat()).unwrap_err();
        assert!(error.contains(wanted), "{wanted}: {error}");
        // The same behind the last entry.
        let error = place.verify(&[&bytes[..until], &block, &bytes[at + BLOCK..]].concat()).unwrap_err();
        assert!(!error.is_empty() && !error.contains("panicked"), "{error}");
    }
}

#[test]
fn the_key_decides() {
    let place = Place::new();
    let bytes = place.bytes();
    place.verify(&bytes).unwrap();
    let other = Key::generate(Time::now(), 1).unwrap();
    let path = place.path("a.tar");
    let error = verify(&path, Some(&other), &mut heard).unwrap_err().to_string();
    assert!(error.contains("bundle.sig: signed with the key"), "{error}");
    assert_eq!(verify(&path, None, &mut heard).unwrap().key, place.key.id());
    let public = Key::of_id(&place.key.id()).unwrap();
    verify(&path, Some(&public), &mut heard).unwrap();
    let error = Prepared::new(Vec::new(), &more, &contents(), &public, &mut heard).unwrap_err().to_string();
    assert!(error.contains("signs nothing"), "{error}");
}

#[test]
fn what_cannot_be_written_is_refused() {
    let place = Place::new();
    let prepare = |entries| Prepared::new(entries, &more, &contents(), &place.key, &mut heard).map(drop);
    for (name, wanted) in [
        ("../a", "leads out"),
        ("bundle.sig", "its own checksum"),
        ("README.txt", "twice"),
        ("README.txt/a", "a file and a folder"),
        ("a b", "only letters"),
    ] {
        let error = prepare(vec![Entry::bytes(name, "x")]).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    for missing in ["none", "."] {
        let error = prepare(vec![Entry::file("a", place.path(missing), None)]).unwrap_err().to_string();
        assert!(error.contains("cannot read") || error.contains("not a regular file"), "{error}");
    }
    // A file that changes between its checksum and its copy, in place or in length.
    let file = place.path("file");
    for (known, later) in [(None, "ab"), (None, "xbc"), (None, "abcd"), (Some("0".repeat(64)), "abc")] {
        fs::write(&file, "abc").unwrap();
        let entries = vec![Entry::file("a", &file, known), Entry::bytes("bin/leyden", "")];
        let prepared =
            Prepared::new(entries, &more, &Contents::new(None, Vec::new()), &place.key, &mut heard).unwrap();
        fs::write(&file, later).unwrap();
        let error = prepared.write(&mut Vec::new(), Path::new("a.tar"), &mut heard).unwrap_err().to_string();
        assert!(error.contains("file: it has changed since"), "{later}: {error}");
    }
}

/// `tar` unpacks it, and what it unpacks is verified; so are changes of the folder.
#[test]
fn an_unpacked_folder_is_verified() {
    let place = Place::new();
    fs::write(place.path("a.tar"), place.bytes()).unwrap();
    let to = place.path("out");
    let again = || {
        let _ = fs::remove_dir_all(&to);
        fs::create_dir(&to).unwrap();
        let done =
            Command::new("tar").arg("-xf").arg(place.path("a.tar")).arg("-C").arg(&to).status().unwrap();
        assert!(done.success());
    };
    let check = || verify_folder(&to, Some(&place.key), &mut heard).map_err(|error| error.to_string());
    again();
    assert_eq!(check().unwrap().contents, contents());
    let changes: &[(&dyn Fn(), &str)] = &[
        (&|| fs::write(to.join("licences/LICENSE"), "MIT").unwrap(), "licences/LICENSE: sha256"),
        (&|| fs::remove_file(to.join("key.pem")).unwrap(), "key.pem: it is missing"),
        (&|| fs::write(to.join("models/m/more"), "").unwrap(), "models/m/more: it is not in the signed list"),
        (&|| fs::write(to.join(".hidden"), "").unwrap(), ".hidden: it is not in the signed list"),
        (&|| fs::remove_file(to.join("bundle.sig")).unwrap(), "there is no bundle.sig"),
        (&|| fs::write(to.join("bundle.sig"), "{}").unwrap(), "bundle.sig: no /dsseEnvelope"),
        (
            &|| {
                fs::remove_file(to.join("bin/leyden")).unwrap();
                std::os::unix::fs::symlink("/bin/sh", to.join("bin/leyden")).unwrap();
            },
            "bin/leyden: it is a symbolic link",
        ),
        (
            &|| std::os::unix::fs::symlink("/", to.join("models/root")).unwrap(),
            "models/root: it is a symbolic link",
        ),
    ];
    for (change, wanted) in changes {
        again();
        change();
        let error = check().unwrap_err();
        assert!(error.contains(wanted), "{error}");
    }
}

/// The commands of `README.txt` accept the bundle and find changes, with no program of ours.
#[test]
fn the_first_verification_needs_common_tools_alone() {
    let place = Place::new();
    fs::write(place.path("a.tar"), place.bytes()).unwrap();
    let to = place.path("unpacked/here");
    let again = || {
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).unwrap();
        let done =
            Command::new("tar").arg("-xf").arg(place.path("a.tar")).arg("-C").arg(&to).status().unwrap();
        assert!(done.success());
    };
    again();
    let readme = fs::read_to_string(to.join("README.txt")).unwrap();
    let begin = readme.find("1. The key.").unwrap();
    let script: String = readme[begin..readme.find("THEN INSTALL").unwrap()]
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect();
    let run = || {
        let mut shell = Command::new("sh");
        shell.current_dir(&to).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let output = shell.wait_with_output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let good = run();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(lines[..3], [&place.key.id()[..], "Signature Verified Successfully", "1"], "{good}");
    assert!(lines[3..].len() == 8 && lines[3..].iter().all(|line| line.ends_with(": OK")), "{good}");
    let changed = |name: &str, from: &str, to_text: &str| {
        again();
        let path = to.join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name}");
        fs::write(&path, text.replacen(from, to_text, 1)).unwrap();
        run()
    };
    assert!(changed("licences/LICENSE", "Apache", "apache").contains("licences/LICENSE: FAILED"));
    assert!(
        changed("bundle.sig", "\"payload\":\"e", "\"payload\":\"f")
            .contains("Signature Verification Failure")
    );
    let sums = changed("SHA256SUMS", "licences/empty", "licences/EMPTY");
    assert_eq!(sums.lines().nth(2), Some("0"), "{sums}");
    again();
    fs::write(to.join("models/more"), "").unwrap();
    std::os::unix::fs::symlink("/", to.join("root")).unwrap();
    let more = run();
    assert!(more.contains("./root") && more.lines().last().unwrap().ends_with("models/more"), "{more}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Arbitrary damage never panics, and is never taken for the bundle.
    #[test]
    fn arbitrary_damage_is_an_error(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let place = Place::new();
        let bytes = place.bytes();
        let mut changed = bytes.clone();
        for (at, value) in &changes {
            changed[at.index(bytes.len())] = *value;
        }
        prop_assert_eq!(place.verify(&changed).is_ok(), changed == bytes);
    }
}
