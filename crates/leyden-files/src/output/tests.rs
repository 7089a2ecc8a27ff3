//! Outputs to every kind of path.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use super::*;
use crate::{TemporaryFolder, remove_temporaries};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn usual(path: &Path, content: &[u8]) -> io::Result<()> {
    write(path, content, OutputOptions::new())
}

#[test]
fn files_are_replaced_whole_and_keep_mode_and_owner() {
    let folder = folder();
    let path = folder.path().join("f");
    usual(&path, b"one").unwrap();
    let made = mode(&path);
    for wanted in [0o600, 0o640, 0o755, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        usual(&path, b"two").unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (wanted, b"two".to_vec()));
    }
    let plain = folder.path().join("plain");
    fs::write(&plain, "").unwrap();
    assert_eq!(made, mode(&plain), "a new file has the mode that the user's mask gives");
    // Only an administrator can change a file's owner.
    if std::os::unix::fs::chown(&path, Some(7), Some(8)).is_ok() {
        usual(&path, b"three").unwrap();
        let found = path.metadata().unwrap();
        assert_eq!((found.uid(), found.gid()), (7, 8));
    }
    // An unfinished output leaves no file.
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    assert_eq!(names(folder.path()).len(), 3);
    drop(output);
    assert_eq!(names(folder.path()), ["f", "plain"]);
}

#[test]
fn links_are_followed() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("below")).unwrap();
    fs::write(at("below/real"), "old").unwrap();
    for (link, to) in [("a", "below/real"), ("b", "a"), ("dangling", "below/new")] {
        symlink(to, at(link)).unwrap();
        usual(&at(link), link.as_bytes()).unwrap();
        assert!(at(link).is_symlink());
        assert_eq!(fs::read(at(link)).unwrap(), link.as_bytes());
    }
    assert_eq!(fs::read(at("below/real")).unwrap(), b"b");
    assert_eq!(fs::read(at("below/new")).unwrap(), b"dangling");
    assert_eq!(names(&at("below")), ["new", "real"]);
    symlink("circle", at("circle")).unwrap();
    assert!(usual(&at("circle"), b"x").is_err() && at("circle").is_symlink());
    symlink("none/x", at("nowhere")).unwrap();
    assert!(usual(&at("nowhere"), b"x").is_err());
}

#[test]
fn what_is_no_file_is_never_replaced() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let error = |path: &Path| usual(path, b"x").unwrap_err().to_string();
    fs::create_dir(at("folder")).unwrap();
    assert_eq!(error(&at("folder")), "is a folder");
    let socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert_eq!(error(&at("socket")), "is a socket");
    drop(socket);
    for name in ["", "/", "..", "f/"] {
        assert_eq!(error(Path::new(name)), "is not the name of a file", "{name}");
    }
    assert!(error(&at("none/f")).starts_with("cannot create a file in the folder"));
    // Device nodes, which only an administrator can create, in a folder where they are harmless.
    let node = |name: &str, kind: &str, major: &str, minor: &str| {
        let made = Command::new("mknod").arg(at(name)).args([kind, major, minor]).status().unwrap();
        if !made.success() {
            eprintln!("skipped: devices can be made by an administrator alone");
        }
        made.success()
    };
    if node("block", "b", "7", "200") {
        assert_eq!(error(&at("block")), "is a block device");
        assert!(at("block").metadata().unwrap().file_type().is_block_device());
    }
    if node("null", "c", "1", "3") {
        // Devices may not be openable in this folder.
        let _ = usual(&at("null"), b"x");
        assert!(at("null").metadata().unwrap().file_type().is_char_device());
        let error = write(&at("null"), b"x", OutputOptions::new().files_only()).unwrap_err().to_string();
        assert!(error.starts_with("is a device or FIFO"), "{error}");
    }
    // `/dev/null` itself is opened as usual.
    usual(Path::new("/dev/null"), b"x").unwrap();
    assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
}

#[test]
fn a_fifo_gets_a_stream() {
    let folder = folder();
    let path = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = write(&path, b"x", OutputOptions::new().files_only()).unwrap_err().to_string();
    assert!(error.starts_with("is a device or FIFO"), "{error}");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut text = String::new();
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        }
    });
    let mut output = Output::create(&path).unwrap();
    assert!(output.is_stream() && output.read_back().unwrap().is_none());
    output.write_all(b"through").unwrap();
    output.finish().unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(path.metadata().unwrap().file_type().is_fifo());
    assert_eq!(names(folder.path()), ["fifo"]);
}

/// Checks that `/dev/fd/N`, a file that this process has open, is written to and not replaced.
#[test]
fn an_open_file_is_written_to_as_it_stands() {
    use std::os::fd::AsRawFd;
    let folder = folder();
    let path = folder.path().join("f");
    let file = File::create(&path).unwrap();
    let before = file.metadata().unwrap().ino();
    usual(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), b"x").unwrap();
    assert_eq!((path.metadata().unwrap().ino(), fs::read(&path).unwrap()), (before, b"x".to_vec()));
}

#[test]
fn options_are_kept() {
    let folder = folder();
    let path = folder.path().join("f");
    write(&path, b"1", OutputOptions::new().private()).unwrap();
    assert_eq!(mode(&path), 0o600);
    let new = OutputOptions::new().new_only();
    let error = write(&path, b"2", new).unwrap_err();
    assert_eq!((error.kind(), fs::read(&path).unwrap()), (io::ErrorKind::AlreadyExists, b"1".to_vec()));
    // A file that appears while the output is written is kept too.
    let late = folder.path().join("late");
    let mut output = Output::with(&late, new).unwrap();
    output.write_all(b"ours").unwrap();
    fs::write(&late, "theirs").unwrap();
    assert_eq!(output.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&late).unwrap(), b"theirs");
    write(&folder.path().join("g"), b"3", new).unwrap();
    assert_eq!(names(folder.path()), ["f", "g", "late"]);
    check(&path, OutputOptions::new()).unwrap();
    assert!(check(&folder.path().join("none/f"), OutputOptions::new()).is_err());
    assert!(check(folder.path(), OutputOptions::new()).is_err());
    assert!(!folder.path().join("h").exists() && check(&folder.path().join("h"), new).is_ok());
}

#[test]
fn a_protected_file_is_refused_to_those_whom_it_is_protected_from() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    // An administrator may write to any file.
    let may = OpenOptions::new().write(true).open(&path).is_ok();
    assert_eq!(usual(&path, b"new").is_ok(), may);
    assert_eq!(mode(&path), 0o444);
}

#[test]
fn a_folder_gets_its_name_or_goes() {
    let place = folder();
    let temporary = TemporaryFolder::create(place.path()).unwrap();
    usual(&temporary.path().join("x"), b"x").unwrap();
    drop(temporary);
    assert!(names(place.path()).is_empty());
    let taken = place.path().join("taken");
    fs::create_dir(&taken).unwrap();
    let temporary = TemporaryFolder::beside(&taken).unwrap();
    assert_eq!(temporary.rename(&taken).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(names(place.path()), ["taken"]);
}

/// Child process that ends as a signal ends the program.
#[test]
fn all_temporary_files_of_a_process_go_with_it() {
    const CHILD: &str = "LEYDEN_FILES_TEST_FOLDER";
    if let Some(place) = std::env::var_os(CHILD) {
        let place = PathBuf::from(place);
        let mut output = Output::create(&place.join("f")).unwrap();
        output.write_all(b"half").unwrap();
        let folder = TemporaryFolder::create(&place).unwrap();
        usual(&folder.path().join("x"), b"x").unwrap();
        assert_eq!(names(&place).len(), 2);
        remove_temporaries();
        std::process::exit(if names(&place).is_empty() { 0 } else { 1 });
    }
    let place = folder();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "output::tests::all_temporary_files_of_a_process_go_with_it"])
        .env(CHILD, place.path())
        .status()
        .unwrap();
    assert!(status.success());
}
