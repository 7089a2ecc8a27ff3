//! Sampling fields that are numbers or sizes: names, ranges, schemas.

use crate::schema;
use leyden_engine::sample::SamplingParams;
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// A numeric field: its range, and its place in the parameters.
pub(crate) struct NumberField {
    pub(crate) name: &'static str,
    pub(crate) range: RangeInclusive<f64>,
    pub(crate) set: fn(&mut SamplingParams, f32),
}

const TINY: f64 = f32::MIN_POSITIVE as f64;

pub(crate) static NUMBERS: &[NumberField] = &[
    NumberField { name: "temperature", range: 0.0..=2.0, set: |p, x| p.temperature = x },
    // 0 keeps the best token only, as any value below its probability does.
    NumberField { name: "top_p", range: 0.0..=1.0, set: |p, x| p.top_p = x.max(f32::MIN_POSITIVE) },
    NumberField { name: "frequency_penalty", range: -2.0..=2.0, set: |p, x| p.penalties.frequency = x },
    NumberField { name: "presence_penalty", range: -2.0..=2.0, set: |p, x| p.penalties.presence = x },
    NumberField { name: "min_p", range: 0.0..=1.0, set: |p, x| p.min_p = x },
    NumberField { name: "typical_p", range: TINY..=1.0, set: |p, x| p.typical = x },
    NumberField { name: "top_n_sigma", range: -1.0..=1000.0, set: |p, x| p.top_n_sigma = x },
    NumberField { name: "repeat_penalty", range: 0.01..=100.0, set: |p, x| p.penalties.repeat = x },
    NumberField { name: "xtc_probability", range: 0.0..=1.0, set: |p, x| p.xtc.probability = x },
    NumberField { name: "xtc_threshold", range: 0.0..=1.0, set: |p, x| p.xtc.threshold = x },
    NumberField { name: "dynatemp_range", range: 0.0..=100.0, set: |p, x| p.dynamic_temperature.range = x },
    NumberField {
        name: "dynatemp_exponent",
        range: TINY..=100.0,
        set: |p, x| p.dynamic_temperature.exponent = x,
    },
    NumberField { name: "dry_multiplier", range: 0.0..=1000.0, set: |p, x| p.dry.multiplier = x },
    NumberField { name: "dry_base", range: 1.0..=1000.0, set: |p, x| p.dry.base = x },
];

/// A size field: the meaning of -1, and its place in the parameters.
pub(crate) struct SizeField {
    pub(crate) name: &'static str,
    pub(crate) unlimited: Option<usize>,
    pub(crate) set: fn(&mut SamplingParams, usize),
}

/// Maximum of these fields: more tokens than any context has.
const MAX_SIZE: usize = i32::MAX as usize;

pub(crate) static SIZES: &[SizeField] = &[
    SizeField { name: "top_k", unlimited: Some(0), set: |p, n| p.top_k = n },
    SizeField { name: "repeat_last_n", unlimited: Some(usize::MAX), set: |p, n| p.penalties.window = n },
    SizeField { name: "dry_allowed_length", unlimited: None, set: |p, n| p.dry.allowed_length = n },
    SizeField { name: "dry_penalty_last_n", unlimited: Some(usize::MAX), set: |p, n| p.dry.window = n },
];

/// Returns the schema of a numeric or size field; for another name a schema that matches nothing.
pub(crate) fn field_schema(name: &str) -> Value {
    if let Some(field) = NUMBERS.iter().find(|field| field.name == name) {
        return json!({ "type": "number", "minimum": field.range.start(), "maximum": field.range.end() });
    }
    let Some(field) = SIZES.iter().find(|field| field.name == name) else { return schema::refused("") };
    let least = if field.unlimited.is_some() { -1 } else { 0 };
    json!({ "type": "integer", "minimum": least, "maximum": MAX_SIZE })
}
