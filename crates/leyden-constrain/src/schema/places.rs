//! Places of arrays with unique items.
//!
//! Places are those of the schema, followed from the outermost value inwards. If a value may be at several places,
//! as after alternatives, it counts as being at all of them: uniqueness is then enforced more often than required.

use std::collections::HashMap;

use super::read::Reading;
use super::values::{Definitions, Kind, Values};
use crate::error::Error;

/// Maximum number of places.
const MAX_PLACES: usize = 20_000;

/// Arrays and objects of a schema.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) outermost: Vec<u32>,
    all: Vec<Place>,
}

#[derive(Debug, Default)]
struct Place {
    unique: bool,
    properties: Vec<(String, Vec<u32>)>,
    /// Places of items, or of undeclared properties.
    others: Vec<u32>,
}

impl Places {
    /// Returns whether an array at one of these places has unique items.
    pub(crate) fn unique(&self, places: &[u32]) -> bool {
        places.iter().any(|place| self.all[*place as usize].unique)
    }

    /// Returns the places within these: of the value of a key, or of an item.
    pub(crate) fn within(&self, places: &[u32], key: Option<&[u8]>) -> Vec<u32> {
        let mut found = Vec::new();
        for place in places {
            let place = &self.all[*place as usize];
            let named = key.and_then(|key| place.properties.iter().find(|(name, _)| name.as_bytes() == key));
            found.extend(named.map_or(&place.others, |(_, within)| within));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Finder of the places of values; each definition is processed once.
pub(super) struct Placing<'a, 'b> {
    pub(super) reading: &'a mut Reading<'b>,
    pub(super) places: Places,
    definitions: HashMap<usize, Vec<u32>>,
}

impl<'a, 'b> Placing<'a, 'b> {
    pub(super) fn new(reading: &'a mut Reading<'b>) -> Placing<'a, 'b> {
        Placing { reading, places: Places::default(), definitions: HashMap::new() }
    }

    pub(super) fn values(&mut self, values: &Values) -> Result<Vec<u32>, Error> {
        let mut open = Vec::new();
        let mut found = Vec::new();
        self.kinds(values, &mut Vec::new(), &mut open, &mut found)?;
        self.fill(open)?;
        Ok(found)
    }

    /// Finds the places of values, and queues the new ones in `open`, to be processed by `fill`.
    fn kinds(
        &mut self,
        values: &Values,
        around: &mut Vec<usize>,
        open: &mut Vec<(u32, Kind)>,
        found: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let Values::Of(kinds) = values else { return Ok(()) };
        for kind in kinds {
            match kind {
                Kind::Array(_) | Kind::Object(_) => {
                    if self.places.all.len() >= MAX_PLACES {
                        let what = "an array without repeated items in so large a JSON schema".to_owned();
                        return Err(crate::error::ErrorKind::TooComplex(what).into());
                    }
                    let at = self.places.all.len() as u32;
                    self.places.all.push(Place::default());
                    open.push((at, kind.clone()));
                    found.push(at);
                }
                Kind::Reference(index) => {
                    if let Some(known) = self.definitions.get(index) {
                        found.extend(known);
                    } else if !around.contains(index)
                        && let Some(values) = self.reading.values(*index)?
                    {
                        around.push(*index);
                        let mut own = Vec::new();
                        self.kinds(&values, around, open, &mut own)?;
                        around.pop();
                        found.extend(&own);
                        self.definitions.insert(*index, own);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn fill(&mut self, mut open: Vec<(u32, Kind)>) -> Result<(), Error> {
        while let Some((at, kind)) = open.pop() {
            let mut place = Place::default();
            let mut within = |placing: &mut Self, values: &Values| -> Result<Vec<u32>, Error> {
                let mut found = Vec::new();
                placing.kinds(values, &mut Vec::new(), &mut open, &mut found)?;
                Ok(found)
            };
            match kind {
                Kind::Array(array) => {
                    place.unique = array.unique.is_some();
                    for values in array.prefix.iter().chain([&array.items]) {
                        place.others.extend(within(self, values)?);
                    }
                }
                Kind::Object(object) => {
                    for (name, values) in &object.properties {
                        place.properties.push((name.clone(), within(self, values)?));
                    }
                    let patterns = object.patterns.iter().map(|(_, values)| values);
                    for values in patterns.chain([&object.additional]) {
                        place.others.extend(within(self, values)?);
                    }
                }
                _ => {}
            }
            self.places.all[at as usize] = place;
        }
        Ok(())
    }
}
