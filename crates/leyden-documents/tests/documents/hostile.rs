//! Files that are damaged or made to take memory and time.

use crate::{both, in_child, sample, written};
use leyden_documents::{Limits, read};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

/// Returns a PDF of numbered objects; the first is the catalog.
fn pdf(objects: &[&[u8]]) -> Vec<u8> {
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::new();
    for (i, object) in objects.iter().enumerate() {
        places.push(file.len());
        writeln!(file, "{} 0 obj", i + 1).unwrap();
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let start = file.len();
    let mut end = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for place in places {
        writeln!(end, "{place:010} 00000 n ").unwrap();
    }
    write!(end, "trailer << /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n", objects.len() + 1)
        .unwrap();
    file.extend_from_slice(end.as_bytes());
    file
}

/// Returns a stream object.
fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dictionary} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend_from_slice(content);
    object.extend_from_slice(b"\nendstream");
    object
}

/// Returns a PDF of one page with a content, a font `F` and a form `X`.
fn page(content: &[u8], form: &[u8]) -> Vec<u8> {
    pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources 6 0 R >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>",
        content,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Font << /F 5 0 R >> /XObject << /X 7 0 R >> >>",
        form,
    ])
}

fn deflated(bytes: usize) -> Vec<u8> {
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    let block = vec![b' '; 1 << 20];
    for _ in 0..bytes >> 20 {
        packed.write_all(&block).unwrap();
    }
    packed.finish().unwrap()
}

fn zip(entries: &[(&str, &[u8])], blank_bytes: usize) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in entries {
        archive.start_file(*name, zip::write::SimpleFileOptions::default().large_file(true)).unwrap();
        archive.write_all(content).unwrap();
        let block = vec![b' '; 1 << 20];
        for _ in 0..blank_bytes >> 20 {
            archive.write_all(&block).unwrap();
        }
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn truncated_files_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["contract.docx", "contract.pdf"] {
        let whole = std::fs::read(sample(name)).unwrap();
        for share in 0..16 {
            // A PDF without its end is repaired as far as it goes; nothing else than a text or an error may come out.
            let read = written(folder.path(), name, &whole[..whole.len() * share / 16]);
            assert!(name.ends_with("pdf") || read.is_err(), "{share}");
        }
    }
}

#[test]
fn changed_bytes_end_in_a_text_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    for name in ["contract.docx", "contract.pdf"] {
        let whole = std::fs::read(sample(name)).unwrap();
        let path = folder.path().join(name);
        let mut seed = 7u64;
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(seed >> 33).unwrap() % bytes.len();
                bytes[at] = u8::try_from(seed >> 24 & 255).unwrap();
            }
            std::fs::write(&path, &bytes).unwrap();
            if let Err(error) = read(&path, &limits) {
                assert!(!error.reason.contains("a way that its reader does not know"), "a panic: {error}");
            }
        }
    }
}

#[test]
fn a_pdf_that_refers_to_itself_ends() {
    let folder = tempfile::tempdir().unwrap();
    let text = stream("", b"BT /F 12 Tf (before) Tj ET /X Do BT /F 12 Tf 0 -20 Td (after) Tj ET");
    let form = stream("/Type /XObject /Subtype /Form", b"/X Do /X Do /X Do");
    let read = written(folder.path(), "forms.pdf", &page(&text, &form)).unwrap();
    assert_eq!(read.text, "before\nafter\n");

    let kids = pdf(&[
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 1 /Parent 3 0 R >>",
        b"<< /Type /Pages /Kids [2 0 R] /Count 1 /Parent 2 0 R >>",
    ]);
    assert_eq!(written(folder.path(), "kids.pdf", &kids).unwrap_err(), "damaged PDF: no pages");

    let references = pdf(&[b"<< /Type /Catalog /Pages 2 0 R >>", b"3 0 R", b"2 0 R"]);
    assert_eq!(written(folder.path(), "references.pdf", &references).unwrap_err(), "damaged PDF: no pages");
}

#[test]
fn nesting_ends() {
    let folder = tempfile::tempdir().unwrap();
    let deep = [b"[".repeat(300_000), b"]".repeat(300_000)].concat();
    let _ = written(folder.path(), "array.pdf", &page(&stream("", &deep), &deep));
    let html = "<div>".repeat(200_000) + "deep";
    assert_eq!(written(folder.path(), "deep.html", html.as_bytes()).unwrap().text, "deep\n");
    let xml = "<w:p>".repeat(100_000);
    let reason =
        written(folder.path(), "deep.docx", &zip(&[("word/document.xml", xml.as_bytes())], 0)).unwrap_err();
    assert_eq!(reason, "word/document.xml: elements nested deeper than 4096");
}

#[test]
fn what_unpacks_to_too_much_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let content = stream("/Filter /FlateDecode", &deflated(300 << 20));
    let form = stream("/Subtype /Form", b"");
    let reason = written(folder.path(), "bomb.pdf", &page(&content, &form)).unwrap_err();
    assert_eq!(reason, "page 1: unpacks to more than the limit of 256 MiB");

    let text = stream("", &b"/X Do ".repeat(100));
    let form = stream("/Subtype /Form /Filter /FlateDecode", &deflated(8 << 20));
    let reason = written(folder.path(), "forms.pdf", &page(&text, &form)).unwrap_err();
    assert_eq!(reason, "page 1: unpacks to more than the limit of 256 MiB");

    let bomb = zip(&[("word/document.xml", b"<w:document><w:p><w:t>x</w:t>")], 300 << 20);
    let reason = written(folder.path(), "bomb.docx", &bomb).unwrap_err();
    assert_eq!(reason, "unpacks to more than the limit of 256 MiB");
}

#[test]
fn sizes_pages_and_texts_have_limits() {
    let read_with = |name: &str, change: &dyn Fn(&mut Limits)| {
        let mut limits = in_child();
        change(&mut limits);
        read(&sample(name), &limits).unwrap_err().reason
    };
    assert_eq!(read_with("contract.pdf", &|limits| limits.pages = 1), "more than the limit of 1 pages");
    assert_eq!(
        read_with("contract.pdf", &|limits| limits.file_bytes = 100),
        "2435 bytes, more than the limit of 100 bytes"
    );
    assert!(
        read_with("contract.pdf", &|limits| limits.text_bytes = 50)
            .ends_with("more text than the limit of 50 bytes")
    );
    assert!(
        read_with("contract.docx", &|limits| limits.text_bytes = 50)
            .ends_with("more text than the limit of 50 bytes")
    );
    assert!(read_with("contract.docx", &|limits| limits.unpacked_bytes = 50).contains("50 bytes"));
}

#[test]
fn a_child_that_takes_too_much_memory_or_time_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    // Numbers take far more memory as objects than as text.
    let path = folder.path().join("memory.pdf");
    let array = [b"[".to_vec(), b"0 ".repeat(8 << 20), b"]".to_vec()].concat();
    std::fs::write(&path, page(&stream("", b""), &array)).unwrap();
    let mut limits = in_child();
    limits.memory_bytes = 256 << 20;
    let reason = read(&path, &limits).unwrap_err().reason;
    assert!(reason.starts_with("needs more memory than the limit of 256 MiB"), "{reason}");

    let path = folder.path().join("time.pdf");
    let content = stream("", &b"BT /F 1 Tf (a) Tj ET /X Do ".repeat(1 << 20));
    std::fs::write(&path, page(&content, &stream("/Subtype /Form", &b"q Q ".repeat(10_000)))).unwrap();
    let started = Instant::now();
    for mut limits in [in_child(), Limits::default()] {
        limits.seconds = 1;
        limits.unpacked_bytes = u64::MAX;
        let reason = read(&path, &limits).unwrap_err().reason;
        assert!(reason.ends_with("not read within the limit of 1 seconds"), "{reason}");
    }
    assert!(started.elapsed().as_secs() < 100);
}

#[test]
fn a_program_that_is_no_reader_is_an_error() {
    let mut limits = in_child();
    limits.program = Some("/bin/false".into());
    let reason = read(&sample("contract.pdf"), &limits).unwrap_err().reason;
    assert!(reason.starts_with("/bin/false gave no readable answer"), "{reason}");
    limits.program = Some("/no/such/program".into());
    let reason = read(&sample("contract.pdf"), &limits).unwrap_err().reason;
    assert!(reason.starts_with("cannot start /no/such/program: "), "{reason}");
    assert!(both(Path::new("/dev/null")).is_err());
}
