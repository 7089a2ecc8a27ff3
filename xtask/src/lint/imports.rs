//! Graph of imports between the modules of each crate.
//!
//! A name that a module gets by `use` counts as an item of the file that defines it, so re-exports in `mod.rs` and `lib.rs` are no
//! imports. A `mod.rs` that uses items of its own files imports them like any other module.

use super::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Imported modules of each module of one crate, each with the first line that imports it. The root is the empty name.
pub(super) type Modules = BTreeMap<String, BTreeMap<String, usize>>;

/// Imports of every crate, by the folder's name under `crates/`.
pub(super) type Imports = BTreeMap<String, Modules>;

/// Returns the imports of all crates among `sources`.
pub(super) fn imports(sources: &[Source]) -> Imports {
    let mut crates: BTreeMap<String, BTreeMap<String, Text>> = BTreeMap::new();
    for source in sources {
        if let Some((name, module)) = place_of(&source.path)
            && source.lines().next().is_some()
        {
            crates.entry(name.to_owned()).or_default().insert(module, Text::of(source));
        }
    }
    crates.into_iter().map(|(name, texts)| (name, graph(&texts))).collect()
}

/// Returns the crate and the module of a file: `crates/leyden-text/src/template/ast.rs` is `("leyden-text", "template::ast")`.
pub(super) fn place_of(path: &str) -> Option<(&str, String)> {
    let (name, path) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let path = path.strip_suffix(".rs")?;
    let module = match path {
        "lib" | "main" => "",
        _ => path.strip_suffix("/mod").unwrap_or(path),
    };
    Some((name, module.replace('/', "::")))
}

/// Returns true if `to` is imported by `from`, directly or not.
pub(super) fn reaches(modules: &Modules, from: &str, to: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            left.extend(modules.get(module).into_iter().flat_map(|of| of.keys().map(String::as_str)));
        }
    }
    false
}

/// Code of a file outside tests, with the number of each line.
struct Text {
    lines: Vec<(usize, String)>,
}

impl Text {
    fn of(source: &Source) -> Text {
        Text { lines: source.lines().map(|(number, line)| (number, line.to_owned())).collect() }
    }

    /// Paths after the words `use`, `crate::`, `super::`, `self::` and names of the module's own files.
    fn paths(&self, children: &BTreeSet<&str>) -> Vec<Path> {
        let mut found = Vec::new();
        // Lines of a `use` statement that is being read, its first line's number, and whether it re-exports.
        let mut statement: Option<(usize, bool, String)> = None;
        for (i, (number, line)) in self.lines.iter().enumerate() {
            if let Some((_, _, text)) = &mut statement {
                text.push_str(line);
            } else if let Some((public, rest)) = use_statement(line) {
                statement = Some((*number, public, rest.to_owned()));
            }
            if let Some((first, public, text)) = &statement {
                if let Some(text) =
                    text.strip_suffix(|c: char| c.is_whitespace()).unwrap_or(text).strip_suffix(';')
                {
                    let kind = if *public { Kind::ReExport } else { Kind::Use };
                    tree("", text, &mut |path, alias| {
                        found.push(Path { line: *first, path, alias, kind });
                    });
                    statement = None;
                }
                continue;
            }
            for (at, _) in line.match_indices("::") {
                let start = line[..at].rfind(|c: char| !is_name(c)).map_or(0, |i| i + 1);
                let word = &line[start..at];
                let inner = line[..start].ends_with("::");
                if inner || !(["crate", "super", "self"].contains(&word) || children.contains(word)) {
                    continue;
                }
                let mut text = line[start..].to_owned();
                for (_, next) in &self.lines[i + 1..] {
                    if text.matches('{').count() <= text.matches('}').count() {
                        break;
                    }
                    text.push_str(next);
                }
                let end = text.find(|c: char| !(is_name(c) || c == ':')).unwrap_or(text.len());
                let path = text[..end].trim_end_matches(':').to_owned();
                if path == word {
                    // A macro's `super::$module`.
                    continue;
                }
                found.push(Path { line: *number, path, alias: None, kind: Kind::Item });
            }
        }
        found
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the text behind `use` of a line that begins a statement, and whether the statement is public.
fn use_statement(line: &str) -> Option<(bool, &str)> {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix("use ") {
        return Some((false, rest));
    }
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(inner) => inner.split_once(')')?.1,
        None => rest,
    };
    rest.trim_start().strip_prefix("use ").map(|rest| (true, rest))
}

/// A path that a file names.
struct Path {
    line: usize,
    path: String,
    /// Name that the file gives to the item.
    alias: Option<String>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ReExport,
    Use,
    Item,
}

/// Calls `found` with each leaf of a tree of imports and its alias.
fn tree(before: &str, text: &str, found: &mut dyn FnMut(String, Option<String>)) {
    let text = text.trim();
    let end = text.find(|c: char| !(is_name(c) || c == ':')).unwrap_or(text.len());
    let path = format!("{before}{}", &text[..end]);
    let Some(inner) = text[end..].strip_prefix('{').filter(|_| path.ends_with("::")) else {
        let path = path.trim_end_matches(':').trim_end_matches("::self").to_owned();
        let alias = text[end..].trim_start().strip_prefix("as ").map(|alias| alias.trim().to_owned());
        return found(path, alias);
    };
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if !inner[from..at].trim().is_empty() {
                    tree(&path, &inner[from..at], found);
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

/// Returns the graph of one crate.
fn graph(texts: &BTreeMap<String, Text>) -> Modules {
    let mut children: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for module in texts.keys().filter(|module| !module.is_empty()) {
        let (parent, name) = module.rsplit_once("::").unwrap_or(("", module));
        children.entry(parent).or_default().insert(name);
    }
    let none = BTreeSet::new();
    let paths: BTreeMap<&str, Vec<Path>> = texts
        .iter()
        .map(|(module, text)| (&module[..], text.paths(children.get(&module[..]).unwrap_or(&none))))
        .collect();
    // Names that modules get by `use`, with what they stand for.
    let mut names: BTreeMap<(&str, String), String> = BTreeMap::new();
    for (module, paths) in &paths {
        for path in paths.iter().filter(|path| path.kind != Kind::Item) {
            if let Some(full) = absolute(&path.path, module, children.get(module).unwrap_or(&none)) {
                let own = full.rsplit("::").next().unwrap_or_default().to_owned();
                names.insert((module, path.alias.clone().unwrap_or(own)), full);
            }
        }
    }
    let mut all = Modules::new();
    for (module, paths) in &paths {
        let found = all.entry((*module).to_owned()).or_default();
        for path in paths.iter().filter(|path| path.kind != Kind::ReExport) {
            let full = absolute(&path.path, module, children.get(module).unwrap_or(&none));
            let Some(target) = full.map(|full| owner(&full, texts, &names)) else { continue };
            if target != *module {
                found.entry(target).or_insert(path.line);
            }
        }
    }
    all
}

/// Returns a path from the crate's root; `None` for a path to another crate.
fn absolute(path: &str, module: &str, children: &BTreeSet<&str>) -> Option<String> {
    let mut parts = path.split("::").peekable();
    let mut place: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
    match *parts.peek()? {
        "crate" => {
            parts.next();
            place.clear();
        }
        "self" => {
            parts.next();
        }
        "super" => {}
        name if children.contains(name) => {}
        _ => return None,
    }
    while parts.next_if_eq(&"super").is_some() {
        place.pop();
    }
    place.extend(parts);
    Some(place.join("::"))
}

/// Returns the module that defines an item, past re-exports.
fn owner(item: &str, texts: &BTreeMap<String, Text>, names: &BTreeMap<(&str, String), String>) -> String {
    /// Re-exports of re-exports are few; more are a cycle.
    const MAX_DEPTH: usize = 16;
    let mut item = item.to_owned();
    for _ in 0..MAX_DEPTH {
        let mut module = &item[..];
        while !texts.contains_key(module) && !module.is_empty() {
            module = module.rsplit_once("::").map_or("", |(above, _)| above);
        }
        let rest = item[module.len()..].trim_start_matches("::");
        let (name, behind) = rest.split_once("::").unwrap_or((rest, ""));
        match names.get(&(module, name.to_owned())) {
            Some(full) if !name.is_empty() => {
                item = if behind.is_empty() { full.clone() } else { format!("{full}::{behind}") };
            }
            _ => return module.to_owned(),
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph_of(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(format!("crates/x/src/{path}"), text)).collect();
        let all = imports(&sources);
        let edges = all["x"].iter().flat_map(|(from, to)| to.keys().map(|to| (from.clone(), to.clone())));
        edges.collect()
    }

    #[test]
    fn names_belong_to_the_file_that_defines_them() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use b::Thing;\n"),
            ("a/mod.rs", "mod leaf;\npub use leaf::{Leaf, Other as Named};\nuse crate::b::Thing;\n"),
            ("a/leaf.rs", "use super::Thing;\npub struct Leaf;\n"),
            ("b.rs", "fn f() { crate::a::Named::new() }\n"),
        ];
        let edges = graph_of(&files);
        let edges: Vec<(&str, &str)> = edges.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        assert_eq!(edges, [("a", "b"), ("a::leaf", "b"), ("b", "a::leaf")]);
    }

    #[test]
    fn a_folders_face_that_uses_its_files_imports_them() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", "mod leaf;\nuse leaf::f;\npub struct A;\n"),
            ("a/leaf.rs", "use super::A;\npub fn f() {}\n"),
        ];
        let edges = graph_of(&files);
        let edges: Vec<(&str, &str)> = edges.iter().map(|(a, b)| (&a[..], &b[..])).collect();
        assert_eq!(edges, [("a", "a::leaf"), ("a::leaf", "a")]);
    }

    #[test]
    fn paths_are_found_however_they_are_written() {
        let other = ("b/mod.rs", "pub mod c;\n");
        for text in [
            "use crate::b::c::X;\n",
            "use crate::{\n    b::{c::X, c::Y},\n};\n",
            "fn f() { super::b::c::x() }\n",
            "macro_rules! m { () => { $crate::b::c::x() } }\n",
        ] {
            let edges =
                graph_of(&[("lib.rs", "mod a;\nmod b;\n"), ("a.rs", text), other, ("b/c.rs", "struct X;\n")]);
            assert!(edges.contains(&("a".to_owned(), "b::c".to_owned())), "{text}: {edges:?}");
        }
    }
}
