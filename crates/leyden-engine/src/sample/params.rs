//! The parameters and their ranges.

use super::dry::Dry;
use super::mirostat::Mirostat;
use super::order::SamplingStep;
use super::penalties::Penalties;
use super::temperature::DynamicTemperature;
use super::xtc::Xtc;
use crate::error::{Error, ErrorKind};

/// How tokens are chosen. The default is what `leyden run` uses.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 keeps the best token alone. 0 to 100.
    pub temperature: f32,
    /// Temperature that follows the entropy; off by default.
    pub dynamic_temperature: DynamicTemperature,
    /// Keeps this many best tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the best tokens whose probabilities first reach this sum; 1 keeps all. Above 0, to 1.
    pub top_p: f32,
    /// Drops tokens less probable than this share of the best; 0 keeps all. 0 to 1.
    pub min_p: f32,
    /// Keeps the tokens nearest to the average surprise whose probabilities first reach this sum; 1 keeps all.
    /// Above 0, to 1.
    pub typical: f32,
    /// Keeps tokens within this many standard deviations of the best logit; 0 and -1 keep all. -1 to 1000.
    pub top_n_sigma: f32,
    /// Exclusion of top choices; off by default.
    pub xtc: Xtc,
    /// Penalties on tokens that were used.
    pub penalties: Penalties,
    /// Penalties on tokens that continue a repetition; off by default.
    pub dry: Dry,
    /// Control of the surprise. It takes the place of all steps that drop tokens; penalties and temperature still run.
    pub mirostat: Option<Mirostat>,
    /// The steps that run, and in which order; one that is missing does not run. No step may stand twice.
    pub order: Vec<SamplingStep>,
    /// Added to the logits of these tokens before everything else; minus infinity forbids one.
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
    /// The best token always.
    #[must_use]
    pub fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, ..SamplingParams::default() }
    }

    /// Checks every parameter for a model of `vocabulary` tokens.
    ///
    /// # Errors
    /// Names the first parameter outside its range.
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
                return wrong("samplers", format!("`{}` stands twice", step.name()));
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
