//! `leyden create`: a named model with defaults, from a Modelfile of Ollama.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use leyden_hub::Store;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::notes::Notes;
use super::{import, model_file};

/// Reads the instructions FROM (a name, file or folder), SYSTEM, MESSAGE, and PARAMETER with sampling fields of
/// requests. The server uses them as defaults of requests.
///
/// TEMPLATE and ADAPTER are refused: Ollama's templates are Go templates, which leyden does not support.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the new model
    name: String,
    /// Modelfile; `-` is standard input
    #[arg(long, short, value_name = "FILE", default_value = "Modelfile")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    notes: Notes,
}

/// Maximum size of a Modelfile in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Instructions of a Modelfile.
#[derive(Debug, Default, PartialEq)]
struct Modelfile {
    from: String,
    system: Option<String>,
    messages: Vec<Value>,
    parameters: Map<String, Value>,
}

/// Adds the name with its defaults to the store.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let shown = args.file.display();
    let failed = |what: String| Failure::new(format!("{shown}: {what}"));
    let text = read(&args.file).map_err(|error| failed(error.to_string()))?;
    let Modelfile { from, system, messages, parameters } = parse(&text).map_err(failed)?;
    let (read, ignored) = leyden_server::Defaults::read(system, &messages, &Value::Object(parameters))
        .map_err(|what| failed(what.replace("parameters.", "PARAMETER ").replace("messages", "MESSAGE")))?;
    for name in ignored {
        args.notes.say(&format!("{shown}: PARAMETER {name} is ignored; use the options of leyden serve"));
    }
    // A path is relative to the Modelfile's folder.
    let beside = args.file.parent().unwrap_or(Path::new("")).join(&from);
    let path = if beside.exists() { beside } else { model_file::locate(Path::new(&from))? };
    import::check(&path)?;
    let defaults = leyden_hub::Defaults {
        system: read.system().map(str::to_owned),
        messages: read.messages().to_vec(),
        parameters: read.parameters().clone(),
    };
    import::report(&Store::from_env()?.give_name(&path, &args.name, defaults)?, args.json, out)
}

/// Reads the text of a file, or of standard input for `-`.
fn read(path: &Path) -> io::Result<String> {
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let mut text = String::new();
    let bytes = input.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if bytes as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

/// Parses a Modelfile: one instruction per line; a value in three quotes may have several lines.
fn parse(text: &str) -> Result<Modelfile, String> {
    let mut file = Modelfile::default();
    let mut lines = text.lines().enumerate();
    while let Some((i, line)) = lines.next() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |what: String| format!("line {}: {what}", i + 1);
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let word = word.to_ascii_uppercase();
        // These two instructions have a name before the value.
        let rest = rest.trim();
        let (name, value) = match word.as_str() {
            "PARAMETER" | "MESSAGE" => {
                let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                (name, value.trim())
            }
            _ => ("", rest),
        };
        let value = match value.strip_prefix("\"\"\"") {
            Some(begun) => {
                let mut inside = begun.to_owned();
                while !inside.contains("\"\"\"") {
                    let (_, next) =
                        lines.next().ok_or_else(|| at("three quotes are not closed".to_owned()))?;
                    inside.push('\n');
                    inside.push_str(next);
                }
                let end = inside.find("\"\"\"").unwrap_or(inside.len());
                inside.truncate(end);
                inside.trim_matches('\n').to_owned()
            }
            None => value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).to_owned(),
        };
        match word.as_str() {
            "FROM" if file.from.is_empty() && !value.is_empty() => file.from = value,
            "FROM" => return Err(at("there must be one FROM with one model".to_owned())),
            "SYSTEM" => file.system = Some(value),
            "PARAMETER" if name.is_empty() || value.is_empty() => {
                return Err(at("PARAMETER needs a name and a value".to_owned()));
            }
            "PARAMETER" => parameter(name, value, &mut file.parameters),
            "MESSAGE" => file.messages.push(json!({ "role": name, "content": value })),
            "LICENSE" | "REQUIRES" => {}
            "TEMPLATE" => {
                let what = "TEMPLATE is not supported: it is a Go template; remove it to use the model's own chat template";
                return Err(at(what.to_owned()));
            }
            "ADAPTER" => {
                let what = "ADAPTER is not supported: use --lora, or `lora` in the file of --config";
                return Err(at(what.to_owned()));
            }
            other => return Err(at(format!("unknown instruction {other}"))),
        }
    }
    if file.from.is_empty() { Err("FROM is missing".to_owned()) } else { Ok(file) }
}

/// Adds a parameter as a number, a boolean, or else a text; stop strings become a list.
fn parameter(name: &str, value: String, parameters: &mut Map<String, Value>) {
    let name = name.to_ascii_lowercase();
    if name == "stop" {
        match parameters.get_mut(&name).and_then(Value::as_array_mut) {
            Some(all) => all.push(value.into()),
            None => drop(parameters.insert(name, json!([value]))),
        }
        return;
    }
    let plain = serde_json::from_str::<Value>(&value).ok().filter(|v| v.is_number() || v.is_boolean());
    parameters.insert(name, plain.unwrap_or(Value::String(value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modelfile_is_read() {
        let file = parse(
            "# mine\nFROM smollm2:135m\nPARAMETER temperature 0.5\nparameter stop \"<end>\"\nPARAMETER stop two words\n\
             PARAMETER num_ctx 4096\nPARAMETER use_mmap false\nSYSTEM \"\"\"\nBe brief.\nAnd kind.\n\"\"\"\nLICENSE x\n\
             MESSAGE user Is 2 even?\nMESSAGE assistant \"\"\"Yes,\nit is.\"\"\"\n",
        )
        .unwrap();
        assert_eq!(file.from, "smollm2:135m");
        assert_eq!(file.system.as_deref(), Some("Be brief.\nAnd kind."));
        let wanted =
            json!({ "temperature": 0.5, "stop": ["<end>", "two words"], "num_ctx": 4096, "use_mmap": false });
        assert_eq!(Value::Object(file.parameters), wanted);
        let (user, assistant) = (&file.messages[0], &file.messages[1]);
        assert_eq!(*user, json!({ "role": "user", "content": "Is 2 even?" }));
        assert_eq!(*assistant, json!({ "role": "assistant", "content": "Yes,\nit is." }));
        assert_eq!(parse("FROM a\nSYSTEM \"Hi.\"").unwrap().system.as_deref(), Some("Hi."));
    }

    #[test]
    fn unsupported_instructions_are_named() {
        for (text, wanted) in [
            ("", "FROM is missing"),
            ("FROM a\nFROM b", "line 2: there must be one FROM"),
            ("FROM a\nTEMPLATE \"\"\"{{ .Prompt }}\"\"\"", "line 2: TEMPLATE is not supported"),
            ("FROM a\nADAPTER x", "ADAPTER is not supported"),
            ("FROM a\nPARAMETER temperature", "PARAMETER needs a name and a value"),
            ("FROM a\nSYSTEM \"\"\"open", "three quotes are not closed"),
            ("FROM a\nFORM b", "unknown instruction FORM"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
