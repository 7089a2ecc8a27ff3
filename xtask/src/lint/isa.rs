//! Instruction sets are named only in a few places of the kernels and selected at run time.

use super::source::{Source, has_word};
use super::{Facts, Finding};

const CRATE: &str = "crates/leyden-kernels/src/";
const HOMES: &[&str] = &["cpu/", "prefetch.rs", "simd/", "gemm/microkernel/", "gemm/registry/"];

/// Words that are allowed only in [`HOMES`].
const WORDS: &[&str] = &[
    "core::arch",
    "std::arch",
    "asm!",
    "global_asm!",
    "naked_asm!",
    "target_arch",
    "is_x86_feature_detected",
    "is_aarch64_feature_detected",
];

pub(super) fn check(source: &Source, _: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !source.is_rust() {
        return findings;
    }
    let inside = source.path.strip_prefix(CRATE);
    let home = inside.is_some_and(|path| HOMES.iter().any(|home| path.starts_with(home)));
    for (number, line) in source.all_lines() {
        // `#[target_feature(enable = …)]` compiles a function for an extension; `cfg(target_feature = …)` would
        // decide at build time and not by the machine that runs the program.
        let compact: String = line.split_whitespace().collect();
        if compact.contains("target_feature=") {
            findings.push(Finding::at(number, "`cfg(target_feature)`: extensions are detected at run time"));
        }
        // `expect(dead_code)` for other processors is allowed, since it selects nothing.
        let chooses = !(line.trim_start().starts_with("#[cfg_attr(") && line.contains("expect(dead_code"));
        if !home
            && chooses
            && let Some(word) = WORDS.iter().find(|word| found(line, word))
        {
            findings.push(Finding::at(number, format!("`{word}` outside {} of {CRATE}", HOMES.join(", "))));
        }
    }
    findings
}

fn found(line: &str, word: &str) -> bool {
    match word.strip_suffix('!') {
        Some(name) => has_word(line, name) && line.contains(word),
        None => has_word(line, word),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::check;

    #[test]
    fn fires_outside_its_folder() {
        let text =
            "use core::arch::x86_64::*;\n#[cfg(target_arch = \"x86_64\")]\nasm!(\"nop\");\nlet arch = 1;\n";
        assert_eq!(findings(check, "crates/leyden-kernels/src/pool.rs", text, &[]), [1, 2, 3]);
        assert!(findings(check, "crates/leyden-kernels/src/simd/x86_64/avx2.rs", text, &[]).is_empty());
        let dead = "#[cfg_attr(not(target_arch = \"x86_64\"), expect(dead_code, reason = \"\"))]\n";
        assert!(findings(check, "crates/leyden-kernels/src/pool.rs", dead, &[]).is_empty());
        let chosen = "#[cfg(target_arch = \"x86_64\")] #[expect(dead_code)]\n";
        assert_eq!(findings(check, "crates/leyden-kernels/src/pool.rs", chosen, &[]), [1]);
    }

    #[test]
    fn build_time_features_fire_everywhere() {
        let text = "#[cfg(target_feature = \"avx2\")]\n#[target_feature(enable = \"avx2\")]\n";
        assert_eq!(findings(check, "crates/leyden-kernels/src/simd/x86_64/avx2.rs", text, &[]), [1]);
    }
}
