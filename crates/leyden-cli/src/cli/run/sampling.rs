//! Sampling options.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use leyden::{
    Dry, DynamicTemperature, GenerateOptions, Mirostat, MirostatVersion, Penalties, SEQUENCE_BREAKERS,
    SamplingParams, SamplingStep, Xtc,
};

use crate::cli::failure::Failure;

/// Options of the sampler.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct Sampling {
    /// Sampling steps in order, separated by semicolons; missing steps do not run
    #[arg(long, value_name = "STEPS", default_value_t = Order(SamplingStep::ALL.to_vec()), value_parser = order)]
    samplers: Order,
    /// Temperature from 0 (always the most probable token) to 2
    #[arg(long, visible_alias = "temperature", value_name = "T", default_value_t = SamplingParams::default().temperature, allow_negative_numbers = true)]
    temp: f32,
    /// Top-k: keep the K most probable tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = SamplingParams::default().top_k)]
    top_k: usize,
    /// Top-p: keep the most probable tokens until their probabilities reach P; 1 for all
    #[arg(long, value_name = "P", default_value_t = SamplingParams::default().top_p, allow_negative_numbers = true)]
    top_p: f32,
    /// Min-p: keep tokens at least P times as probable as the best; 0 for all
    #[arg(long, value_name = "P", default_value_t = SamplingParams::default().min_p, allow_negative_numbers = true)]
    min_p: f32,
    /// Typical sampling: keep the tokens with surprisal nearest to the entropy until their probabilities reach P; 1 for
    /// all
    #[arg(long, visible_alias = "typical-p", value_name = "P", default_value_t = SamplingParams::default().typical, allow_negative_numbers = true)]
    typical: f32,
    /// Top-n-sigma: keep tokens within N standard deviations of the best logit; -1 for all
    #[arg(long, visible_alias = "top-n-sigma", value_name = "N", default_value_t = SamplingParams::default().top_n_sigma, allow_negative_numbers = true)]
    top_nsigma: f32,
    /// XTC: probability of dropping all tokens above the threshold except the least probable of them; 0 for never
    #[arg(long, value_name = "P", default_value_t = Xtc::default().probability, allow_negative_numbers = true)]
    xtc_probability: f32,
    /// XTC: threshold of a token's probability; above 0.5 for none
    #[arg(long, value_name = "P", default_value_t = Xtc::default().threshold, allow_negative_numbers = true)]
    xtc_threshold: f32,
    /// Dynamic temperature: between --temp minus R and plus R, depending on the entropy; 0 for a fixed temperature
    #[arg(long, value_name = "R", default_value_t = DynamicTemperature::default().range, allow_negative_numbers = true)]
    dynatemp_range: f32,
    /// Dynamic temperature: exponent of the entropy
    #[arg(long, value_name = "X", default_value_t = DynamicTemperature::default().exponent, allow_negative_numbers = true)]
    dynatemp_exp: f32,
    /// Mirostat version, 1 or 2, instead of the steps that drop tokens; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=2))]
    mirostat: u8,
    /// Mirostat: learning rate
    #[arg(long, value_name = "X", default_value_t = Mirostat::default().rate, allow_negative_numbers = true)]
    mirostat_lr: f32,
    /// Mirostat: target entropy in bits
    #[arg(long, value_name = "X", default_value_t = Mirostat::default().entropy, allow_negative_numbers = true)]
    mirostat_ent: f32,
    /// Repetition penalty: divide positive logits of used tokens by X (multiply negative ones); 1 for none
    #[arg(long, value_name = "X", default_value_t = Penalties::default().repeat, allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// Frequency penalty: lower the logit of a token by X for each time it was generated
    #[arg(long, value_name = "X", default_value_t = Penalties::default().frequency, allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Presence penalty: lower the logit of a token by X if it was generated
    #[arg(long, value_name = "X", default_value_t = Penalties::default().presence, allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Number of last tokens that penalties count
    #[arg(long, visible_alias = "repeat-last-n", value_name = "N", default_value_t = Penalties::default().window)]
    penalty_window: usize,
    /// DRY: multiplier of the penalty for a token that continues a repetition; 0 for none
    #[arg(long, value_name = "X", default_value_t = Dry::default().multiplier, allow_negative_numbers = true)]
    dry_multiplier: f32,
    /// DRY: factor of the penalty for each token beyond the allowed length
    #[arg(long, value_name = "X", default_value_t = Dry::default().base, allow_negative_numbers = true)]
    dry_base: f32,
    /// DRY: allowed length; shorter repetitions have no penalty
    #[arg(long, value_name = "N", default_value_t = Dry::default().allowed_length)]
    dry_allowed_length: usize,
    /// DRY: number of last tokens to search for repetitions; 0 for none
    #[arg(long, value_name = "N", default_value_t = Dry::default().window)]
    dry_penalty_last_n: usize,
    /// DRY: text that ends repetitions, with \n and \t for line breaks and tabs; may be repeated; `none` for no such
    /// text; by default a line break, `:`, `"` and `*`
    #[arg(long, value_name = "TEXT")]
    dry_sequence_breaker: Vec<String>,
    /// Add X to the logit of a token; -inf forbids the token. May be repeated
    #[arg(long, value_name = "ID=X", value_parser = bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Stop string: the answer ends before it; it does not apply to reasoning. May be repeated
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// Seed: the same seed gives the same text; -1, the default, for a new one each time
    #[arg(long, short, value_name = "S", value_parser = seed, allow_negative_numbers = true)]
    seed: Option<Seed>,
}

/// Seed; `None` for a random one.
#[derive(Debug, Clone, Copy)]
struct Seed(Option<u64>);

fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed(None)),
        _ => text
            .parse()
            .map(|seed| Seed(Some(seed)))
            .map_err(|_| "must be -1 or a number below 2^64".to_owned()),
    }
}

/// Maximum temperature: that of OpenAI's API and of the server.
const MAX_TEMPERATURE: f32 = 2.0;

/// Checks a temperature, as the server does.
pub(super) fn check_temperature(temperature: f32) -> Result<(), String> {
    if (0.0..=MAX_TEMPERATURE).contains(&temperature) {
        return Ok(());
    }
    Err(format!("temperature: {temperature} is not between 0 and {MAX_TEMPERATURE}"))
}

impl Sampling {
    /// Returns the options for the library, which checks the ranges that depend on the vocabulary.
    pub(in crate::cli) fn options(&self, max_tokens: Option<usize>) -> Result<GenerateOptions, Failure> {
        check_temperature(self.temp).map_err(Failure::usage)?;
        let penalties = Penalties {
            repeat: self.repeat_penalty,
            frequency: self.frequency_penalty,
            presence: self.presence_penalty,
            window: self.penalty_window,
        };
        let sampling = SamplingParams {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            typical: self.typical,
            top_n_sigma: self.top_nsigma,
            xtc: Xtc { probability: self.xtc_probability, threshold: self.xtc_threshold },
            dynamic_temperature: DynamicTemperature {
                range: self.dynatemp_range,
                exponent: self.dynatemp_exp,
            },
            mirostat: self.mirostat(),
            order: self.samplers.0.clone(),
            penalties,
            dry: Dry {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                window: self.dry_penalty_last_n,
                ..Dry::default()
            },
            logit_bias: self.logit_bias.clone(),
            // The standard library seeds hashers with random numbers of the system. 32 bits are easier to type.
            seed: self.seed.and_then(|seed| seed.0).unwrap_or_else(|| RandomState::new().hash_one(0) >> 32),
        };
        let mut options = GenerateOptions::new().max_tokens(max_tokens).sampling(sampling);
        options.sequence_breakers = self.sequence_breakers();
        options.stop.clone_from(&self.stop);
        Ok(options)
    }

    /// Returns the seed, if one is given.
    pub(in crate::cli) fn given_seed(&self) -> Option<u64> {
        self.seed.and_then(|seed| seed.0)
    }

    fn mirostat(&self) -> Option<Mirostat> {
        let version = match self.mirostat {
            0 => return None,
            1 => MirostatVersion::V1,
            _ => MirostatVersion::V2,
        };
        Some(Mirostat { version, entropy: self.mirostat_ent, rate: self.mirostat_lr })
    }

    fn sequence_breakers(&self) -> Vec<String> {
        match &self.dry_sequence_breaker[..] {
            [] => SEQUENCE_BREAKERS.map(str::to_owned).to_vec(),
            texts => texts.iter().filter(|t| *t != "none").map(|t| unescaped(t)).collect(),
        }
    }
}

/// Steps of `--samplers`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order(Vec<SamplingStep>);

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|s| s.name()).collect();
        f.write_str(&names.join(";"))
    }
}

fn order(text: &str) -> Result<Order, String> {
    SamplingStep::parse_order(text).map(Order)
}

/// Replaces llama.cpp's escapes in a breaker; line breaks are hard to write in a shell.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let escaped = match (c, rest.as_str().chars().next()) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('t')) => '\t',
            ('\\', Some(c @ ('\\' | '"' | '\''))) => c,
            _ => {
                out.push(c);
                continue;
            }
        };
        rest.next();
        out.push(escaped);
    }
    out
}

fn bias(text: &str) -> Result<(u32, f32), String> {
    let (id, value) = text.split_once('=').ok_or("must be ID=X, such as 13=-inf")?;
    let id = id.trim().parse().map_err(|_| format!("`{id}` is not a token id"))?;
    let value = value.trim().parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((id, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sampling: Sampling,
    }

    fn options(words: &[&str]) -> GenerateOptions {
        Line::try_parse_from([&["run"], words].concat()).unwrap().sampling.options(None).unwrap()
    }

    #[test]
    fn without_flags_the_library_decides() {
        let seed = SamplingParams::default().seed;
        let got = options(&["--seed", &seed.to_string()]);
        assert_eq!(got.sampling, SamplingParams::default());
        assert_eq!(got.sequence_breakers, GenerateOptions::default().sequence_breakers);
    }

    #[test]
    fn steps_are_read_in_order() {
        let s =
            options(&["--samplers", "temperature; top_k", "--mirostat", "1", "--mirostat-ent", "3"]).sampling;
        assert_eq!(s.order, [SamplingStep::Temperature, SamplingStep::TopK]);
        let mirostat = Mirostat { version: MirostatVersion::V1, entropy: 3.0, rate: 0.1 };
        assert_eq!(s.mirostat, Some(mirostat));
        assert!(options(&["--samplers", ""]).sampling.order.is_empty());
        assert_eq!(order("top_k;typical").unwrap_err().split(':').next(), Some("no step `typical`; known"));
        assert!(order("top_k;").is_err() && order("top_k;top_k").is_err());
    }

    #[test]
    fn breakers_are_unescaped() {
        let breakers = |words: &[&str]| options(words).sequence_breakers;
        let flag = "--dry-sequence-breaker";
        assert_eq!(breakers(&[flag, r"\n", flag, r#"\"\x\\"#]), ["\n", r#""\x\"#]);
        assert!(breakers(&[flag, "none"]).is_empty());
    }

    #[test]
    fn bias_reads_id_and_number() {
        assert_eq!(bias("13=-inf"), Ok((13, f32::NEG_INFINITY)));
        assert_eq!(bias("2=1.5"), Ok((2, 1.5)));
        for text in ["13", "x=1", "-1=1", "1=x", "="] {
            assert!(bias(text).is_err(), "{text}");
        }
    }
}
