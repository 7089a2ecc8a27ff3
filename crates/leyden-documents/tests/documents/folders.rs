//! Folders of documents.

use leyden_documents::folder;

#[test]
fn a_folder_lists_its_documents_and_what_it_skips() {
    let temporary = tempfile::tempdir().unwrap();
    let at = temporary.path();
    std::fs::create_dir_all(at.join("b/.git")).unwrap();
    for name in ["c.txt", "b/2.pdf", "b/10.pdf", "b/.hidden.txt", "b/.git/x.txt", "a.exe", "Z.DOCX"] {
        std::fs::write(at.join(name), "x").unwrap();
    }
    std::os::unix::fs::symlink(at, at.join("b/loop")).unwrap();
    std::os::unix::fs::symlink(at.join("c.txt"), at.join("b/link.txt")).unwrap();
    std::os::unix::fs::symlink(at.join("none"), at.join("b/broken.txt")).unwrap();
    let found = folder(at).unwrap();
    let name = |path: &std::path::Path| path.strip_prefix(at).unwrap().display().to_string();
    let files: Vec<String> = found.files.iter().map(|file| name(file)).collect();
    assert_eq!(files, ["Z.DOCX", "b/10.pdf", "b/2.pdf", "b/link.txt", "c.txt"]);
    let skipped: Vec<(String, &str)> =
        found.skipped.iter().map(|(path, why)| (name(path), why.as_str())).collect();
    assert_eq!(skipped[0].0, "a.exe");
    assert!(skipped[0].1.starts_with("unknown format .exe"));
    assert_eq!(skipped[1..3], [("b/.git".into(), "hidden"), ("b/.hidden.txt".into(), "hidden")]);
    assert!(skipped[3].0 == "b/broken.txt" && skipped[3].1.starts_with("cannot read: "));
    assert_eq!(skipped[4], ("b/loop".into(), "a link to a folder"));
    let error = folder(&at.join("none")).unwrap_err();
    assert!(error.to_string().contains("none: cannot list the folder: "));
}
