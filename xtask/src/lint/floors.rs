//! The kernels crate is built in floors: a file uses its own floor and those below, and files make no circle.

use super::source::Source;
use super::{Facts, Finding};
use std::collections::{BTreeMap, BTreeSet};

const HOME: &str = "crates/leyden-kernels/src/";

/// Modules by floor, lowest first. A module belongs to its longest prefix; the crate's root is above all.
const FLOORS: &[&[&str]] = &[
    &["types", "error", "knobs"],
    &["memory", "heap", "cpu", "prefetch"],
    &["threads", "context"],
    &["simd"],
    &["quant", "ops"],
    &["gemm::format"],
    &["gemm::unpack"],
    &["gemm::microkernel"],
    &["gemm::registry"],
    &["gemm"],
    &["attention", "ceilings"],
];

/// For every module, the modules that it imports, each with the first line that does.
pub(super) type Imports = BTreeMap<String, BTreeMap<String, usize>>;

pub(super) fn check(source: &Source, facts: &Facts) -> Vec<Finding> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    let Some(imports) = facts.imports.get(&module) else { return Vec::new() };
    let mut findings = Vec::new();
    let Some(floor) = floor_of(&module) else {
        let known: Vec<&str> = FLOORS.iter().copied().flatten().copied().collect();
        let message = format!("module `{module}` has no floor; floors are {}", known.join(", "));
        return vec![Finding::at(0, message)];
    };
    for (other, &line) in imports {
        if floor_of(other).is_some_and(|above| above > floor) {
            findings
                .push(Finding::at(line, format!("`{module}` imports `{other}`, which is on a higher floor")));
        } else if reaches(&facts.imports, other, &module) {
            findings.push(Finding::at(line, format!("`{module}` and `{other}` import each other")));
        }
    }
    findings
}

/// The imports of all sources of the crate.
pub(super) fn imports(sources: &[Source]) -> Imports {
    let modules: BTreeSet<String> = sources.iter().filter_map(|source| module_of(&source.path)).collect();
    let mut all = Imports::new();
    for source in sources {
        let Some(module) = module_of(&source.path) else { continue };
        if source.lines().next().is_none() {
            continue;
        }
        let found = all.entry(module.clone()).or_default();
        for (line, path) in paths(source) {
            let Some(target) = resolve(&path, &module).and_then(|path| owner(&path, &modules)) else {
                continue;
            };
            // A folder's `mod.rs` shows what its files have.
            let shows = target.strip_prefix(&module).is_some_and(|rest| rest.starts_with("::"));
            if target != module && !shows {
                found.entry(target).or_insert(line);
            }
        }
    }
    all
}

/// The module of a file; the root is the empty one.
fn module_of(path: &str) -> Option<String> {
    let path = path.strip_prefix(HOME)?.strip_suffix(".rs")?;
    let path = if path == "lib" { "" } else { path.strip_suffix("/mod").unwrap_or(path) };
    Some(path.replace('/', "::"))
}

fn floor_of(module: &str) -> Option<usize> {
    if module.is_empty() {
        return Some(FLOORS.len());
    }
    let is_in = |place: &str| {
        module.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let places =
        FLOORS.iter().enumerate().flat_map(|(floor, places)| places.iter().map(move |place| (floor, *place)));
    places.filter(|(_, place)| is_in(place)).max_by_key(|(_, place)| place.len()).map(|(floor, _)| floor)
}

/// The module that an item belongs to.
fn owner(item: &str, modules: &BTreeSet<String>) -> Option<String> {
    let mut path = item;
    loop {
        if modules.contains(path) {
            return Some(path.to_owned());
        }
        match path.rsplit_once("::") {
            Some((above, _)) => path = above,
            None => return modules.contains("").then(String::new),
        }
    }
}

/// A path from the root; `None` of what is outside the crate. The root's own names are the root's.
fn resolve(path: &str, module: &str) -> Option<String> {
    let mut parts = path.split("::").peekable();
    let mut place: Vec<&str> = module.split("::").collect();
    if parts.next_if_eq(&"crate").is_some() {
        place.clear();
    } else if parts.peek() != Some(&"super") {
        return None;
    }
    while parts.next_if_eq(&"super").is_some() {
        place.pop();
    }
    place.extend(parts);
    Some(place.join("::"))
}

/// Paths that begin with `crate` or `super`, with their lines.
fn paths(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<(usize, &str)> = source.lines().collect();
    let mut found = Vec::new();
    for (i, (number, line)) in lines.iter().enumerate() {
        for word in ["crate::", "super::"] {
            for (at, _) in line.match_indices(word) {
                let before = line[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let mut text = line[at..].to_owned();
                for (_, next) in &lines[i + 1..] {
                    if text.matches('{').count() == text.matches('}').count() {
                        break;
                    }
                    text.push_str(next);
                }
                tree("", &text, &mut found, *number);
            }
        }
    }
    found
}

/// The leaves of a tree of imports, or one path.
fn tree(before: &str, text: &str, found: &mut Vec<(usize, String)>, line: usize) {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let path = format!("{before}{}", &text[..end]);
    let Some(inner) = text[end..].strip_prefix('{').filter(|_| path.ends_with("::")) else {
        let path = path.trim_end_matches(':').trim_end_matches("::self");
        found.push((line, path.to_owned()));
        return;
    };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if !inner[from..at].trim().is_empty() {
                    tree(&path, &inner[from..at], found, line);
                }
                from = at + 1;
                if c == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

/// Whether `to` is imported by `from`, directly or not.
fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            left.extend(imports.get(module).into_iter().flat_map(|of| of.keys().map(String::as_str)));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that break the rule, of the first of some files.
    fn broken(files: &[(&str, &str)]) -> Vec<usize> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(format!("{HOME}{path}"), text)).collect();
        let facts = Facts { imports: imports(&sources), ..Facts::default() };
        check(&sources[0], &facts).into_iter().map(|finding| finding.line).collect()
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
            let files = [("simd/int.rs", text), others[0], others[1]];
            assert_eq!(broken(&files), [2], "{text}");
        }
        let root = [("simd/int.rs", "use crate::Cpu;\n"), ("lib.rs", "pub use context::Cpu;\n")];
        assert_eq!(broken(&root), [1], "the root is above all");
    }

    #[test]
    fn fires_on_a_circle_of_files_of_one_floor() {
        let circle = [
            ("memory/huge.rs", "use crate::prefetch::hint;\n"),
            ("prefetch.rs", "use crate::cpu::isa;\n"),
            ("cpu/isa.rs", "\nuse crate::memory::huge;\n"),
        ];
        assert_eq!(broken(&circle), [1]);
        assert!(broken(&circle[..2]).is_empty());
    }

    #[test]
    fn lower_floors_tests_and_a_folders_face_are_fine() {
        let below = [("gemm/linear.rs", "use crate::simd::int::Dot;\n"), ("simd/int.rs", "")];
        assert!(broken(&below).is_empty());
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::gemm::linear;\n}\n";
        assert!(broken(&[("simd/int.rs", tests), ("gemm/linear.rs", "")]).is_empty());
        let face = [
            ("cpu/mod.rs", "mod isa;\npub use isa::Isa;\nfn f() { crate::cpu::isa::f() }\n"),
            ("cpu/isa.rs", "use super::X;\n"),
        ];
        assert!(broken(&face).is_empty());
    }

    #[test]
    fn fires_on_a_module_without_a_floor() {
        assert_eq!(broken(&[("other.rs", "use crate::types::X;\n"), ("types.rs", "")]), [0]);
    }
}
