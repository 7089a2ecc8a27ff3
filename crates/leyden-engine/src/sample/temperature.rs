//! Temperature, fixed or dynamic (following the entropy).

use super::candidates::Candidates;
use super::params::{DynamicTemperature, SamplingParams};
use super::step::{Context, Effect, Step};
use leyden_kernels::ops::{ln, pow};

pub(super) const STEP: Step = Step {
    effect: Effect::Scales,
    is_active: |p| p.temperature != 1.0 || p.dynamic_temperature.range > 0.0,
    apply,
};

/// Divides the logits by the temperature; at 0 keeps only the best token.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let mut temperature = p.temperature;
    let DynamicTemperature { range, exponent } = p.dynamic_temperature;
    if range > 0.0 {
        let n = c.items().len();
        if n < 2 {
            return;
        }
        let low = (p.temperature - range).max(0.0);
        let high = p.temperature + range;
        let share = (entropy(c, at) / ln(n as f64)).clamp(0.0, 1.0);
        let share = if share > 0.0 { pow(share, f64::from(exponent)) } else { 0.0 };
        temperature = (f64::from(low) + f64::from(high - low) * share) as f32;
    }
    if temperature > 0.0 {
        c.divide(temperature);
    } else {
        c.keep_best();
    }
}

/// Computes the entropy of the candidates' probabilities, in nats.
fn entropy(c: &mut Candidates, at: &Context<'_>) -> f64 {
    let weights = c.weights(at.tier);
    let ln_sum = ln(weights.sum);
    let surprise = |logit: f32| ln_sum - (f64::from(logit) - f64::from(weights.max));
    c.items().iter().zip(&weights.values).map(|(i, w)| f64::from(*w) / weights.sum * surprise(i.logit)).sum()
}
