//! Headers of models on the hub: first bytes alone, nothing in the store.

use std::fs;

use leyden_hub::{Client, ErrorKind, Header, Options, fetch_header};
use tempfile::tempdir;

use crate::server::{Hub, Repository};
use crate::{content, options};

/// Result of a fetch.
struct Fetched {
    header: Result<Header, leyden_hub::Error>,
    /// Number of bytes at each try of the header.
    seen: Vec<usize>,
    /// Names and lengths of the written files.
    files: Vec<(String, u64)>,
}

/// Fetches a header; that of a GGUF file is `whole` bytes long.
fn fetch(options: &Options, reference: &str, whole: usize) -> Fetched {
    let (folder, client) = (tempdir().unwrap(), Client::new(options.clone()).unwrap());
    let mut seen = Vec::new();
    let mut is_whole = |bytes: &[u8]| {
        seen.push(bytes.len());
        bytes.len() >= whole
    };
    let reference = reference.parse().unwrap();
    let header = fetch_header(&client, &reference, folder.path(), &mut is_whole, &mut |_| {});
    let mut files: Vec<(String, u64)> = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .collect();
    files.sort();
    Fetched { header, seen, files }
}

#[test]
fn of_a_gguf_file_the_first_bytes_come() {
    let model = content(9_000_000, 1);
    let hub = Hub::start(&Repository::new(&[("Tiny-Q4_K_M.gguf", &model), ("Tiny-Q8_0.gguf", &model)]));
    let options = options(&hub.api.url());
    let Fetched { header, seen, files } = fetch(&options, "hf:org/repo:Q4_K_M", 1_500_000);
    let Header::Gguf(path) = header.unwrap() else { panic!() };
    assert_eq!(path.file_name().unwrap(), "Tiny-Q4_K_M.gguf");
    // The file has its length, and zeros after the header.
    assert_eq!(files, [("Tiny-Q4_K_M.gguf".to_owned(), 9_000_000)]);
    let last = *seen.last().unwrap();
    assert!((1_500_000..4_000_000).contains(&last), "{seen:?}");
    assert_eq!(hub.fetched(), [("Tiny-Q4_K_M.gguf".to_owned(), None)]);
    // A header that never ends is the whole file.
    let Fetched { header, files, .. } = fetch(&options, "hf:org/repo:Q8_0", usize::MAX);
    assert!(header.is_ok());
    assert_eq!(files[0].1, 9_000_000);
}

#[test]
fn of_a_split_model_every_part_has_a_header() {
    let parts = [content(3_000_000, 1), content(2_500_000, 2)];
    let names = ["big-Q4_K_M-00001-of-00002.gguf", "big-Q4_K_M-00002-of-00002.gguf"];
    let hub = Hub::start(&Repository::new(&[(names[0], &parts[0]), (names[1], &parts[1])]));
    let Fetched { header, seen, files } = fetch(&options(&hub.api.url()), "hf:org/repo", 1);
    let Header::Gguf(path) = header.unwrap() else { panic!() };
    assert_eq!(path.file_name().unwrap(), names[0]);
    assert_eq!((seen.len(), files.len()), (2, 2));
    assert_eq!(files[1], (names[1].to_owned(), 2_500_000));
}

#[test]
fn of_a_checkpoint_the_configuration_comes_alone() {
    let weights = content(5_000_000, 3);
    let hub = Hub::start(&Repository::new(&[
        ("config.json", b"{\"model_type\": \"llama\"}"),
        ("model.safetensors", &weights),
        ("tokenizer.json", b"{}"),
    ]));
    let Fetched { header, seen, files } = fetch(&options(&hub.api.url()), "hf:org/repo", 1);
    assert!(matches!(header, Ok(Header::Config(_))), "{header:?}");
    assert_eq!((seen.len(), files.len(), files[0].0.as_str()), (0, 1, "config.json"));
    assert!(hub.fetched().is_empty(), "no large file");
}

#[test]
fn nothing_comes_offline_and_a_missing_model_is_named() {
    let hub = Hub::start(&Repository::new(&[("README.md", b"# nothing")]));
    let online = options(&hub.api.url());
    let offline = Options { offline: true, ..online.clone() };
    let error = fetch(&offline, "hf:org/repo", 1).header.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Offline), "{error}");
    assert!(hub.api.seen().is_empty());
    let error = fetch(&online, "hf:org/repo", 1).header.unwrap_err();
    assert!(error.to_string().starts_with("hf:org/repo: "), "{error}");
}
