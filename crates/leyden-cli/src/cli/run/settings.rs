//! [`Settings`] of a conversation, and their changes by `/set`.

use super::args::max_tokens as max_tokens_of;
use super::sampling::check_temperature;
use super::think::Think;
use crate::cli::failure::Failure;
use leyden::GenerateOptions;

/// Settings of a conversation.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// System message.
    pub(super) system: Option<String>,
    /// Amount of reasoning; `None` for the model's default.
    pub(super) think: Option<Think>,
    /// True if the speed is shown after each answer.
    pub(super) verbose: bool,
    /// True if the oldest turns are dropped when the context is full.
    pub(super) trim: bool,
    /// Length of the context in tokens; `None` for that of the model.
    pub(super) context: Option<usize>,
    /// Sampling and maximum number of tokens.
    pub(super) generate: GenerateOptions,
}

/// A setting.
struct Setting {
    name: &'static str,
    values: &'static str,
    help: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    show: fn(&Settings) -> String,
}

/// Every setting, one line each.
const SETTINGS: &[Setting] = &[
    Setting {
        name: "system",
        values: "TEXT",
        help: "system message; empty for none",
        set: system,
        show: |s| s.system.clone().unwrap_or_default(),
    },
    Setting {
        name: "temperature",
        values: "T",
        help: "from 0 to 2",
        set: temperature,
        show: |s| s.generate.sampling.temperature.to_string(),
    },
    Setting {
        name: "top-k",
        values: "N",
        help: "keep the N most probable tokens; 0 for all",
        set: |s, v| number("top-k", v, &mut s.generate.sampling.top_k),
        show: |s| s.generate.sampling.top_k.to_string(),
    },
    Setting {
        name: "top-p",
        values: "P",
        help: "keep the most probable tokens until their probabilities reach this sum; 1 for all",
        set: |s, v| share("top-p", v, &mut s.generate.sampling.top_p),
        show: |s| s.generate.sampling.top_p.to_string(),
    },
    Setting {
        name: "min-p",
        values: "P",
        help: "keep tokens with this share of the best token's probability; 0 for all",
        set: |s, v| share("min-p", v, &mut s.generate.sampling.min_p),
        show: |s| s.generate.sampling.min_p.to_string(),
    },
    Setting {
        name: "num-ctx",
        values: "N",
        help: "context in tokens; 0 for the model's own context",
        set: context,
        show: |s| s.context.map_or("of the model".to_owned(), |n| n.to_string()),
    },
    Setting {
        name: "think",
        values: "on|off|low|medium|high",
        help: "amount of reasoning",
        set: think,
        show: |s| s.think.map_or("of the model", Think::name).to_owned(),
    },
    Setting {
        name: "seed",
        values: "N",
        help: "seed of the random numbers",
        set: seed,
        show: |s| s.generate.sampling.seed.to_string(),
    },
    Setting {
        name: "max-tokens",
        values: "N",
        help: "maximum of tokens in an answer; -1 for no limit",
        set: max_tokens,
        show: |s| s.generate.max_tokens.map_or("-1".to_owned(), |n| n.to_string()),
    },
    Setting {
        name: "trim",
        values: "on|off",
        help: "drop the oldest turns when the context is full",
        set: |s, v| switch(&mut s.trim, v),
        show: |s| on_off(s.trim),
    },
    Setting {
        name: "verbose",
        values: "on|off",
        help: "show the speed after each answer",
        set: |s, v| switch(&mut s.verbose, v),
        show: |s| on_off(s.verbose),
    },
];

/// Returns the names of the settings.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name)
}

impl Settings {
    /// Changes a setting by the argument of `/set`: `NAME VALUE`, optionally with Ollama's `parameter` before it.
    ///
    /// # Errors
    /// The setting or the value does not exist.
    pub(super) fn set(&mut self, text: &str) -> Result<(), Failure> {
        let text = text.strip_prefix("parameter ").unwrap_or(text).trim();
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let value = value.trim();
        let name = name.replace('_', "-");
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            let known: Vec<&str> = names().collect();
            return Err(
                Failure::usage(format!("no setting `{name}`")).hint(format!("known: {}", known.join(", ")))
            );
        };
        (setting.set)(self, value)
            .map_err(|why| Failure::usage(why).hint(format!("/set {} {}", setting.name, setting.values)))
    }

    /// Returns a line for each setting.
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |setting: &Setting| {
            let usage = format!("{} {}", setting.name, setting.values);
            let shown = crate::cli::text::printable(&(setting.show)(self), 60);
            let shown = if shown.is_empty() { "none" } else { &shown };
            // At least two spaces before the help, which set the indentation of wrapped lines.
            format!("  {usage:<28}  {} (now: {shown})", setting.help)
        };
        SETTINGS.iter().map(line).collect()
    }
}

fn system(settings: &mut Settings, text: &str) -> Result<(), String> {
    let text = unquoted(text);
    settings.system = (!text.is_empty()).then(|| text.to_owned());
    Ok(())
}

fn temperature(settings: &mut Settings, text: &str) -> Result<(), String> {
    let value: f32 = text.parse().map_err(|_| format!("temperature: `{text}` is not a number"))?;
    check_temperature(value)?;
    settings.generate.sampling.temperature = value;
    Ok(())
}

fn think(settings: &mut Settings, text: &str) -> Result<(), String> {
    let found = Think::NAMES.iter().find(|(name, _)| *name == text);
    settings.think = Some(found.ok_or_else(|| format!("think: no `{text}`"))?.1);
    Ok(())
}

fn seed(settings: &mut Settings, text: &str) -> Result<(), String> {
    settings.generate.sampling.seed = text.parse().map_err(|_| format!("seed: `{text}` is not a number"))?;
    Ok(())
}

fn max_tokens(settings: &mut Settings, text: &str) -> Result<(), String> {
    settings.generate.max_tokens = max_tokens_of(text).map_err(|why| format!("max-tokens: {why}"))?.0;
    Ok(())
}

fn number<T: std::str::FromStr>(name: &str, text: &str, to: &mut T) -> Result<(), String> {
    *to = text.parse().map_err(|_| format!("{name}: `{text}` is not a number from 0"))?;
    Ok(())
}

fn share(name: &str, text: &str, to: &mut f32) -> Result<(), String> {
    let value: f32 = text.parse().map_err(|_| format!("{name}: `{text}` is not a number"))?;
    if !(0.0..=1.0).contains(&value) {
        return Err(format!("{name}: {value} is not between 0 and 1"));
    }
    *to = value;
    Ok(())
}

fn context(settings: &mut Settings, text: &str) -> Result<(), String> {
    let mut tokens = 0_usize;
    number("num-ctx", text, &mut tokens)?;
    settings.context = Some(tokens).filter(|n| *n > 0);
    Ok(())
}

fn switch(value: &mut bool, text: &str) -> Result<(), String> {
    *value = match text {
        "" | "on" | "true" => true,
        "off" | "false" => false,
        _ => return Err(format!("`{text}` is not on or off")),
    };
    Ok(())
}

fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

/// Returns a text without the quotes around it, if there are any.
fn unquoted(text: &str) -> &str {
    ["\"\"\"", "\""]
        .iter()
        .find_map(|quotes| text.strip_prefix(quotes)?.strip_suffix(quotes))
        .unwrap_or(text)
        .trim()
}

#[cfg(test)]
pub(super) fn for_tests() -> Settings {
    let generate = GenerateOptions::default();
    Settings { system: None, think: None, verbose: false, trim: false, context: None, generate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_what_people_type() {
        let mut settings = for_tests();
        for text in [
            "temperature 0.5",
            "parameter seed 7",
            "system \"\"\"Be brief.\"\"\"",
            "think low",
            "max_tokens 9",
            "top_p 0.9",
            "parameter top_k 20",
            "min_p 0.1",
            "num_ctx 4096",
            "verbose",
            "trim on",
        ] {
            settings.set(text).unwrap();
        }
        assert_eq!((settings.generate.sampling.temperature, settings.generate.sampling.seed), (0.5, 7));
        assert_eq!((settings.system.as_deref(), settings.think), (Some("Be brief."), Some(Think::Low)));
        let sampling = &settings.generate.sampling;
        assert_eq!((sampling.top_p, sampling.top_k, sampling.min_p), (0.9, 20, 0.1));
        assert_eq!(settings.context, Some(4096));
        assert_eq!((settings.generate.max_tokens, settings.verbose, settings.trim), (Some(9), true, true));
        settings.set("verbose off").unwrap();
        settings.set("max-tokens -1").unwrap();
        settings.set("system").unwrap();
        assert_eq!(
            (settings.verbose, settings.generate.max_tokens, settings.system.as_deref()),
            (false, None, None)
        );
        for (text, why) in [
            ("temperature 3", "temperature: 3 is not between 0 and 2"),
            ("temperature hot", "is not a number"),
            ("top_p 2", "top-p: 2 is not between 0 and 1"),
            ("top_k -1", "top-k: `-1` is not a number from 0"),
            ("num_ctx many", "num-ctx: `many` is not a number"),
            ("think much", "no `much`"),
            ("verbose loud", "is not on or off"),
            ("colour red", "no setting `colour`"),
            ("", "no setting ``"),
        ] {
            let failure = format!("{:?}", settings.set(text).unwrap_err());
            assert!(failure.contains(why), "{text}: {failure}");
        }
    }
}
