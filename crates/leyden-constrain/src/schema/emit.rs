//! Conversion of values to a Lark grammar.
//!
//! Objects have their properties in the schema's order, followed by undeclared ones. Identical rule bodies share
//! one rule.

use std::collections::HashMap;
use std::fmt::Write;
use std::rc::Rc;

use super::decimal;
use super::form::{JsonForm, WHITESPACE};
use super::multiples;
use super::read::Reading;
use super::text::{Writing, literal, of_length};
use super::values::{ArrayValues, Definitions, Kind, NumberValues, ObjectValues, Reason, TextValues, Values};
use crate::error::{Error, ErrorKind};

/// Maximum length of the grammar in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of rules for counting the properties of one object.
const MAX_COUNTED: u64 = 4_000;
/// Maximum number of different items of an array with unique items.
const MAX_UNIQUE: usize = 64;

/// Converter of values to rules.
pub(super) struct Emitting<'a, 'b> {
    reading: &'a mut Reading<'b>,
    rules: String,
    /// Name of each rule and terminal by its body.
    names: HashMap<String, String>,
    /// Rule of each definition; `None` if it has no values.
    definitions: HashMap<usize, Option<String>>,
    any: bool,
    /// True if duplicate items of arrays can be detected in the generated text.
    watched: bool,
    /// True if such detection is needed.
    watches: bool,
    /// Reason for which a schema has no values.
    why: Option<Rc<Reason>>,
    form: JsonForm,
    /// Comma and colon of JSON, as terms of the grammar.
    comma: &'static str,
    colon: &'static str,
}

impl<'a, 'b> Emitting<'a, 'b> {
    pub(super) fn new(reading: &'a mut Reading<'b>, form: JsonForm) -> Emitting<'a, 'b> {
        let (comma, colon) = if form.compact { ("/, ?/", "/: ?/") } else { ("\",\"", "\":\"") };
        Emitting {
            reading,
            rules: String::new(),
            names: HashMap::new(),
            definitions: HashMap::new(),
            any: false,
            watched: false,
            watches: false,
            why: None,
            form,
            comma,
            colon,
        }
    }

    /// Sets whether duplicate items can be detected in the generated text.
    pub(super) fn watched(self, watched: bool) -> Emitting<'a, 'b> {
        Emitting { watched, ..self }
    }

    /// Returns the grammar of these values, and whether detection of duplicate items is needed.
    pub(super) fn grammar(mut self, values: &Values) -> Result<(String, bool), Error> {
        let Some(start) = self.values(values)? else {
            let why = self.why.take();
            let why = why.unwrap_or_else(|| Reason::new("", "type", "no value is allowed"));
            return Err(match why.keyword.as_str() {
                "" => {
                    ErrorKind::Schema { pointer: why.pointer.clone(), keyword: None, what: why.what.clone() }
                        .into()
                }
                keyword => Error::schema(&why.pointer, keyword, why.what.as_str()),
            });
        };
        let blanks = match self.form.compact {
            true => String::new(),
            false => format!("%llguidance {{\"ignore_once\": true}}\n%ignore /{WHITESPACE}/\n"),
        };
        Ok((format!("{blanks}start: {start}\n{}", self.rules), self.watches))
    }

    fn rule(&mut self, body: &str) -> Result<String, Error> {
        self.named("r", body)
    }

    fn terminal(&mut self, body: &str) -> Result<String, Error> {
        self.named("T", body)
    }

    fn named(&mut self, prefix: &str, body: &str) -> Result<String, Error> {
        let key = format!("{prefix} {body}");
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let name = format!("{prefix}{}", self.names.len());
        let _ = writeln!(self.rules, "{name}: {body}");
        if self.rules.len() > MAX_BYTES {
            return Err(ErrorKind::TooComplex("the JSON schema makes too large a grammar".into()).into());
        }
        self.names.insert(key, name.clone());
        Ok(name)
    }

    /// Returns the rule of these values; `None` if there are none.
    pub(super) fn values(&mut self, values: &Values) -> Result<Option<String>, Error> {
        let kinds = match values {
            Values::Any => return Ok(Some(self.any()?)),
            Values::None(why) => {
                self.why.get_or_insert_with(|| Rc::clone(why));
                return Ok(None);
            }
            Values::Of(kinds) => kinds,
        };
        let (mut terms, mut options) = (Vec::new(), Vec::new());
        for kind in kinds {
            match kind {
                Kind::Null => terms.push("\"null\"".to_owned()),
                Kind::Boolean(None) => terms.push("\"true\" | \"false\"".to_owned()),
                Kind::Boolean(Some(value)) => terms.push(format!("\"{value}\"")),
                Kind::Number(number) => match self.number(number)? {
                    Some(Number::Term(term)) => terms.push(term),
                    Some(Number::Rule(rule)) => options.push(rule),
                    None => {}
                },
                Kind::Text(text) => terms.push(self.text(text)?),
                Kind::Array(array) => options.extend(self.array(array)?),
                Kind::Object(object) => options.extend(self.object(object)?),
                Kind::Reference(index) => options.extend(self.reference(*index)?),
            }
        }
        if !terms.is_empty() {
            options.push(self.terminal(&terms.join(" | "))?);
        }
        let mut distinct: Vec<String> = Vec::new();
        for option in options {
            if !distinct.contains(&option) {
                distinct.push(option);
            }
        }
        Ok(match distinct.len() {
            0 => None,
            1 => distinct.pop(),
            _ => Some(self.rule(&distinct.join(" | "))?),
        })
    }

    fn any(&mut self) -> Result<String, Error> {
        if !self.any {
            self.any = true;
            let number = decimal::between(false, None, None).unwrap_or_default();
            let text = of_length(0, None, Writing::Json);
            let scalar = self.terminal(&format!("\"null\" | \"true\" | \"false\" | {number} | {text}"))?;
            let key = self.terminal(&text)?;
            let (comma, colon) = (self.comma, self.colon);
            let _ = writeln!(
                self.rules,
                "any: {scalar} | any_array | any_object\n\
                 any_array: \"[\" (any ({comma} any)*)? \"]\"\n\
                 any_object: \"{{\" (any_pair ({comma} any_pair)*)? \"}}\"\n\
                 any_pair: {key} {colon} any"
            );
        }
        Ok("any".to_owned())
    }

    fn reference(&mut self, index: usize) -> Result<Option<String>, Error> {
        if let Some(known) = self.definitions.get(&index) {
            return Ok(known.clone());
        }
        let name = format!("d{index}");
        // It may refer to itself.
        self.definitions.insert(index, Some(name.clone()));
        let values = self.reading.values(index)?.unwrap_or(Values::Any);
        let body = self.values(&values)?;
        match body {
            Some(body) => {
                let _ = writeln!(self.rules, "{name}: {body}");
                Ok(Some(name))
            }
            None => {
                // Recursive references to this definition then have no values either.
                let _ = writeln!(self.rules, "{name}: /[^\\s\\S]/");
                self.definitions.insert(index, None);
                Ok(None)
            }
        }
    }

    fn number(&mut self, number: &NumberValues) -> Result<Option<Number>, Error> {
        if let (Some(low), Some(high)) = (&number.low, &number.high)
            && low == high
            && number.divisors.is_empty()
        {
            let fits = !number.integer || low.at.is_whole();
            return Ok(fits.then(|| Number::Term(format!("\"{}\"", low.at.text()))));
        }
        let (low, high) = (number.low.as_ref(), number.high.as_ref());
        let Some(between) = decimal::between(number.integer, low, high) else { return Ok(None) };
        if number.divisors.is_empty() {
            return Ok(Some(Number::Term(between)));
        }
        Ok(match multiples::of(&number.divisors, number.integer, low, high) {
            Some(multiples::Multiples::Term(term)) => Some(Number::Term(format!("(({between}) & ({term}))"))),
            Some(multiples::Multiples::Rule(body)) => Some(Number::Rule(self.rule(&body)?)),
            None => None,
        })
    }

    fn text(&mut self, text: &TextValues) -> Result<String, Error> {
        if let Some(constants) = &text.constants {
            let all: Vec<String> = constants.iter().map(|text| literal(text, Writing::Json)).collect();
            return Ok(all.join(" | "));
        }
        Ok(conjunction(text, Writing::Json))
    }

    fn array(&mut self, array: &ArrayValues) -> Result<Option<String>, Error> {
        let (least, mut most) = (array.least, array.most);
        if let Some(pointer) = array.unique.as_ref().filter(|_| most.is_none_or(|most| most > 1)) {
            if !self.watched || !array.prefix.is_empty() || !self.endless(&array.items) {
                return self.unique(array, pointer);
            }
            self.watches = true;
        }
        let mut prefix = Vec::new();
        for (i, values) in array.prefix.iter().enumerate() {
            if most.is_some_and(|most| most <= i as u64) {
                break;
            }
            match self.values(values)? {
                Some(item) => prefix.push(item),
                None => {
                    most = Some(i as u64);
                    break;
                }
            }
        }
        let count = prefix.len() as u64;
        let item = match most {
            Some(most) if most <= count => None,
            _ => self.values(&array.items)?,
        };
        if item.is_none() {
            most = Some(most.map_or(count, |most| most.min(count)));
        }
        if most.is_some_and(|most| most < least) {
            return Ok(None);
        }
        let mut rest = match &item {
            Some(item) => {
                let (low, high) = (least.saturating_sub(count), most.map(|most| most - count));
                if count == 0 {
                    self.separated(item, low, high)?
                } else {
                    self.repeated(&format!("({} {item})", self.comma), low, high)
                }
            }
            None => String::new(),
        };
        for (i, item) in prefix.iter().enumerate().rev() {
            let comma = if i > 0 { self.comma } else { "" };
            rest = self.rule(&format!("{comma} {item} {rest}"))?;
            if i as u64 >= least {
                rest = format!("{rest}?");
            }
        }
        Ok(Some(self.rule(&format!("\"[\" {rest} \"]\""))?))
    }

    /// Returns an array with unique items from a few constants, in a fixed order.
    fn unique(&mut self, array: &ArrayValues, pointer: &str) -> Result<Option<String>, Error> {
        let refused = |what: &str| Error::schema(pointer, "uniqueItems", what);
        let only = "is supported for items that are constants, texts or numbers without an upper bound alone";
        if !array.prefix.is_empty() {
            return Err(refused(only));
        }
        let mut items = Vec::new();
        self.constants(&array.items, &mut items).ok_or_else(|| refused(only))?;
        items.sort();
        items.dedup();
        if items.len() > MAX_UNIQUE {
            return Err(refused(&format!("is supported for at most {MAX_UNIQUE} different items")));
        }
        let fields: Vec<(String, bool)> = items.into_iter().map(|item| (item, false)).collect();
        let body = self.fields(&fields, None, array.least, array.most, || {
            refused("counts more items than are supported")
        })?;
        match body {
            Some(body) => Ok(Some(self.rule(&format!("\"[\" {body} \"]\""))?)),
            None => Ok(None),
        }
    }

    /// Returns whether the values are simple, and each prefix of one has infinitely many continuations.
    fn endless(&mut self, values: &Values) -> bool {
        let Values::Of(kinds) = values else { return false };
        kinds.iter().all(|kind| match kind {
            Kind::Text(text) => {
                text.constants.is_none()
                    && text.most.is_none()
                    && text.patterns.iter().all(|pattern| pattern.is_endless())
            }
            Kind::Number(number) => {
                number.divisors.is_empty()
                    && number.high.is_none()
                    && number.low.as_ref().is_none_or(|low| !low.at.is_negative())
            }
            Kind::Null | Kind::Boolean(_) => kinds.len() > 1,
            Kind::Reference(index) => match self.reading.values(*index) {
                // One level suffices: longer chains of references are not considered endless.
                Ok(Some(Values::Of(kinds)))
                    if !kinds.iter().any(|kind| matches!(kind, Kind::Reference(_))) =>
                {
                    self.endless(&Values::Of(kinds))
                }
                _ => false,
            },
            _ => false,
        })
    }

    /// Collects all values in their written form, if they are few and simple.
    fn constants(&mut self, values: &Values, items: &mut Vec<String>) -> Option<()> {
        let Values::Of(kinds) = values else { return None };
        for kind in kinds {
            match kind {
                Kind::Null => items.push("\"null\"".into()),
                Kind::Boolean(value) => {
                    let both =
                        [true, false].into_iter().filter(|one| value.is_none_or(|value| value == *one));
                    items.extend(both.map(|value| format!("\"{value}\"")));
                }
                Kind::Text(TextValues { constants: Some(texts), .. }) => {
                    items.extend(texts.iter().map(|text| literal(text, Writing::Json)));
                }
                Kind::Number(NumberValues { low: Some(low), high: Some(high), divisors, .. })
                    if low == high && divisors.is_empty() =>
                {
                    items.push(format!("\"{}\"", low.at.text()));
                }
                Kind::Reference(index) if !self.definitions.contains_key(index) => {
                    let values = self.reading.values(*index).ok()??;
                    self.constants(&values, items)?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn object(&mut self, object: &ObjectValues) -> Result<Option<String>, Error> {
        let mut fields = Vec::new();
        let mut taken = Vec::new();
        let undeclared =
            object.required.iter().filter(|name| !object.properties.iter().any(|(key, _)| key == *name));
        let names = object.properties.iter().map(|(name, _)| name).chain(undeclared);
        let closed = self.form.closed && object.is_closed_by_default();
        for name in names {
            let values = object.property(name)?;
            let required = object.required.contains(name);
            let key = literal(name, Writing::Json);
            taken.push(key.clone());
            match self.values(&values)? {
                Some(value) => fields.push((self.rule(&format!("{key} {} {value}", self.colon))?, required)),
                None if required => return Ok(None),
                None => {}
            }
        }
        let free = self.free(object, taken, closed)?;
        let too_many = || {
            let keyword = if object.least > 0 { "minProperties" } else { "maxProperties" };
            Error::schema(&object.pointer, keyword, "counts more optional properties than are supported")
        };
        match self.fields(&fields, free.as_deref(), object.least, object.most, too_many)? {
            Some(body) => Ok(Some(self.rule(&format!("\"{{\" {body} \"}}\""))?)),
            None => {
                self.why.get_or_insert_with(|| {
                    let keyword = if object.least > 0 { "minProperties" } else { "maxProperties" };
                    Reason::new(&object.pointer, keyword, "no object has as many properties")
                });
                Ok(None)
            }
        }
    }

    /// Returns the rule of an undeclared property. A `closed` object has such properties only by patterns.
    fn free(
        &mut self,
        object: &ObjectValues,
        taken: Vec<String>,
        closed: bool,
    ) -> Result<Option<String>, Error> {
        let not = |names: &[String]| match names {
            [] => String::new(),
            names => format!(" & ~({})", names.join(" | ")),
        };
        let mut options = Vec::new();
        let mut patterns = Vec::new();
        for (pattern, values) in &object.patterns {
            let terms = pattern.pattern.terms(Writing::Json).join(" & ");
            patterns.push(self.terminal(&terms)?);
            if let Some(value) = self.values(values)? {
                let key = self.terminal(&format!("{}{}", patterns[patterns.len() - 1], not(&taken)))?;
                options.push(format!("{key} {} {value}", self.colon));
            }
        }
        if !closed && let Some(value) = self.values(&object.additional)? {
            let others: Vec<String> = taken.into_iter().chain(patterns).collect();
            let key = self.terminal(&format!("{}{}", of_length(0, None, Writing::Json), not(&others)))?;
            options.push(format!("{key} {} {value}", self.colon));
        }
        if options.is_empty() { Ok(None) } else { self.rule(&options.join(" | ")).map(Some) }
    }

    /// Returns the rule of the text between the brackets: fields in their order, followed by any number of free
    /// ones within the bounds.
    fn fields(
        &mut self,
        fields: &[(String, bool)],
        free: Option<&str>,
        least: u64,
        most: Option<u64>,
        too_many: impl Fn() -> Error,
    ) -> Result<Option<String>, Error> {
        let needed = fields.iter().filter(|(_, required)| *required).count() as u64;
        let optional = fields.len() as u64 - needed;
        if most.is_some_and(|most| most < needed) || free.is_none() && least > fields.len() as u64 {
            return Ok(None);
        }
        let least = least.saturating_sub(needed);
        let most = most.map(|most| most - needed).filter(|most| free.is_some() || *most < optional);
        let states = if optional > 0 { most.unwrap_or(least) } else { 0 };
        if states.saturating_mul(fields.len() as u64) > MAX_COUNTED {
            return Err(too_many());
        }
        // Continuations after each field, by whether a field precedes and by the number of optional ones taken.
        let count = states as usize + 1;
        let mut ends = [Vec::new(), Vec::new()];
        for taken in 0..count as u64 {
            let (low, high) = (least.saturating_sub(taken), most.map(|most| most - taken));
            ends[0].push(match free {
                Some(free) => Some(self.separated(free, low, high)?),
                None => (low == 0).then(String::new),
            });
            ends[1].push(match free {
                Some(free) => Some(self.repeated(&format!("({} {free})", self.comma), low, high)),
                None => (low == 0).then(String::new),
            });
        }
        for (field, required) in fields.iter().rev() {
            let mut before = [vec![None; count], vec![None; count]];
            for (prefixed, before) in before.iter_mut().enumerate() {
                let comma = if prefixed == 1 { self.comma } else { "" };
                for taken in 0..count {
                    // True if no more optional fields may be taken.
                    let full = most.is_some_and(|most| taken as u64 >= most);
                    let next = if *required { taken } else { (taken + 1).min(count - 1) };
                    let with = if *required || !full { ends[1][next].clone() } else { None };
                    let with = with.map(|rest| format!("{comma} {field} {rest}"));
                    let without = if *required { None } else { ends[prefixed][taken].clone() };
                    before[taken] = match (with, without) {
                        (Some(with), Some(without)) if without.is_empty() => Some(self.rule(&with)? + "?"),
                        (Some(_), Some(without)) if prefixed == 1 && most.is_none() && least == 0 => {
                            // The rest is the same in both cases, and written once.
                            let one = self.rule(&format!("{comma} {field}"))?;
                            Some(self.rule(&format!("{one}? {without}"))?)
                        }
                        (Some(with), Some(without)) => Some(self.rule(&format!("{with} | {without}"))?),
                        (Some(only), None) | (None, Some(only)) => Some(self.rule(&only)?),
                        (None, None) => None,
                    };
                }
            }
            ends = before;
        }
        Ok(ends[0][0].clone())
    }

    /// Returns the rule of `least` to `most` items separated by commas.
    fn separated(&mut self, item: &str, least: u64, most: Option<u64>) -> Result<String, Error> {
        if most == Some(0) {
            return Ok(String::new());
        }
        let more = format!("({} {item})", self.comma);
        let more = self.repeated(&more, least.saturating_sub(1), most.map(|most| most - 1));
        let some = self.rule(&format!("{item} {more}"))?;
        Ok(if least == 0 { format!("{some}?") } else { some })
    }

    fn repeated(&self, one: &str, least: u64, most: Option<u64>) -> String {
        const MAX: u64 = i32::MAX as u64 - 1;
        match (least, most) {
            (0, None) => format!("{one}*"),
            (1, None) => format!("{one} {one}*"),
            (least, None) => format!("{one}{{{0},{0}}} {one}*", least.min(MAX)),
            (_, Some(0)) => String::new(),
            (least, Some(most)) => format!("{one}{{{},{}}}", least.min(MAX), most.min(MAX)),
        }
    }
}

enum Number {
    Term(String),
    Rule(String),
}

/// Returns the terminal of a text that is not a constant.
pub(super) fn conjunction(text: &TextValues, writing: Writing) -> String {
    let mut terms: Vec<String> = text.patterns.iter().flat_map(|pattern| pattern.terms(writing)).collect();
    if terms.is_empty() || text.least > 0 || text.most.is_some() {
        terms.push(of_length(text.least, text.most, writing));
    }
    match terms.as_slice() {
        [one] => one.clone(),
        _ => format!("({})", terms.join(" & ")),
    }
}
