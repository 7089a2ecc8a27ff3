//! Filters that group items.

use crate::template::arguments::{Arguments, integer, is_true};
use crate::template::budget::{Result, fail};
use crate::template::runtime::Runtime;
use crate::template::value::Value;

use super::sequences::{by_path, key, sorted};

/// Splits items into lists of `linecount`, the last padded with `fill_with` if given.
pub(super) fn batch<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [size, fill] = arguments.bind("batch", ["linecount", "fill_with"])?;
    let Some(size) = size else { return fail("batch needs linecount") };
    let size = usize::try_from(integer(&size, "linecount")?).unwrap_or(usize::MAX);
    let items = runtime.items(value)?;
    runtime.can_make_items(items.items().len().saturating_mul(2))?;
    let mut rows: Vec<Value> = Vec::new();
    let mut row = Vec::new();
    for item in items.items() {
        if row.len() == size {
            rows.push(runtime.maker.list(std::mem::take(&mut row))?);
        }
        row.push(item.clone());
    }
    if !row.is_empty() {
        if let Some(fill) = fill.filter(|fill| !matches!(fill, Value::None)) {
            let missing = if size == usize::MAX { 0 } else { size.saturating_sub(row.len()) };
            runtime.can_make_items(missing)?;
            row.extend(std::iter::repeat_n(fill, missing));
        }
        rows.push(runtime.maker.list(row)?);
    }
    runtime.maker.list(rows)
}

/// Splits items into `slices` consecutive lists; the first ones are longer by one if the division has a remainder.
pub(super) fn slice<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [slices, fill] = arguments.bind("slice", ["slices", "fill_with"])?;
    let Some(slices) = slices else { return fail("slice needs slices") };
    let slices = usize::try_from(integer(&slices, "slices")?).unwrap_or(0);
    if slices == 0 {
        return fail("division by zero");
    }
    let items = runtime.items(value)?;
    let items = items.items();
    runtime.can_make_items(slices.saturating_mul(3).saturating_add(items.len()))?;
    let (size, longer) = (items.len() / slices, items.len() % slices);
    let mut rows = Vec::with_capacity(slices);
    let mut from = 0;
    for i in 0..slices {
        let to = from + size + usize::from(i < longer);
        let mut row = items[from..to].to_vec();
        if let Some(fill) = fill.as_ref().filter(|fill| !matches!(fill, Value::None) && i >= longer) {
            row.push(fill.clone());
        }
        rows.push(runtime.maker.list(row)?);
        from = to;
    }
    runtime.maker.list(rows)
}

/// Groups items by an attribute, sorted by it: pairs with the names `grouper` and `list`.
pub(super) fn group_by<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [attribute, default, case_sensitive] =
        arguments.bind("groupby", ["attribute", "default", "case_sensitive"])?;
    let Some(attribute) = attribute else { return fail("groupby needs attribute") };
    let case_sensitive = is_true(case_sensitive);
    let items = runtime.items(value)?;
    runtime.can_make_items(items.items().len().saturating_mul(3))?;
    let mut entries = Vec::new();
    for item in items.items() {
        let mut found = by_path(runtime, item, &attribute)?;
        if let Some(default) = default.as_ref().filter(|_| found.is_undefined()) {
            found = default.clone();
        }
        let key = key(runtime, &found, case_sensitive)?;
        entries.push((key.clone(), runtime.maker.tuple(vec![key, found, item.clone()])?));
    }
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for entry in sorted(runtime, entries, false)? {
        let entry = runtime.items(&entry)?;
        let [key, found, item] = entry.items() else { continue };
        match groups.last_mut() {
            Some((last, _, list)) if last.equals(key, runtime.budget())? => list.push(item.clone()),
            _ => groups.push((key.clone(), found.clone(), vec![item.clone()])),
        }
    }
    let group = |(_, found, list): (Value, Value, Vec<Value>)| {
        let list = runtime.maker.list(list)?;
        runtime.maker.group(found, list)
    };
    let groups = groups.into_iter().map(group).collect::<Result<Vec<_>>>()?;
    runtime.maker.list(groups)
}
