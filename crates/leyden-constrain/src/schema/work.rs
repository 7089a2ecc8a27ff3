//! How much compiling a schema may take.
//!
//! Where schemas apply at once, each alternative of one is combined with each of the other. Their product is estimated
//! before it is made.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind};

/// The most schemas that are made by combining, weighed by their size. A million take about a second.
const MOST_WORK: f64 = 300_000.0;
/// The most elements or properties that are counted one by one.
const MOST_COUNT: u64 = 10_000;

/// Refuses a lowered schema that would take too much.
pub(super) fn check(schema: &Value) -> Result<(), Error> {
    let defs = schema.get("$defs").and_then(Value::as_object);
    let mut estimate = Estimate { defs, alternatives: HashMap::new() };
    let cost = estimate.cost(schema)?;
    if cost.work > MOST_WORK {
        let what =
            format!("the JSON schema combines about {:.0} alternatives; {MOST_WORK} are the most", cost.work);
        return Err(ErrorKind::TooComplex(what).into());
    }
    Ok(())
}

struct Estimate<'a> {
    defs: Option<&'a Map<String, Value>>,
    /// Those of each definition; 1 while it is being found.
    alternatives: HashMap<&'a str, Cost>,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    /// Into how many schemas it falls that cannot be told apart before a value is read.
    alternatives: f64,
    /// How many schemas it holds.
    size: f64,
    /// What is made in all.
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
                    // Alone it is only named.
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
        if !cost.work.is_finite() || cost.work > MOST_WORK {
            cost.work = MOST_WORK * 2.0;
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

/// Refuses counts that make the grammar large by themselves.
fn check_count(name: &str, value: &Value) -> Result<(), Error> {
    match value.as_u64() {
        Some(count) if count > MOST_COUNT && name.starts_with("min") => {
            Err(ErrorKind::TooComplex(format!("`{name}` of {count}; {MOST_COUNT} is the most")).into())
        }
        _ => Ok(()),
    }
}
