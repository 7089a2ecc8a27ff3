//! No mutable state is shared by the whole process.

use super::source::{Source, has_word};
use super::{Facts, Finding};

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    if !source.is_rust() {
        return Vec::new();
    }
    // After an apostrophe `static` is a lifetime.
    let mutable = |line: &str| has_word(&line.replace("'static", ""), "static mut");
    let hits = source.all_lines().filter(|(_, line)| mutable(line));
    hits.map(|(number, _)| Finding::at(number, "`static mut`")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_on_mutable_statics_only() {
        let text = "static mut X: u32 = 0;\nfn f(x: &'static mut u32) {}\nstatic Y: u32 = 0;\n";
        assert_eq!(findings(check, "crates/leyden-kernels/src/pool.rs", text, &[]), [1]);
    }
}
