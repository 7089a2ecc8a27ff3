//! Documents as people write them.

use crate::{both, sample, written};
use leyden_documents::Format;

#[test]
fn a_word_document_has_its_paragraphs_and_tables() {
    let document = both(&sample("contract.docx")).unwrap();
    assert_eq!(document.format, Format::Docx);
    assert!(document.text.starts_with(
        "Supply Agreement\nThis agreement is made between Nordwind Müller GmbH (\"Supplier\") and"
    ));
    assert!(
        document
            .text
            .ends_with("\nGoods\tPrice\nRope\t€ 5\nThis agreement is governed by the laws of Switzerland.\n")
    );
    assert_eq!(document.page(0), None);
}

#[test]
fn a_pdf_has_its_lines_and_pages() {
    let document = both(&sample("contract.pdf")).unwrap();
    assert_eq!(document.pages.len(), 2);
    let first = document.page(0).unwrap();
    assert!(first.starts_with("Supply Agreement\n\nThis agreement is made between Nordwind Müller GmbH (\"Supplier\") and Hafen & Söhne AG\n"));
    assert!(first.ends_with("\nGoods Price\nRope € 5\n\n"), "{first:?}");
    assert_eq!(document.page(1), Some("This agreement is governed by the laws of Switzerland.\n"));
    assert_eq!(document.page(2), None);
}

#[test]
fn a_pdf_of_pictures_says_that_it_has_no_text() {
    let reason = both(&sample("scan.pdf")).unwrap_err();
    assert!(reason.starts_with("no text layer: the pages are pictures"), "{reason}");
}

#[test]
fn text_is_decoded() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(written(folder.path(), "a.txt", b"K\xe4ufer\r\n").unwrap().text, "Käufer\n");
    assert_eq!(written(folder.path(), "a.MD", b"# *Hi*\n").unwrap().text, "# *Hi*\n");
    let html = "<!doctype html><title>T</title><body><p>a&nbsp;b<table><tr><td>1<td>2</table>";
    assert_eq!(written(folder.path(), "a.html", html.as_bytes()).unwrap().text, "T\n\na\u{a0}b\n1\t2\n");
}

#[test]
fn other_files_are_refused_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let reason = |name: &str, bytes: &[u8]| written(folder.path(), name, bytes).unwrap_err();
    assert_eq!(reason("a.doc", b"x"), "documents of the format .doc are not read: save it as DOCX or PDF");
    assert_eq!(
        reason("a.tiff", b"x"),
        "documents of the format .tiff are not read: a picture has no text layer; recognise its text first (OCR)"
    );
    assert!(reason("a.xyz", b"x").starts_with("unknown format .xyz; known are .txt, "));
    assert!(reason("a", b"x").contains("without an ending"));
    assert_eq!(reason("a.txt", b""), "empty file");
    assert!(reason("a.txt", b"a\0b").starts_with("no text: "));
    assert_eq!(reason("a.pdf", b"plain text"), "no PDF: it does not begin with %PDF-");
    assert_eq!(reason("a.docx", b"plain text"), "no DOCX: not a complete zip archive");
    assert!(both(&folder.path().join("missing.pdf")).unwrap_err().starts_with("cannot read: "));
    std::fs::create_dir(folder.path().join("b.pdf")).unwrap();
    assert_eq!(both(&folder.path().join("b.pdf")).unwrap_err(), "not a regular file");
}
