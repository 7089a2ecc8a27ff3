//! The table of the steps and the order in which they run.

use super::candidates::Candidates;
use super::{Context, SamplingParams};

/// What a step does to the candidates. Decides what may be left out before a greedy choice, and what Mirostat
/// replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Lowers the logits of some tokens.
    Penalises,
    /// Drops tokens, never the best.
    KeepsBest,
    /// Drops tokens, perhaps the best, never all.
    MayDropBest,
    /// Divides all logits by one number, or keeps the best alone.
    Scales,
}

/// One step, as its file describes it.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) effect: Effect,
    /// Whether these parameters make it do anything.
    pub(super) is_active: fn(&SamplingParams) -> bool,
    pub(super) apply: fn(&SamplingParams, &mut Candidates, &mut Context<'_>),
}

/// Declares the steps, in their default order: for each its name, its module and llama.cpp's name.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident $module:ident $text:literal,)*) => {
        /// A step between the model's logits and the draw. [`SamplingParams::order`] says which run, and when.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SamplingStep {
            $($(#[$doc])* $name,)*
        }

        impl SamplingStep {
            /// All steps, in the default order.
            pub const ALL: &[SamplingStep] = &[$(SamplingStep::$name,)*];

            /// The name that llama.cpp also uses.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(SamplingStep::$name => $text,)*
                }
            }

            pub(super) fn step(self) -> Step {
                match self {
                    $(SamplingStep::$name => super::$module::STEP,)*
                }
            }
        }
    };
}

steps! {
    /// Repetition, frequency and presence penalties.
    Penalties penalties "penalties",
    /// DRY: penalties on tokens that would continue a repetition.
    Dry dry "dry",
    /// Top-n-sigma.
    TopNSigma top_n_sigma "top_n_sigma",
    /// Top-k.
    TopK top_k "top_k",
    /// Locally typical sampling.
    Typical typical "typ_p",
    /// Top-p.
    TopP top_p "top_p",
    /// Min-p.
    MinP min_p "min_p",
    /// XTC.
    Xtc xtc "xtc",
    /// Temperature, fixed or dynamic.
    Temperature temperature "temperature",
}

impl SamplingStep {
    /// The step of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SamplingStep> {
        Self::ALL.iter().copied().find(|s| s.name() == name)
    }

    /// Steps from their names between semicolons, such as `top_k;temperature`. Nothing means no step at all.
    ///
    /// # Errors
    /// A name is unknown, or stands twice; the text says which, and names all steps.
    pub fn parse_order(text: &str) -> Result<Vec<SamplingStep>, String> {
        let mut order = Vec::new();
        for name in text.split(';').map(str::trim) {
            if name.is_empty() && text.trim().is_empty() {
                break;
            }
            let step = Self::from_name(name).ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|s| s.name()).collect();
                format!("no step `{name}`; known: {}", known.join(", "))
            })?;
            if order.contains(&step) {
                return Err(format!("`{name}` stands twice"));
            }
            order.push(step);
        }
        Ok(order)
    }
}

/// The steps that have something to do, in order.
pub(super) fn plan(p: &SamplingParams) -> Vec<SamplingStep> {
    let effect = |s: &SamplingStep| s.step().effect;
    let truncates = |s: &SamplingStep| matches!(effect(s), Effect::KeepsBest | Effect::MayDropBest);
    let mut steps: Vec<SamplingStep> = p.order.iter().copied().filter(|s| (s.step().is_active)(p)).collect();
    if p.mirostat.is_some() {
        steps.retain(|s| !truncates(s));
    }
    // Where the best is taken, dropping others before changes nothing, unless a later step may drop or lower the best.
    let scale = steps.iter().position(|s| effect(s) == Effect::Scales);
    if let Some(scale) = scale
        && p.temperature == 0.0
        && p.dynamic_temperature.range == 0.0
    {
        steps.truncate(scale + 1);
        let from = steps
            .iter()
            .rposition(|s| matches!(effect(s), Effect::Penalises | Effect::MayDropBest))
            .map_or(0, |i| i + 1);
        let tail = steps.split_off(from);
        steps.extend(tail.into_iter().filter(|s| effect(s) == Effect::Scales));
    }
    steps
}
