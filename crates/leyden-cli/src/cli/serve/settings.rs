//! [`Settings`] of each served model, from the options and from the file of `--config`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leyden::{KvType, Pooling, SamplingParams};
use leyden_server::Promise;
use toml::{Table, Value};

use super::args::{Args, Idle};
use super::calibration::CalibrationSettings;
use super::slo;
use super::tls::Tls;
use super::toml_values::{text, unknown};
use crate::cli::failure::Failure;
use crate::cli::lora::{self, Named};

/// Settings of one model.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) aliases: Vec<String>,
    pub(super) context: Option<usize>,
    pub(super) parallel: usize,
    pub(super) kv_tokens: Option<usize>,
    pub(super) state_cache: Option<u64>,
    pub(super) step_tokens: usize,
    pub(super) kv_type: KvType,
    pub(super) pooling: Option<Pooling>,
    pub(super) special_in_content: bool,
    pub(super) bare_calls: bool,
    pub(super) speculate: bool,
    /// Draft model: MODEL, and once it is found its file or folder.
    pub(super) draft: Option<PathBuf>,
    /// Service level objective under which requests are admitted.
    pub(super) promise: Option<Promise>,
    pub(super) sampling: SamplingParams,
    /// Time after the last request before it is unloaded; `None`: until other models need the memory.
    pub(super) idle: Option<Duration>,
    pub(super) preload: bool,
    pub(super) lora: Vec<Named>,
    pub(super) calibration: CalibrationSettings,
}

impl Settings {
    /// Returns the settings of all models from the options.
    pub(super) fn of(args: &Args) -> Settings {
        Settings {
            aliases: Vec::new(),
            context: args.ctx.filter(|n| *n > 0).map(|n| n as usize),
            parallel: args.parallel as usize,
            kv_tokens: args.kv_tokens.map(|n| n as usize),
            state_cache: args.state_cache,
            step_tokens: args.step_tokens as usize,
            kv_type: args.kv_type,
            pooling: args.pooling,
            special_in_content: args.special_in_content,
            bare_calls: !args.no_bare_calls,
            speculate: !args.no_speculation,
            draft: args.draft.clone(),
            promise: args.slo,
            sampling: SamplingParams::default(),
            idle: args.idle_unload.0,
            preload: false,
            lora: Vec::new(),
            calibration: CalibrationSettings::default(),
        }
    }

    /// Returns the maximum number of running requests; each has at least one token in a step.
    pub(super) fn parallel(&self) -> usize {
        self.parallel.min(self.step_tokens)
    }
}

/// Model of the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    /// MODEL, as on the command line.
    pub(super) model: PathBuf,
    pub(super) settings: Settings,
}

/// Contents of the file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) entries: Vec<Entry>,
    pub(super) tls: Tls,
}

type Setter = fn(&mut Entry, &Value) -> Result<(), String>;

/// Keys of a model in the file.
const KEYS: &[(&str, Setter)] = &[
    ("model", |e, v| text(v).map(|text| e.model = PathBuf::from(text))),
    ("aliases", |e, v| {
        let all = v.as_array().ok_or("must be a list of texts")?;
        e.settings.aliases = all.iter().map(|v| text(v).map(str::to_owned)).collect::<Result<_, _>>()?;
        Ok(())
    }),
    ("ctx", |e, v| whole(v, 1 << 30).map(|n| e.settings.context = Some(n).filter(|n| *n > 0))),
    ("parallel", |e, v| from_1(v, 4096).map(|n| e.settings.parallel = n)),
    ("kv_tokens", |e, v| from_1(v, 1 << 30).map(|n| e.settings.kv_tokens = Some(n))),
    ("state_cache", |e, v| {
        e.settings.state_cache = Some(crate::cli::sizes::bytes_or_none(text(v)?)?);
        Ok(())
    }),
    ("step_tokens", |e, v| from_1(v, 65536).map(|n| e.settings.step_tokens = n)),
    ("kv_type", |e, v| {
        e.settings.kv_type = crate::cli::run::kv_type(text(v)?)?;
        Ok(())
    }),
    ("pooling", |e, v| {
        e.settings.pooling = Some(text(v)?.parse()?);
        Ok(())
    }),
    ("special_in_content", |e, v| flag(v).map(|on| e.settings.special_in_content = on)),
    ("bare_calls", |e, v| flag(v).map(|on| e.settings.bare_calls = on)),
    ("speculation", |e, v| flag(v).map(|on| e.settings.speculate = on)),
    ("draft", |e, v| text(v).map(|text| e.settings.draft = Some(PathBuf::from(text)))),
    ("slo", |e, v| {
        e.settings.promise = match text(v)? {
            "none" => None,
            text => Some(slo::promise(text)?),
        };
        Ok(())
    }),
    ("temperature", |e, v| number(v, 0.0, 2.0).map(|x| e.settings.sampling.temperature = x)),
    ("top_k", |e, v| whole(v, 1 << 30).map(|n| e.settings.sampling.top_k = n)),
    ("top_p", |e, v| number(v, 0.0, 1.0).map(|x| e.settings.sampling.top_p = x)),
    ("min_p", |e, v| number(v, 0.0, 1.0).map(|x| e.settings.sampling.min_p = x)),
    ("repeat_penalty", |e, v| number(v, 0.1, 10.0).map(|x| e.settings.sampling.penalties.repeat = x)),
    ("idle_unload", |e, v| {
        e.settings.idle = text(v)?.parse::<Idle>()?.0;
        Ok(())
    }),
    ("lora", |e, v| {
        e.settings.lora.extend(texts(v, lora::named)?);
        Ok(())
    }),
    ("lora_scaled", |e, v| {
        e.settings.lora.extend(texts(v, lora::with_scale)?);
        Ok(())
    }),
    ("preload", |e, v| flag(v).map(|on| e.settings.preload = on)),
    ("calibration", |e, v| text(v).map(|text| e.settings.calibration.file = Some(PathBuf::from(text)))),
    ("coverage", |e, v| share(v).map(|x| e.settings.calibration.coverage = Some(x))),
    ("per_class", |e, v| flag(v).map(|on| e.settings.calibration.per_class = on)),
    ("max_set", |e, v| from_1(v, 256).map(|n| e.settings.calibration.max_set = Some(n))),
    ("max_error", |e, v| share(v).map(|x| e.settings.calibration.max_error = Some(x))),
    ("confidence", |e, v| share(v).map(|x| e.settings.calibration.confidence = Some(x))),
    ("fallback", |e, v| text(v).map(|text| e.settings.calibration.fallback = Some(text.to_owned()))),
];

/// Parses each text of a list.
fn texts<T>(value: &Value, read: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let all = value.as_array().ok_or("must be a list of texts")?;
    all.iter().map(|value| text(value).and_then(read)).collect()
}

fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "must be true or false".to_owned())
}

fn whole(value: &Value, most: usize) -> Result<usize, String> {
    let n = value.as_integer().and_then(|n| usize::try_from(n).ok());
    n.filter(|n| *n <= most).ok_or_else(|| format!("must be an integer up to {most}"))
}

fn from_1(value: &Value, most: usize) -> Result<usize, String> {
    whole(value, most).and_then(|n| if n == 0 { Err("must be at least 1".to_owned()) } else { Ok(n) })
}

fn number(value: &Value, least: f64, most: f64) -> Result<f32, String> {
    let x = value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    let x = x.filter(|x| (least..=most).contains(x));
    x.map(|x| x as f32).ok_or_else(|| format!("must be a number from {least} to {most}"))
}

/// Returns a number between 0 and 1.
fn share(value: &Value) -> Result<f64, String> {
    let x = value.as_float().filter(|x| *x > 0.0 && *x < 1.0);
    x.ok_or_else(|| "must be a number between 0 and 1".to_owned())
}

/// Reads the file: a table `[tls]` like the options of TLS, and a table `[models.NAME]` for each model, with `model` like MODEL on the command line and the other
/// keys like the options. Missing keys have the values of the options.
pub(super) fn read(path: &Path, args: &Args) -> Result<File, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| Failure::new(format!("{shown}: {error}")))?;
    parse(&text, &Settings::of(args)).map_err(|what| Failure::new(format!("{shown}: {what}")))
}

fn parse(text: &str, settings: &Settings) -> Result<File, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim().to_owned())?;
    if let Some(key) = file.keys().find(|key| !["models", "tls"].contains(&key.as_str())) {
        return Err(unknown(key, ["models", "tls"].into_iter()));
    }
    let tls = file.get("tls").map(Tls::of_table).transpose()?.unwrap_or_default();
    let models = match file.get("models") {
        Some(Value::Table(models)) if !models.is_empty() => models,
        _ => return Err("there is no table [models.NAME]".to_owned()),
    };
    let mut entries = Vec::new();
    for (name, of) in models {
        let of = of.as_table().ok_or_else(|| format!("models.{name} must be a table"))?;
        let mut entry = Entry { name: name.clone(), model: PathBuf::new(), settings: settings.clone() };
        for (key, value) in of {
            let known = KEYS.iter().find(|(known, _)| known == key);
            let set = known.ok_or_else(|| {
                format!("models.{name}.{}", unknown(key, KEYS.iter().map(|(known, _)| *known)))
            })?;
            set.1(&mut entry, value).map_err(|what| format!("models.{name}.{key}: {what}"))?;
        }
        if entry.model.as_os_str().is_empty() {
            return Err(format!("models.{name}.model is missing: the file, folder or name of the model"));
        }
        let checked = entry.settings.calibration.check();
        checked.map_err(|(key, what)| format!("models.{name}.{key}: {what}"))?;
        entries.push(entry);
    }
    check_fallbacks(&entries)?;
    Ok(File { entries, tls })
}

/// Checks that the models for abstained texts are other models of the file.
fn check_fallbacks(entries: &[Entry]) -> Result<(), String> {
    let is_named =
        |entry: &Entry, name: &String| entry.name == *name || entry.settings.aliases.contains(name);
    for entry in entries {
        let Some(fallback) = &entry.settings.calibration.fallback else { continue };
        let name = &entry.name;
        if is_named(entry, fallback) {
            return Err(format!("models.{name}.fallback: the model itself cannot answer for it"));
        }
        if !entries.iter().any(|other| is_named(other, fallback)) {
            let known: Vec<&str> =
                entries.iter().map(|other| &other.name[..]).filter(|n| n != name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("models.{name}.fallback: there is no model `{fallback}`; others: {known}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            aliases: Vec::new(),
            context: None,
            parallel: 64,
            kv_tokens: None,
            state_cache: None,
            step_tokens: 512,
            kv_type: KvType::default(),
            pooling: None,
            special_in_content: false,
            bare_calls: true,
            speculate: true,
            draft: None,
            promise: None,
            sampling: SamplingParams::default(),
            idle: Some(Duration::from_secs(300)),
            preload: false,
            lora: Vec::new(),
            calibration: CalibrationSettings::default(),
        }
    }

    #[test]
    fn a_file_says_what_differs() {
        let text = "[models.chat]\nmodel = \"smollm2\"\naliases = [\"gpt-4o\"]\nctx = 4096\nstate_cache = \"512MiB\"\ntemperature = 0\n\
                    kv_type = \"q8_0\"\nidle_unload = \"never\"\npreload = true\nslo = \"ttft_p95=2s\"\nbare_calls = false\nlora = [\"pirate=/p\", \"/q\"]\nlora_scaled = [\"/r:0.5\"]\n[models.\"org/other\"]\nmodel = \"/m.gguf\"\n";
        let all = parse(text, &settings()).unwrap().entries;
        assert_eq!(all.len(), 2);
        let chat = all.iter().find(|e| e.name == "chat").unwrap();
        assert_eq!((chat.settings.context, chat.settings.sampling.temperature), (Some(4096), 0.0));
        assert!(
            chat.settings.preload
                && chat.settings.state_cache == Some(512 << 20)
                && !chat.settings.bare_calls
                && chat.settings.promise.is_some_and(|promise| promise.to_string() == "ttft_p95<=2s")
                && chat.settings.idle.is_none()
                && chat.settings.kv_type == KvType::Q8_0
        );
        let lora: Vec<(Option<&str>, f32)> =
            chat.settings.lora.iter().map(|lora| (lora.name.as_deref(), lora.scale)).collect();
        assert_eq!(lora, [(Some("pirate"), 0.0), (None, 1.0), (None, 0.5)]);
        let other = all.iter().find(|e| e.name == "org/other").unwrap();
        assert_eq!((other.settings.parallel, &*other.model), (64, Path::new("/m.gguf")));
    }

    #[test]
    fn a_calibration_has_a_promise_and_another_model() {
        let text = "[models.small]\nmodel = \"s\"\ncalibration = \"s.json\"\ncoverage = 0.95\nper_class = true\n\
                    max_set = 3\nfallback = \"large\"\n[models.big]\nmodel = \"b\"\naliases = [\"large\"]";
        let all = parse(text, &settings()).unwrap().entries;
        let small = all.iter().find(|e| e.name == "small").unwrap();
        let wanted = CalibrationSettings {
            file: Some(PathBuf::from("s.json")),
            coverage: Some(0.95),
            per_class: true,
            max_set: Some(3),
            fallback: Some("large".to_owned()),
            ..CalibrationSettings::default()
        };
        assert_eq!(small.settings.calibration, wanted);
        for (keys, wanted) in [
            ("coverage = 0.9", "models.a.coverage: needs `calibration`"),
            ("fallback = \"b\"", "models.a.fallback: needs `calibration`"),
            ("calibration = \"c\"\ncoverage = 1", "models.a.coverage: must be a number between 0 and 1"),
            ("calibration = \"c\"\nmax_set = 2", "models.a.max_set: needs `coverage`"),
            ("calibration = \"c\"\nconfidence = 0.9", "models.a.confidence: needs `max_error`"),
            ("calibration = \"c\"\ncoverage = 0.9\nmax_error = 0.1", "exclude each other"),
            ("calibration = \"c\"\nfallback = \"a\"", "the model itself"),
            ("calibration = \"c\"\nfallback = \"x\"", "there is no model `x`; others: none"),
        ] {
            let error = parse(&format!("[models.a]\nmodel = \"x\"\n{keys}"), &settings()).unwrap_err();
            assert!(error.contains(wanted), "{keys}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wanted) in [
            (
                "[models.a]\nmodel = \"x\"\ntemprature = 1",
                "models.a.temprature: unknown setting; did you mean `temperature`?",
            ),
            ("[model.a]\nmodel = \"x\"", "model: unknown setting; did you mean `models`?"),
            ("[models.a]\nctx = 1", "models.a.model is missing"),
            ("[models.a]\nmodel = \"x\"\nctx = -1", "models.a.ctx: must be an integer"),
            ("[models.a]\nmodel = \"x\"\nidle_unload = \"soon\"", "models.a.idle_unload: "),
            ("[models.a]\nmodel = \"x\"\nparallel = 0", "at least 1"),
            ("[models.a]\nmodel = \"x\"\nslo = \"ttft=1s\"", "models.a.slo: ttft=1s: it lacks a percentile"),
            ("[models.a]\nmodel = \"x\"\nlora = \"y\"", "models.a.lora: must be a list of texts"),
            ("[models.a]\nmodel = \"x\"\nlora_scaled = [\"y\"]", "models.a.lora_scaled: must be FILE:SCALE"),
            ("[models.a", "line 1"),
            ("", "no table [models.NAME]"),
        ] {
            let error = parse(text, &settings()).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
