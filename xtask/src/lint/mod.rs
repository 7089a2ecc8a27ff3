//! The repository's own rules about its code, which a compiler lint cannot express.
//!
//! A [`Rule`] checks one [`Source`], a file whose comments and literals are separated from its code, and reports
//! [`Finding`]s. `ARCHITECTURE.md` lists the rules under "Invariants".

mod architectures;
mod commits;
mod environment;
mod floors;
mod imports;
mod isa;
mod nightly_record;
mod runtime;
mod size;
mod source;
mod state;
mod unsafe_code;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use source::Source;

/// A violation of a rule, or a remark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Line, from 1; 0 for the file as a whole.
    line: usize,
    message: String,
    /// True for a remark, which does not fail the check.
    remark: bool,
}

impl Finding {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into(), remark: false }
    }
}

/// Facts about the repository that rules may use beyond the checked file.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Names of architectures, from the names of the files that implement them.
    architectures: BTreeSet<String>,
    /// Imports between the modules of each crate.
    imports: imports::Imports,
}

/// One rule.
struct Rule {
    name: &'static str,
    check: fn(&Source, &Facts) -> Vec<Finding>,
}

/// Every rule, one per line.
const RULES: &[Rule] = &[
    Rule { name: "unsafe", check: unsafe_code::check },
    Rule { name: "isa", check: isa::check },
    Rule { name: "runtime", check: runtime::check },
    Rule { name: "environment", check: environment::check },
    Rule { name: "architectures", check: architectures::check },
    Rule { name: "size", check: size::check },
    Rule { name: "floors", check: floors::check },
    Rule { name: "state", check: state::check },
    Rule { name: "wording", check: wording::check },
];

/// Number of rules that check no source file: commits, and the record of the nightly run.
const OTHER_RULES: usize = 2;

/// Checks the tree at `root`, and the commits after `--since COMMIT` or after `origin/main`; the error is the summary
/// line.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let since = match arguments {
        [] => None,
        [option, commit] if option == "--since" => Some(commit.as_str()),
        _ => return Err("usage: cargo xtask lint [--since COMMIT]".to_owned()),
    };
    let sources = load(root)?;
    let facts = facts(&sources);
    let mut broken = 0;
    let mut report = |path: &str, finding: &Finding, rule: &str| {
        let kind = if finding.remark { "remark" } else { "broken" };
        println!("{path}:{}: {kind}: {} [{rule}]", finding.line, finding.message);
        broken += usize::from(!finding.remark);
    };
    for source in &sources {
        for rule in RULES {
            for finding in (rule.check)(source, &facts) {
                report(&source.path, &finding, rule.name);
            }
        }
    }
    for (commit, finding) in &commits::check(root, since)? {
        report(commit, finding, "commits");
    }
    for finding in &nightly_record::check(root) {
        report(nightly_record::PATH, finding, "nightly");
    }
    let rules = RULES.len() + OTHER_RULES;
    let summary = format!("lint: {rules} rules, {} files, {broken} broken", sources.len());
    if broken == 0 {
        println!("{summary}");
        Ok(())
    } else {
        Err(summary)
    }
}

/// Returns the numbers of the lines outside tests of each file.
pub(crate) fn lines_outside_tests(root: &Path) -> Result<BTreeMap<String, BTreeSet<usize>>, String> {
    let lines = |source: &Source| source.lines().map(|(number, _)| number).collect();
    Ok(load(root)?.iter().map(|source| (source.path.clone(), lines(source))).collect())
}

fn facts(sources: &[Source]) -> Facts {
    let architectures = sources
        .iter()
        .filter_map(|source| source.path.strip_prefix(architectures::HOME)?.strip_suffix(".rs"))
        .filter(|name| *name != "mod" && !name.contains('/'))
        .map(str::to_owned)
        .collect();
    Facts { architectures, imports: imports::imports(sources) }
}

/// Reads every file that a rule checks.
fn load(root: &Path) -> Result<Vec<Source>, String> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask", "fuzz"] {
        walk(&root.join(folder), &mut files)?;
    }
    files.push(root.join("ARCHITECTURE.md"));
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        sources.push(Source::new(path, &text));
    }
    // `#[cfg(test)] mod name;` marks another file as a test, and with `name/mod.rs` all files of its folder.
    let test_files: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    let is_test = |path: &str| {
        let mut folders = test_files.iter().filter_map(|file| file.strip_suffix("mod.rs"));
        test_files.contains(path) || folders.any(|folder| path.starts_with(folder))
    };
    for source in &mut sources {
        if is_test(&source.path) {
            source.mark_as_test();
        }
    }
    Ok(sources)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with("target") && name != "fixtures" && name != "golden" {
                walk(&path, files)?;
            }
        } else if name.ends_with(".rs") || name == "Cargo.toml" {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the messages of a rule for one made-up file.
    pub(crate) fn findings(
        check: fn(&Source, &Facts) -> Vec<Finding>,
        path: &str,
        text: &str,
        architectures: &[&str],
    ) -> Vec<usize> {
        let architectures = architectures.iter().map(|&a| a.to_owned()).collect();
        let facts = Facts { architectures, ..Facts::default() };
        let found = check(&Source::new(path.to_owned(), text), &facts);
        found.into_iter().filter(|f| !f.remark).map(|f| f.line).collect()
    }

    #[test]
    fn this_repository_passes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        assert_eq!(run(&root, &[]), Ok(()));
    }

    #[test]
    fn a_broken_tree_fails() {
        let root = std::env::temp_dir().join(format!("xtask-lint-{}", std::process::id()));
        let file = root.join("crates/leyden-text/src/lib.rs");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(root.join("ARCHITECTURE.md"), "# Map\n").unwrap();
        fs::write(&file, "fn f() { unsafe { g() } }\n").unwrap();
        let result = run(&root, &[]);
        fs::remove_dir_all(&root).unwrap();
        let rules = RULES.len() + OTHER_RULES;
        assert_eq!(result, Err(format!("lint: {rules} rules, 2 files, 1 broken")));
    }

    #[test]
    fn the_files_of_a_module_declared_for_tests_are_test_files() {
        let root = std::env::temp_dir().join(format!("xtask-testmod-{}", std::process::id()));
        let src = root.join("crates/x/src");
        fs::create_dir_all(&src).unwrap();
        fs::write(root.join("ARCHITECTURE.md"), "# Map\n").unwrap();
        fs::write(src.join("lib.rs"), "#[cfg(test)]\nmod conformance;\n").unwrap();
        fs::create_dir(src.join("conformance")).unwrap();
        fs::write(src.join("conformance/mod.rs"), "mod part;\n").unwrap();
        fs::write(src.join("conformance/part.rs"), "fn f() { std::env::var(\"X\"); }\n").unwrap();
        let result = run(&root, &[]);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(result, Ok(()));
    }
}
