//! Crates are built in floors: a module uses its own floor and those below, and no modules import each other in a cycle.

use super::imports::{Modules, place_of, reaches};
use super::source::Source;
use super::{Facts, Finding};

/// Floors of all crates.
const FLOORS: &str = include_str!("floors.txt");

/// Floors of one crate, lowest first.
type Floors<'a> = Vec<Vec<&'a str>>;

pub(super) fn check(source: &Source, facts: &Facts) -> Vec<Finding> {
    let Some((name, module)) = place_of(&source.path) else { return Vec::new() };
    let Some(modules) = facts.imports.get(name) else { return Vec::new() };
    findings(&module, modules, &floors_of(FLOORS, name))
}

/// Returns the floors of a crate in the text of [`FLOORS`]; none of a crate that is not listed.
fn floors_of<'a>(text: &'a str, name: &str) -> Floors<'a> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let own = lines.skip_while(|line| *line != name).skip(1);
    own.take_while(|line| line.starts_with(' ')).map(|line| line.split_whitespace().collect()).collect()
}

fn findings(module: &str, modules: &Modules, floors: &Floors<'_>) -> Vec<Finding> {
    let Some(imports) = modules.get(module) else { return Vec::new() };
    let mut findings = Vec::new();
    let Some(floor) = floor_of(module, floors) else {
        let message = format!("module `{module}` has no floor in xtask/src/lint/floors.txt");
        return vec![Finding::at(0, message)];
    };
    for (other, &line) in imports {
        if floor_of(other, floors).is_some_and(|above| above > floor) {
            let message = format!("`{module}` imports `{}`, which is on a higher floor", shown(other));
            findings.push(Finding::at(line, message));
        } else if reaches(modules, other, module) {
            let message = format!("`{}` and `{}` import each other", shown(module), shown(other));
            findings.push(Finding::at(line, message));
        }
    }
    findings
}

fn shown(module: &str) -> &str {
    if module.is_empty() { "the crate's root" } else { module }
}

/// Returns the floor of a module; the root is above all.
fn floor_of(module: &str, floors: &Floors<'_>) -> Option<usize> {
    if module.is_empty() || floors.is_empty() {
        return Some(floors.len());
    }
    let is_in = |place: &str| {
        module.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let places =
        floors.iter().enumerate().flat_map(|(floor, places)| places.iter().map(move |place| (floor, *place)));
    places.filter(|(_, place)| is_in(place)).max_by_key(|(_, place)| place.len()).map(|(floor, _)| floor)
}

#[cfg(test)]
mod tests {
    use super::super::imports::imports;
    use super::*;

    const TEXT: &str =
        "# remark\n\nother\n  a\n\nx\n  types prefetch memory cpu\n  simd\n  gemm\n\nlast\n  b\n";

    /// Returns the lines of the first file that break the rule.
    fn broken(files: &[(&str, &str)]) -> Vec<usize> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(format!("crates/x/src/{path}"), text)).collect();
        let (name, module) = place_of(&sources[0].path).unwrap();
        let all = imports(&sources);
        findings(&module, &all[name], &floors_of(TEXT, name)).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn fires_on_a_higher_floor_however_it_is_written() {
        let others = [("gemm/linear.rs", "pub fn multiply() {}\n"), ("gemm/mod.rs", "mod linear;\n")];
        for text in [
            "// crate::gemm\nuse crate::gemm::linear::multiply;\n",
            "\nuse crate::{gemm::linear, types};\n",
            "\nfn f() { super::super::gemm::linear::multiply() }\n",
            "\nmacro_rules! m { () => { $crate::gemm::linear::multiply() } }\n",
        ] {
            let files = [("simd/int.rs", text), others[0], others[1], ("types.rs", "struct T;\n")];
            assert_eq!(broken(&files), [2], "{text}");
        }
    }

    #[test]
    fn fires_on_a_cycle_of_files_of_one_floor() {
        let cycle = [
            ("memory/huge.rs", "use crate::prefetch::hint;\n"),
            ("prefetch.rs", "use crate::cpu::isa;\n"),
            ("cpu/isa.rs", "\nuse crate::memory::huge;\n"),
        ];
        assert_eq!(broken(&cycle), [1]);
        assert!(broken(&cycle[..2]).is_empty());
    }

    #[test]
    fn lower_floors_and_tests_are_fine() {
        let below = [("gemm/linear.rs", "use crate::simd::int::Dot;\n"), ("simd/int.rs", "struct I;\n")];
        assert!(broken(&below).is_empty());
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::gemm::linear;\n}\n";
        assert!(broken(&[("simd/int.rs", tests), ("gemm/linear.rs", "struct L;\n")]).is_empty());
    }

    #[test]
    fn fires_on_a_module_without_a_floor() {
        assert_eq!(broken(&[("other.rs", "use crate::types::X;\n"), ("types.rs", "struct T;\n")]), [0]);
    }

    #[test]
    fn crates_that_are_not_listed_have_one_floor() {
        assert!(floors_of(TEXT, "y").is_empty());
        assert_eq!(floors_of(TEXT, "other"), [["a"]]);
        assert_eq!(floor_of("any", &Vec::new()), floor_of("", &Vec::new()));
    }
}
