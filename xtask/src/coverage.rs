//! `cargo xtask coverage`: the lines of each crate that its tests run.
//!
//! Tests are built with `-C instrument-coverage` in a target folder of their own, and LLVM's tools read what they
//! counted. Lines of tests are not counted.

use crate::command::output;
use crate::lint;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "usage: cargo xtask coverage [-p CRATE]… [-- ARGUMENTS OF cargo test]";

/// Number of lines with code, and of those that tests ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: usize,
    run: usize,
}

/// Runs the tests of the named crates, or of all, and prints a table of the crates. Failing tests are an error after it.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let tools = Tools::find(root)?;
    let folder = root.join("target/coverage");
    let profiles = folder.join("profiles");
    if profiles.exists() {
        std::fs::remove_dir_all(&profiles).map_err(|e| format!("{}: {e}", profiles.display()))?;
    }
    let test = |more: &[&str]| {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--release", "--no-fail-fast"]).args(more).args(selection(arguments)?);
        cargo.env("RUSTFLAGS", "-C instrument-coverage").env("CARGO_TARGET_DIR", &folder);
        cargo.env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw")).current_dir(root);
        Ok::<Command, String>(cargo)
    };
    let built = test(&["--no-run", "--message-format=json"])?.stderr(std::process::Stdio::inherit()).output();
    let built = built.map_err(|e| format!("cargo: {e}"))?;
    if !built.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    let programs = executables(&String::from_utf8_lossy(&built.stdout));
    let passed = test(&[])?.status().map_err(|e| format!("cargo: {e}"))?.success();
    let counts = tools.counts(root, &profiles, &programs)?;
    let code = lint::lines_outside_tests(root)?;
    let mut crates = by_crate(root, &counts, &code);
    // Tests of the chosen crates run a part of the crates below them, too.
    let chosen = chosen(arguments);
    crates.retain(|name, _| chosen.is_empty() || chosen.contains(&name.as_str()));
    if crates.is_empty() {
        return Err("no line of the chosen crates was counted: are they crates of `crates/`?".to_owned());
    }
    print(&crates);
    if passed { Ok(()) } else { Err("a test failed; its crate's figure may be too low".to_owned()) }
}

/// Returns the names after `-p`.
fn chosen(arguments: &[String]) -> Vec<&str> {
    let own = arguments.split(|argument| argument == "--").next().unwrap_or_default();
    own.chunks(2).filter_map(|pair| pair.get(1).map(String::as_str)).collect()
}

/// Returns the arguments of `cargo test`.
fn selection(arguments: &[String]) -> Result<Vec<&str>, String> {
    let (own, more) = match arguments.iter().position(|argument| argument == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &arguments[..0]),
    };
    let mut chosen = Vec::new();
    for pair in own.chunks(2) {
        match pair {
            [option, name] if option == "-p" => chosen.extend(["-p", name]),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if chosen.is_empty() {
        chosen.push("--workspace");
    }
    chosen.extend(more.iter().map(String::as_str));
    Ok(chosen)
}

/// Returns the programs that cargo's messages name: tests, and the programs that these start.
fn executables(messages: &str) -> Vec<PathBuf> {
    let program = |line: &str| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    };
    messages.lines().filter_map(program).collect()
}

/// LLVM's programs that read profiles.
struct Tools {
    profdata: PathBuf,
    cov: PathBuf,
}

impl Tools {
    /// Finds them beside the compiler, or those of the system that are of the compiler's version.
    fn find(root: &Path) -> Result<Tools, String> {
        let sysroot = output(root, "rustc", &["--print", "sysroot"])?;
        let version = output(root, "rustc", &["-vV"])?;
        let field = |name: &str| version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let (host, llvm) = (field("host: "), field("LLVM version: "));
        let major = llvm.split('.').next().unwrap_or_default();
        let folder = Path::new(&sysroot).join("lib/rustlib").join(host).join("bin");
        let find = |name: &str| {
            let own = folder.join(name);
            let system = format!("{name}-{major}");
            match own.exists() {
                true => Some(own),
                false => output(root, &system, &["--version"]).ok().map(|_| PathBuf::from(system)),
            }
        };
        match (find("llvm-profdata"), find("llvm-cov")) {
            (Some(profdata), Some(cov)) => Ok(Tools { profdata, cov }),
            _ => Err(format!(
                "llvm-profdata and llvm-cov of LLVM {major} are missing: `rustup component add llvm-tools`, or Debian's \
                 llvm-{major}"
            )),
        }
    }

    /// Returns the number of runs of each line.
    fn counts(&self, root: &Path, profiles: &Path, programs: &[PathBuf]) -> Result<Counts, String> {
        let merged = profiles.join("all.profdata");
        let text = |path: &Path| path.display().to_string();
        let raw = std::fs::read_dir(profiles).map_err(|e| format!("{}: {e}", profiles.display()))?;
        let list = profiles.join("list");
        let mut names = String::new();
        for entry in raw {
            let path = entry.map_err(|e| e.to_string())?.path();
            names += &format!("{}\n", path.display());
        }
        std::fs::write(&list, names).map_err(|e| format!("{}: {e}", list.display()))?;
        let files = format!("--input-files={}", list.display());
        output(root, &text(&self.profdata), &["merge", "--sparse", &files, "-o", &text(&merged)])?;
        let mut arguments = vec!["export".to_owned(), "--format=lcov".to_owned()];
        arguments.push(format!("--instr-profile={}", merged.display()));
        for program in programs {
            arguments.push(format!("--object={}", program.display()));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Ok(parse(&output(root, &text(&self.cov), &arguments)?))
    }
}

/// Number of runs of each line, by file and line.
type Counts = BTreeMap<String, BTreeMap<usize, u64>>;

/// Parses the format of lcov: a line `SF:FILE` before lines `DA:LINE,COUNT`.
fn parse(text: &str) -> Counts {
    let mut counts = Counts::new();
    let mut file = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("SF:") {
            name.clone_into(&mut file);
        } else if let Some((number, count)) = line.strip_prefix("DA:").and_then(|rest| rest.split_once(','))
            && let (Ok(number), Ok(count)) = (number.parse(), count.parse::<u64>())
        {
            let known = counts.entry(file.clone()).or_default().entry(number).or_default();
            *known = (*known).max(count);
        }
    }
    counts
}

/// Adds up the lines of each crate; `code` has the lines outside tests of each file.
fn by_crate(
    root: &Path,
    counts: &Counts,
    code: &BTreeMap<String, BTreeSet<usize>>,
) -> BTreeMap<String, Lines> {
    let mut crates = BTreeMap::<String, Lines>::new();
    for (file, counts) in counts {
        let path = Path::new(file).strip_prefix(root).unwrap_or(Path::new(file)).display().to_string();
        let Some(code) = code.get(&path) else { continue };
        let Some((name, _)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
            continue;
        };
        let lines = crates.entry(name.to_owned()).or_default();
        for (_, count) in counts.iter().filter(|(line, _)| code.contains(line)) {
            lines.all += 1;
            lines.run += usize::from(*count > 0);
        }
    }
    crates
}

fn print(crates: &BTreeMap<String, Lines>) {
    let row = |name: &str, lines: Lines| {
        let percent = 100.0 * lines.run as f64 / lines.all.max(1) as f64;
        println!("{name:<20} {:>7} {:>7} {percent:>6.1} %", lines.all, lines.run);
    };
    println!("\n{:<20} {:>7} {:>7} {:>8}", "crate", "lines", "run", "share");
    for (name, lines) in crates {
        row(name, *lines);
    }
    let add = |a: Lines, b: &Lines| Lines { all: a.all + b.all, run: a.run + b.run };
    row("total", crates.values().fold(Lines::default(), add));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_counted_by_crate() {
        let text = "SF:/r/crates/a/src/x.rs\nFN:1,f\nDA:1,3\nDA:2,0\nDA:9,5\nend_of_record\nSF:/r/crates/b/src/y.rs\n\
                    DA:4,0\nDA:4,2\nend_of_record\nSF:/other/z.rs\nDA:1,1\n";
        let code = BTreeMap::from([
            // Line 9 is a test.
            ("crates/a/src/x.rs".to_owned(), BTreeSet::from([1, 2, 3])),
            ("crates/b/src/y.rs".to_owned(), BTreeSet::from([4])),
        ]);
        let found = by_crate(Path::new("/r"), &parse(text), &code);
        assert_eq!(found["a"], Lines { all: 2, run: 1 });
        assert_eq!(found["b"], Lines { all: 1, run: 1 });
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn arguments_select_crates() {
        let of = |arguments: &[&str]| {
            let owned: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
            selection(&owned).map(|chosen| chosen.join(" "))
        };
        assert_eq!(of(&[]).as_deref(), Ok("--workspace"));
        assert_eq!(of(&["-p", "a", "-p", "b", "--", "--lib"]).as_deref(), Ok("-p a -p b --lib"));
        assert!(of(&["-p"]).is_err() && of(&["a", "b"]).is_err());
        let owned = ["-p", "a", "-p", "b", "--", "--lib", "c"].map(str::to_owned);
        assert_eq!(chosen(&owned), ["a", "b"]);
        assert!(chosen(&[]).is_empty());
    }
}
