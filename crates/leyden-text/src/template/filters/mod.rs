//! Filters: the functions after `|`.

mod groups;
mod json;
mod layout;
mod numbers;
mod sequences;
mod texts;
mod web;

use std::cmp::Ordering;

use super::arguments::{Arguments, is_true, text};
use super::budget::{Result, fail};
use super::runtime::Runtime;
use super::strings;
use super::value::Value;
use crate::error::Quoted;
/// Filter with its names.
#[derive(Debug)]
pub(super) struct Filter {
    names: &'static [&'static str],
    pub(super) call: for<'t> fn(&mut Runtime<'t>, &Value, Arguments<'t>) -> Result<Value>,
}

static FILTERS: &[Filter] = &[
    Filter { names: &["abs"], call: numbers::absolute },
    Filter { names: &["attr"], call: attribute },
    Filter { names: &["batch"], call: groups::batch },
    Filter { names: &["capitalize"], call: |i, v, args| texts::map_text(i, v, args, strings::capitalize) },
    Filter { names: &["center"], call: layout::center },
    Filter { names: &["count", "length"], call: length },
    Filter { names: &["d", "default"], call: default },
    Filter { names: &["dictsort"], call: sequences::sort_dict },
    Filter { names: &["e", "escape"], call: texts::escape },
    Filter { names: &["filesizeformat"], call: numbers::file_size },
    Filter { names: &["first"], call: |i, v, args| sequences::end(i, v, args, true) },
    Filter { names: &["float"], call: numbers::float },
    Filter { names: &["forceescape"], call: web::force_escape },
    Filter { names: &["format"], call: texts::format },
    Filter { names: &["from_json"], call: json::from_json },
    Filter { names: &["groupby"], call: groups::group_by },
    Filter { names: &["indent"], call: texts::indent },
    Filter { names: &["int"], call: numbers::int },
    Filter { names: &["items"], call: sequences::items },
    Filter { names: &["join"], call: sequences::join },
    Filter { names: &["last"], call: |i, v, args| sequences::end(i, v, args, false) },
    Filter { names: &["list"], call: sequences::list },
    Filter { names: &["lower"], call: |i, v, args| texts::map_text(i, v, args, str::to_lowercase) },
    Filter { names: &["map"], call: map },
    Filter { names: &["max"], call: |i, v, args| sequences::extreme(i, v, args, Ordering::Greater) },
    Filter { names: &["min"], call: |i, v, args| sequences::extreme(i, v, args, Ordering::Less) },
    Filter { names: &["reject"], call: |i, v, args| sequences::select(i, v, args, false, false) },
    Filter { names: &["rejectattr"], call: |i, v, args| sequences::select(i, v, args, true, false) },
    Filter { names: &["replace"], call: texts::replace },
    Filter { names: &["reverse"], call: sequences::reverse },
    Filter { names: &["round"], call: numbers::round },
    Filter { names: &["safe"], call: texts::safe },
    Filter { names: &["select"], call: |i, v, args| sequences::select(i, v, args, false, true) },
    Filter { names: &["selectattr"], call: |i, v, args| sequences::select(i, v, args, true, true) },
    Filter { names: &["slice"], call: groups::slice },
    Filter { names: &["sort"], call: sequences::sort },
    Filter { names: &["string"], call: texts::string },
    Filter { names: &["striptags"], call: web::strip_tags },
    Filter { names: &["sum"], call: sequences::sum },
    Filter { names: &["title"], call: |i, v, args| texts::map_text(i, v, args, texts::title) },
    Filter { names: &["tojson"], call: json::to_json },
    Filter { names: &["trim"], call: texts::trim },
    Filter { names: &["truncate"], call: layout::truncate },
    Filter { names: &["unique"], call: sequences::unique },
    Filter { names: &["upper"], call: |i, v, args| texts::map_text(i, v, args, str::to_uppercase) },
    Filter { names: &["urlencode"], call: web::url_encode },
    Filter { names: &["wordcount"], call: texts::count_words },
    Filter { names: &["wordwrap"], call: layout::word_wrap },
    Filter { names: &["xmlattr"], call: web::attributes },
];

/// Jinja filters that are not supported, with the reason.
const LEFT_OUT: [(&str, &str); 3] = [
    ("pprint", "it is a debugging aid"),
    ("random", "rendering is deterministic"),
    ("urlize", "it writes links for web pages"),
];

pub(super) fn named(name: &str) -> Option<&'static Filter> {
    index(name).map(at)
}

/// Returns the index of a filter in the table.
pub(super) fn index(name: &str) -> Option<usize> {
    FILTERS.iter().position(|filter| filter.names.contains(&name))
}

/// Returns the filter at an index of the table.
pub(super) fn at(index: usize) -> &'static Filter {
    &FILTERS[index]
}

/// Returns the error message for an unknown filter.
pub(super) fn unknown(name: &str) -> String {
    let why = LEFT_OUT.iter().find(|(known, _)| *known == name);
    let why = why.map(|(_, why)| format!(": {why}")).unwrap_or_default();
    format!("there is no filter {}{why}", Quoted(name))
}

fn length<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("length", [])?;
    let length = match value {
        Value::Undefined(_) => 0,
        Value::Str(text) => {
            runtime.budget().scan(text.as_str().len())?;
            text.as_str().chars().count()
        }
        Value::List(list) | Value::Tuple(list) => list.items().len(),
        Value::Dict(dict) => dict.entries().len(),
        Value::Range(range) => range.len,
        other => return fail(format!("a {} has no length", other.type_name())),
    };
    Ok(Value::Int(length as i64))
}

fn default<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default, boolean] = arguments.bind("default", ["default_value", "boolean"])?;
    if !value.is_undefined() && (!is_true(boolean) || value.is_true()) {
        return Ok(value.clone());
    }
    default.map_or_else(|| runtime.maker.own(""), Ok)
}

fn attribute<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [name] = arguments.exactly("attr", ["name"])?;
    let name = text(&name, "the name of an attribute")?;
    // Unlike `.`, this filter ignores the entries of a dictionary.
    match value {
        Value::Dict(_) if super::methods::named(value, name).is_none() => Ok(Value::undefined(name)),
        value => runtime.attribute(value, name),
    }
}

fn map<'t>(runtime: &mut Runtime<'t>, value: &Value, mut arguments: Arguments<'t>) -> Result<Value> {
    let items = sequences::items_or_none(runtime, value)?;
    let mut mapped = Vec::new();
    if arguments.positional.is_empty() {
        let [attribute, default] = arguments.bind("map", ["attribute", "default"])?;
        let Some(attribute) = attribute else { return fail("map needs a filter or an attribute") };
        for item in items.items() {
            let value = sequences::by_path(runtime, item, &attribute)?;
            mapped.push(match &default {
                Some(default) if value.is_undefined() => default.clone(),
                _ => value,
            });
        }
    } else {
        let name = arguments.positional.remove(0);
        let name = text(&name, "the name of a filter")?;
        let Some(filter) = named(name) else {
            return fail(unknown(name));
        };
        for item in items.items() {
            runtime.budget().steps(1 + arguments.positional.len())?;
            let (positional, named) = (arguments.positional.clone(), arguments.named.clone());
            runtime.budget().enter()?;
            mapped.push((filter.call)(runtime, item, Arguments { positional, named })?);
            runtime.budget().leave();
        }
    }
    runtime.maker.list(mapped)
}
