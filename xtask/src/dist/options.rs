//! Options of `cargo xtask dist`.

use std::path::{Path, PathBuf};

use super::target::Target;

const USAGE: &str = "usage: cargo xtask dist [OPTIONS]

  --target T       target to build for; may be repeated. By default static programs for x86-64 and aarch64, those of
                   them whose standard library is installed
  --out DIR        folder to write to; target/dist by default
  --key FILE       key that signs, as `leyden bundle` makes it; made if FILE is missing. Without it nothing is signed
  --build-std      build the standard library of a musl target from the compiler's source (Debian: rust-web-src)
  --program FILE   package this program instead of building one; needs one --target
  --pages FILE     program whose completions and manual pages are packaged, if the built one does not run here
  --runner TEXT    command before the program, to run one of another processor, such as \"qemu-aarch64 -cpu max\"
  --wheel          add the Python wheel, by `cargo xtask wheel`";

/// Options.
#[derive(Debug, Default)]
pub(super) struct Options {
    triples: Vec<String>,
    pub(super) out: PathBuf,
    pub(super) key: Option<PathBuf>,
    pub(super) build_std: bool,
    pub(super) program: Option<PathBuf>,
    pub(super) pages: Option<PathBuf>,
    pub(super) runner: Option<String>,
    pub(super) wheel: bool,
}

impl Options {
    /// Parses the arguments.
    pub(super) fn parse(root: &Path, arguments: &[String]) -> Result<Options, String> {
        let mut options = Options { out: root.join("target/dist"), ..Options::default() };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().cloned().ok_or_else(|| format!("{word}: a value is missing\n\n{USAGE}"));
            match &word[..] {
                "--target" => options.triples.push(value()?),
                "--out" => options.out = value()?.into(),
                "--key" => options.key = Some(value()?.into()),
                "--program" => options.program = Some(value()?.into()),
                "--pages" => options.pages = Some(value()?.into()),
                "--runner" => options.runner = Some(value()?),
                "--build-std" => options.build_std = true,
                "--wheel" => options.wheel = true,
                "--help" | "-h" => return Err(USAGE.to_owned()),
                _ => return Err(format!("unknown option {word}\n\n{USAGE}")),
            }
        }
        if options.program.is_some() && options.triples.len() != 1 {
            return Err("--program: name the program's target with one --target".to_owned());
        }
        Ok(options)
    }

    /// Returns the targets to package.
    pub(super) fn targets(&self) -> Result<Vec<Target>, String> {
        if !self.triples.is_empty() {
            return self.triples.iter().map(|triple| Target::new(triple)).collect();
        }
        let mut found = Vec::new();
        for target in Target::usual() {
            match target.check(self.build_std) {
                Ok(()) => found.push(target),
                Err(what) => println!("{}: left out: {what}", target.triple),
            }
        }
        if found.is_empty() {
            return Err("no target can be built; see the reasons above".to_owned());
        }
        Ok(found)
    }
}
