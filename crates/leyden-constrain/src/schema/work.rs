//! Estimation of the cost of compiling a schema.
//!
//! If several schemas apply at once, each alternative of one is combined with each of the others. The size of this
//! product is estimated before it is computed.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// Maximum number of combined schemas, weighted by their size. A million take about a second.
const MAX_WORK: f64 = 300_000.0;
/// Maximum of a minimum count of items or properties.
const MAX_COUNT: u64 = 10_000;

/// Returns an error if compiling a reduced schema would cost too much.
pub(super) fn check(schema: &Value) -> Result<(), Error> {
    let defs = schema.get("$defs").and_then(Value::as_object);
    let mut estimate = Estimate { defs, alternatives: HashMap::new() };
    let cost = estimate.cost(schema)?;
    if cost.work > MAX_WORK {
        let what = format!(
            "the JSON schema combines about {:.0} alternatives; the maximum is {MAX_WORK}",
            cost.work
        );
        return Err(ErrorKind::TooComplex(what).into());
    }
    Ok(())
}

struct Estimate<'a> {
    defs: Option<&'a Map<String, Value>>,
    /// Cost of each definition; 1 while it is being computed.
    alternatives: HashMap<&'a str, Cost>,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    /// Number of alternatives that cannot be distinguished before a value is read.
    alternatives: f64,
    /// Number of schemas contained.
    size: f64,
    /// Total number of combined schemas.
    work: f64,
}

impl<'a> Estimate<'a> {
    fn cost(&mut self, schema: &'a Value) -> Result<Cost, Error> {
        let Value::Object(map) = schema else { return Ok(Cost { alternatives: 1.0, size: 1.0, work: 1.0 }) };
        let mut cost = Cost { alternatives: own_alternatives(map), size: 1.0, work: 1.0 };
        for (name, value) in map {
            let parts: Vec<&Value> = match (name.as_str(), value) {
                ("const" | "enum" | "required" | "type", _) => continue,
                ("minItems" | "maxItems" | "minProperties" | "maxProperties", _) => {
                    check_count(name, value)?;
                    continue;
                }
                ("$ref", Value::String(reference)) => {
                    let target = self.reference(reference)?;
                    // Without other keywords it is only a reference by name.
                    if map.keys().any(|key| key != "$ref" && key != "$defs") {
                        cost.alternatives *= target.alternatives;
                        cost.size += target.size;
                    }
                    continue;
                }
                (_, Value::Array(items)) => items.iter().collect(),
                ("properties" | "patternProperties" | "$defs", Value::Object(schemas)) => {
                    schemas.values().collect()
                }
                (_, Value::Object(_)) => vec![value],
                _ => continue,
            };
            let mut any = 0.0;
            for part in parts {
                let part = self.cost(part)?;
                any += part.alternatives;
                if name == "allOf" {
                    cost.alternatives *= part.alternatives;
                }
                cost.size += if name == "$defs" { 0.0 } else { part.size };
                cost.work += part.work;
            }
            if name == "anyOf" {
                cost.alternatives *= any.max(1.0);
            }
        }
        let combines =
            map.keys().filter(|key| matches!(key.as_str(), "anyOf" | "allOf" | "$ref" | "enum")).count();
        if combines > 0 && map.len() > 1 || combines > 1 || map.contains_key("allOf") {
            cost.work += cost.alternatives * cost.size;
        }
        if !cost.work.is_finite() || cost.work > MAX_WORK {
            cost.work = MAX_WORK * 2.0;
        }
        Ok(cost)
    }

    fn reference(&mut self, reference: &'a str) -> Result<Cost, Error> {
        let name = reference.trim_start_matches("#/$defs/");
        if let Some(known) = self.alternatives.get(name) {
            return Ok(*known);
        }
        let Some(target) = self.defs.and_then(|defs| defs.get(name)) else { return Ok(Cost::default()) };
        self.alternatives.insert(name, Cost { alternatives: 1.0, size: 1.0, work: 1.0 });
        let cost = self.cost(target)?;
        self.alternatives.insert(name, cost);
        Ok(cost)
    }
}

fn own_alternatives(map: &Map<String, Value>) -> f64 {
    let listed = map.get("enum").and_then(Value::as_array).map_or(1, Vec::len);
    let types = match map.get("type") {
        Some(Value::Array(types)) => types.len(),
        Some(_) => 1,
        None if map
            .keys()
            .all(|key| matches!(key.as_str(), "$ref" | "anyOf" | "allOf" | "enum" | "const")) =>
        {
            1
        }
        None => 6,
    };
    (listed * types) as f64
}

/// Refuses counts that make the grammar large.
fn check_count(name: &str, value: &Value) -> Result<(), Error> {
    match value.as_u64() {
        Some(count) if count > MAX_COUNT && name.starts_with("min") => {
            Err(ErrorKind::TooComplex(format!("`{name}` of {count}; the maximum is {MAX_COUNT}")).into())
        }
        _ => Ok(()),
    }
}
