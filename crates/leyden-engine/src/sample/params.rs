//! Sampling parameters and their ranges.

use super::breakers::SequenceBreakers;
use super::mirostat::Mirostat;
use super::names::SamplingStep;
use crate::error::{Error, ErrorKind};

/// Sampling parameters. The default is that of `leyden run`.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divisor of the logits; 0 keeps only the best token. 0 to 100.
    pub temperature: f32,
    /// Dynamic temperature, which follows the entropy; off by default.
    pub dynamic_temperature: DynamicTemperature,
    /// Number of best tokens to keep; 0 keeps all.
    pub top_k: usize,
    /// Sum of probabilities up to which the best tokens are kept; 1 keeps all. Above 0, to 1.
    pub top_p: f32,
    /// Minimum probability of a token, as a share of the best token's; 0 keeps all. 0 to 1.
    pub min_p: f32,
    /// Sum of probabilities up to which the tokens with nearly average surprisal are kept; 1 keeps all. Above 0, to 1.
    pub typical: f32,
    /// Number of standard deviations below the best logit within which tokens are kept; 0 and -1 keep all. -1 to 1000.
    pub top_n_sigma: f32,
    /// Exclusion of top choices; off by default.
    pub xtc: Xtc,
    /// Penalties on tokens that occurred before.
    pub penalties: Penalties,
    /// Penalties on tokens that continue a repetition; off by default.
    pub dry: Dry,
    /// Mirostat, which controls the surprisal. It replaces all steps that drop tokens; penalties and temperature still
    /// run.
    pub mirostat: Option<Mirostat>,
    /// Steps to run, in order; each at most once.
    pub order: Vec<SamplingStep>,
    /// Bias added to the logits of these tokens before everything else; minus infinity forbids a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.8,
            dynamic_temperature: DynamicTemperature::default(),
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical: 1.0,
            top_n_sigma: -1.0,
            xtc: Xtc::default(),
            penalties: Penalties::default(),
            dry: Dry::default(),
            mirostat: None,
            order: SamplingStep::ALL.to_vec(),
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplingParams {
    /// Returns parameters that always choose the best token.
    #[must_use]
    pub fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, ..SamplingParams::default() }
    }

    /// Checks every parameter for a model of `vocabulary` tokens.
    ///
    /// # Errors
    /// A parameter is outside its range; the error names the first such parameter.
    pub fn check(&self, vocabulary: usize) -> Result<(), Error> {
        let wrong = |name, what: String| Err(Error::from(ErrorKind::Parameter { name, what }));
        let tiny = f32::MIN_POSITIVE;
        let (p, d, x, r) = (&self.penalties, &self.dry, &self.xtc, &self.dynamic_temperature);
        let m = self.mirostat.unwrap_or_default();
        for (name, value, low, high) in [
            ("temperature", self.temperature, 0.0, 100.0),
            ("dynatemp_range", r.range, 0.0, 100.0),
            ("dynatemp_exp", r.exponent, tiny, 100.0),
            ("top_p", self.top_p, tiny, 1.0),
            ("min_p", self.min_p, 0.0, 1.0),
            ("typical", self.typical, tiny, 1.0),
            ("top_nsigma", self.top_n_sigma, -1.0, 1000.0),
            ("xtc_probability", x.probability, 0.0, 1.0),
            ("xtc_threshold", x.threshold, 0.0, 1.0),
            ("repeat_penalty", p.repeat, 0.01, 100.0),
            ("frequency_penalty", p.frequency, -100.0, 100.0),
            ("presence_penalty", p.presence, -100.0, 100.0),
            ("dry_multiplier", d.multiplier, 0.0, 1000.0),
            ("dry_base", d.base, 1.0, 1000.0),
            ("mirostat_ent", m.entropy, 0.0, 100.0),
            ("mirostat_lr", m.rate, 0.0, 100.0),
        ] {
            if !(low..=high).contains(&value) {
                return wrong(name, format!("{value} is not between {low} and {high}"));
            }
        }
        for (i, step) in self.order.iter().enumerate() {
            if self.order[..i].contains(step) {
                return wrong("samplers", format!("`{}` is listed twice", step.name()));
            }
        }
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocabulary {
                return wrong("logit_bias", format!("token {id} is outside the vocabulary of {vocabulary}"));
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return wrong("logit_bias", format!("{bias} for token {id} is not a number"));
            }
        }
        Ok(())
    }
}

/// Parameters of DRY.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// Penalty of a repetition of `allowed_length` tokens; 0 switches DRY off. 0 to 1000.
    pub multiplier: f32,
    /// Factor by which the penalty grows with each further token. 1 to 1000.
    pub base: f32,
    /// Length in tokens below which repetitions are not penalised.
    pub allowed_length: usize,
    /// Number of last tokens that are searched; 0 switches DRY off.
    pub window: usize,
    /// Token sequences at which repetitions end.
    pub breakers: SequenceBreakers,
}

impl Default for Dry {
    fn default() -> Dry {
        let breakers = SequenceBreakers::default();
        Dry { multiplier: 0.0, base: 1.75, allowed_length: 2, window: 64, breakers }
    }
}

impl Dry {
    /// Returns true if the step changes anything.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.multiplier > 0.0 && self.window > 0
    }
}

/// Parameters of XTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// Probability that the step acts; 0 never, 1 always. 0 to 1.
    pub probability: f32,
    /// Minimum probability of the top choices to exclude; above 0.5 the step never acts, as there cannot be two of
    /// them. 0 to 1.
    pub threshold: f32,
}

impl Default for Xtc {
    fn default() -> Xtc {
        Xtc { probability: 0.0, threshold: 0.1 }
    }
}

/// Penalties on the last `window` tokens of the sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Repetition penalty (Keskar et al., 2019): positive logits are divided by it, negative ones multiplied. 1 is off.
    /// Counts tokens of the prompt, too.
    pub repeat: f32,
    /// Frequency penalty, subtracted once per occurrence among the generated tokens.
    pub frequency: f32,
    /// Presence penalty, subtracted once if the token occurs among the generated tokens.
    pub presence: f32,
    /// Number of last tokens that count, `usize::MAX` for all; 0 switches penalties off.
    pub window: usize,
}

impl Default for Penalties {
    fn default() -> Penalties {
        Penalties { repeat: 1.0, frequency: 0.0, presence: 0.0, window: 64 }
    }
}

impl Penalties {
    /// Returns true if the penalties change nothing.
    #[must_use]
    pub fn is_neutral(&self) -> bool {
        self.window == 0 || self.repeat == 1.0 && self.frequency == 0.0 && self.presence == 0.0
    }
}

/// Temperature that follows the entropy of the candidates ("dynamic temperature", kalomaze, 2023): low where one token
/// dominates, high where many tokens are equally probable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicTemperature {
    /// Maximum difference of the temperature from [`SamplingParams::temperature`], without going below 0; 0 switches it
    /// off. 0 to 100.
    pub range: f32,
    /// Exponent of the entropy, taken as a share of its maximum. Above 0, to 100.
    pub exponent: f32,
}

impl Default for DynamicTemperature {
    fn default() -> DynamicTemperature {
        DynamicTemperature { range: 0.0, exponent: 1.0 }
    }
}
