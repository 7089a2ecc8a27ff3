//! Changes of the store over time: new commits, removal, damage.

use std::fs;
use std::path::Path;

use leyden_hub::{ErrorKind, resolve};

use crate::server::{Hub, Repository};
use crate::{Shelf, content, options};

#[test]
fn a_new_commit_replaces_the_model_and_reuses_what_is_the_same() {
    let (same, old, new) = (content(100_000, 1), content(500, 2), content(600, 3));
    let first = Repository::new(&[("model.safetensors", &same), ("config.json", &old)]);
    let mut second = Repository::new(&[("model.safetensors", &same), ("config.json", &new)]);
    second.commit = "fedcba9876543210fedcba9876543210fedcba98".to_owned();
    let shelf = Shelf::new();
    let before = shelf.pull(&options(&Hub::start(&first).api.url()), "hf:org/repo").unwrap().model;
    // Users of the old commit keep it.
    let open = fs::File::open(before.path.join("model.safetensors")).unwrap();
    let hub = Hub::start(&second);
    let after = shelf.pull(&options(&hub.api.url()), "hf:org/repo").unwrap();
    assert_eq!((after.downloaded, hub.fetched().len()), (600, 0));
    assert_eq!(fs::read(after.model.path.join("config.json")).unwrap(), new);
    assert_eq!(fs::read(after.model.path.join("model.safetensors")).unwrap(), same);
    assert!(!before.path.exists() && open.metadata().unwrap().len() == 100_000);
    assert_eq!(shelf.store().contents().unwrap().models.len(), 1);
}

#[test]
fn a_damaged_file_is_found_and_replaced() {
    let model = content(100_000, 1);
    let hub = Hub::start(&Repository::new(&[("m.gguf", &model)]));
    let (shelf, mut options) = (Shelf::new(), options(&hub.api.url()));
    let path = shelf.pull(&options, "hf:org/repo").unwrap().model.path;
    // Zeros of the right length, which a look at the folder does not detect.
    fs::write(&path, vec![0; 100_000]).unwrap();
    assert_eq!(shelf.pull(&options, "hf:org/repo").unwrap().downloaded, 100_000);
    assert_eq!(fs::read(&path).unwrap(), model);
    // A wrong length is detected at once.
    fs::write(&path, b"").unwrap();
    let error = resolve(Path::new("org/repo"), &shelf.store()).unwrap_err();
    assert!(error.to_string().contains("m.gguf has 0 bytes instead of 100000"), "{error}");
    options.offline = true;
    let error = shelf.pull(&options, "hf:org/repo").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Damaged(_)), "{error}");
}

#[test]
fn a_damaged_record_hides_nothing_else_and_is_made_anew() {
    let hub = Hub::start(&Repository::new(&[("m.gguf", &content(1000, 1))]));
    let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
    shelf.pull(&options, "hf:org/repo").unwrap();
    let record = shelf.path().join("models/hf/org/repo/models.json");
    let good = fs::read_to_string(&record).unwrap();
    let other = shelf.path().join("models/hf/org/other");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("models.json"), good.replace("\"m.gguf\"", "\"n.gguf\"")).unwrap();
    for bad in [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        good.replace("leyden.models/1", "leyden.models/2"),
        good.replace("\"m.gguf\"", "\"../../../../secret\""),
        good.replace("\"m.gguf\"", "\"/etc/passwd\""),
        good.replace("0123456789abcdef0123456789abcdef01234567", "../../.."),
    ] {
        fs::write(&record, &bad).unwrap();
        let contents = shelf.store().contents().unwrap();
        assert_eq!((contents.models.len(), contents.problems.len()), (1, 1), "{bad}");
        let error = resolve(Path::new("org/repo"), &shelf.store()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Record(_)), "{error}");
        // Downloaded files are found again by their checksums.
        assert_eq!(shelf.pull(&options, "hf:org/repo").unwrap().downloaded, 0);
        assert!(resolve(Path::new("org/repo"), &shelf.store()).is_ok());
    }
    // Or everything is removed. A secret beside the store stays.
    fs::write(shelf.path().join("secret"), "s").unwrap();
    fs::write(&record, good.replace("\"m.gguf\"", "\"../../../../../secret\"")).unwrap();
    let removed = shelf.store().remove("org/repo").unwrap();
    assert_eq!(removed.name, "org/repo");
    assert!(removed.bytes >= 1000 && !record.exists() && shelf.path().join("secret").exists());
}

#[test]
fn removal_takes_files_and_folders_and_no_more() {
    let hub = Hub::start(&Repository::new(&[
        ("a/m-Q4_0.gguf", &content(1000, 1)),
        ("a/m-Q8_0.gguf", &content(2000, 2)),
    ]));
    let (shelf, options) = (Shelf::new(), options(&hub.api.url()));
    for quant in ["Q4_0", "Q8_0"] {
        shelf.pull(&options, &format!("hf:org/repo:{quant}")).unwrap();
    }
    let store = shelf.store();
    assert!(matches!(store.remove("org/repo").unwrap_err().kind(), ErrorKind::Ambiguous { .. }));
    let removed = store.remove("hf:org/repo:Q4_0").unwrap();
    assert_eq!((removed.name.as_str(), removed.bytes), ("org/repo:a/m-Q4_0.gguf", 1000));
    assert_eq!(shelf.files().len(), 2);
    assert!(resolve(Path::new("org/repo"), &store).is_ok());
    assert_eq!(store.remove("repo").unwrap().bytes, 2000);
    assert_eq!(shelf.files(), Vec::<String>::new());
    assert!(!shelf.path().join("models/hf/org").exists());
    for name in ["org/repo", "repo", "../models", "/", "", "hf:", "hf:org/repo:Q4_0"] {
        let error = store.remove(name).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NoSuchModel { .. }), "{name}: {error}");
    }
}

#[test]
fn unfinished_downloads_are_shown_and_removed() {
    let hub = Hub::spoilt(&Repository::new(&[("m.gguf", &content(100_000, 1))]), |request, mut reply| {
        if request.path.starts_with("/cdn/") {
            reply.cut = Some(1000);
        }
        reply
    });
    let shelf = Shelf::new();
    shelf.refused(&options(&hub.api.url()), "hf:org/repo");
    let store = shelf.store();
    let unfinished = store.contents().unwrap().unfinished;
    assert_eq!((unfinished[0].0.to_string().as_str(), unfinished[0].1), ("org/repo", 3000));
    assert_eq!(store.remove("org/repo").unwrap().bytes, 3000);
    assert!(store.contents().unwrap().unfinished.is_empty() && shelf.files().is_empty());
}

#[test]
fn a_store_that_does_not_exist_is_empty() {
    let shelf = Shelf::new();
    let contents = shelf.store().contents().unwrap();
    assert!(contents.models.is_empty() && contents.problems.is_empty() && !shelf.store().root().exists());
}
