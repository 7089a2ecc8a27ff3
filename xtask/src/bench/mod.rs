//! Benchmarks as data: `cargo xtask bench-report` writes `docs/benchmarks.md`, its chart and the README's headline
//! table from `bench/results/MACHINE/DATE.json`; `cargo xtask bench-add` adds the output of
//! `leyden bench --json --versus` to such a file.
//!
//! Only the newest file of each machine is reported; older files are kept as history.

mod add;
mod chart;
mod page;
mod results;

pub(crate) use add::run as add;

use std::fs;
use std::path::Path;

/// Markers around the README's table.
const BEGIN: &str = "<!-- benchmarks: written by `cargo xtask bench-report` -->";
const END: &str = "<!-- end of benchmarks -->";

/// Writes all generated files.
pub(crate) fn report(root: &Path, _: &[String]) -> Result<(), String> {
    for (path, text) in generated(root)? {
        write(&root.join(&path), &text)?;
        println!("{path}: {} lines", text.lines().count());
    }
    Ok(())
}

/// Returns the generated files and their contents.
fn generated(root: &Path) -> Result<Vec<(String, String)>, String> {
    let newest = results::newest(root)?;
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme).map_err(|e| format!("{}: {e}", readme.display()))?;
    let between = |mark: &str| text.find(mark).ok_or_else(|| format!("README.md: no line `{mark}`"));
    let (begin, end) = (between(BEGIN)? + BEGIN.len(), between(END)?);
    let head = text.get(..begin).ok_or("README.md: the marks are out of order")?;
    let tail = text.get(end..).ok_or("README.md: the marks are out of order")?;
    let readme = format!("{head}\n{}{tail}", page::headline(&newest));
    Ok(vec![
        ("docs/benchmarks.md".to_owned(), page::page(&newest, &results::serving(root)?)),
        ("docs/benchmarks.svg".to_owned(), chart::chart(&newest)),
        ("README.md".to_owned(), readme),
    ])
}

/// Writes a file atomically.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let temporary = path.with_extension("new");
    fs::write(&temporary, text).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_generated_is_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (path, text) in generated(&root).unwrap() {
            let there = fs::read_to_string(root.join(&path)).unwrap();
            assert!(there == text, "{path} is not what `cargo xtask bench-report` writes");
        }
    }

    #[test]
    fn the_page_fits_one_reading() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert!(generated(&root).unwrap()[0].1.lines().count() <= 170);
    }
}
