//! Methods of strings, dictionaries, lists and loops.

use std::ops::Range;
use std::rc::Rc;

use super::arguments::{Arguments, integer, text};
use super::budget::{Result, fail};
use super::mixed::{Mixed, Part};
use super::runtime::Runtime;
use super::stateful;
use super::strings::{self, Ends};
use super::value::{Dict, Value};

/// Method with its name.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) call: for<'t> fn(&mut Runtime<'t>, &Value, Arguments<'t>) -> Result<Value>,
}

static STRING_METHODS: &[Method] = &[
    Method { name: "strip", call: |i, v, args| strip(i, v, args, Ends::Both) },
    Method { name: "lstrip", call: |i, v, args| strip(i, v, args, Ends::Left) },
    Method { name: "rstrip", call: |i, v, args| strip(i, v, args, Ends::Right) },
    Method { name: "split", call: |i, v, args| split(i, v, args, strings::split) },
    Method { name: "rsplit", call: |i, v, args| split(i, v, args, strings::rsplit) },
    Method { name: "splitlines", call: split_lines },
    Method { name: "partition", call: |i, v, args| partition(i, v, args, false) },
    Method { name: "rpartition", call: |i, v, args| partition(i, v, args, true) },
    Method {
        name: "startswith",
        call: |i, v, args| affix(i, v, args, |text, affix| text.starts_with(affix)),
    },
    Method { name: "endswith", call: |i, v, args| affix(i, v, args, |text, affix| text.ends_with(affix)) },
    Method {
        name: "removeprefix",
        call: |i, v, args| remove(i, v, args, |text, affix| text.strip_prefix(affix)),
    },
    Method {
        name: "removesuffix",
        call: |i, v, args| remove(i, v, args, |text, affix| text.strip_suffix(affix)),
    },
    Method { name: "upper", call: |i, v, args| map(i, v, args, str::to_uppercase) },
    Method { name: "lower", call: |i, v, args| map(i, v, args, str::to_lowercase) },
    Method { name: "title", call: |i, v, args| map(i, v, args, strings::title) },
    Method { name: "capitalize", call: |i, v, args| map(i, v, args, strings::capitalize) },
    Method { name: "replace", call: replace },
    Method { name: "join", call: join },
    Method { name: "find", call: |i, v, args| find(i, v, args, false) },
    Method { name: "rfind", call: |i, v, args| find(i, v, args, true) },
    Method { name: "index", call: |i, v, args| found(find(i, v, args, false)?) },
    Method { name: "rindex", call: |i, v, args| found(find(i, v, args, true)?) },
    Method { name: "count", call: count_text },
    Method { name: "isdigit", call: |i, v, args| all(i, v, args, |c| c.is_ascii_digit() || superscript(c)) },
    Method { name: "isdecimal", call: |i, v, args| all(i, v, args, |c| c.is_ascii_digit()) },
    Method { name: "isnumeric", call: |i, v, args| all(i, v, args, char::is_numeric) },
    Method { name: "isalpha", call: |i, v, args| all(i, v, args, char::is_alphabetic) },
    Method { name: "isalnum", call: |i, v, args| all(i, v, args, char::is_alphanumeric) },
    Method { name: "isspace", call: |i, v, args| all(i, v, args, strings::is_space) },
    Method { name: "islower", call: |i, v, args| cased(i, v, args, char::is_lowercase) },
    Method { name: "isupper", call: |i, v, args| cased(i, v, args, char::is_uppercase) },
    Method { name: "zfill", call: zero_fill },
    Method { name: "ljust", call: |i, v, args| justify(i, v, args, false) },
    Method { name: "rjust", call: |i, v, args| justify(i, v, args, true) },
    Method { name: "center", call: center },
    Method { name: "format", call: format },
    Method { name: "swapcase", call: |i, v, args| map(i, v, args, strings::swap_case) },
    Method { name: "casefold", call: |i, v, args| map(i, v, args, strings::fold_case) },
    Method { name: "expandtabs", call: expand_tabs },
    Method { name: "isascii", call: |i, v, args| ascii(i, v, args) },
];

static DICT_METHODS: &[Method] = &[
    Method { name: "get", call: get },
    Method { name: "items", call: items },
    Method { name: "keys", call: |i, v, args| column(i, v, args, |(key, _)| key.clone()) },
    Method { name: "values", call: |i, v, args| column(i, v, args, |(_, value)| value.clone()) },
    Method { name: "copy", call: copy },
];

static LIST_METHODS: &[Method] = &[
    Method { name: "index", call: index },
    Method { name: "count", call: count_items },
    Method { name: "copy", call: copy },
];

static LOOP_METHODS: &[Method] =
    &[Method { name: "cycle", call: cycle }, Method { name: "changed", call: changed }];

static CYCLER_METHODS: &[Method] =
    &[Method { name: "next", call: stateful::next }, Method { name: "reset", call: stateful::reset }];

static NUMBER_METHODS: &[Method] = &[Method { name: "is_integer", call: is_integer }];

/// Returns the method of a value.
pub(super) fn named(value: &Value, name: &str) -> Option<&'static Method> {
    let methods = match value {
        Value::Str(_) => STRING_METHODS,
        Value::Dict(_) => DICT_METHODS,
        Value::List(_) | Value::Tuple(_) => LIST_METHODS,
        Value::Loop(_) => LOOP_METHODS,
        Value::Float(_) => NUMBER_METHODS,
        Value::Stateful(object) if object.is_cycler() => CYCLER_METHODS,
        _ => return None,
    };
    methods.iter().find(|method| method.name == name)
}

/// Returns the text on which a method is called, and counts the steps of reading it.
fn receiver<'v>(runtime: &Runtime<'_>, value: &'v Value) -> Result<&'v str> {
    let text = value.as_str().unwrap_or_default();
    runtime.budget().scan(text.len())?;
    Ok(text)
}

fn strip<'t>(runtime: &Runtime<'t>, value: &Value, arguments: Arguments<'t>, ends: Ends) -> Result<Value> {
    let [chars] = arguments.bind("strip", ["chars"])?;
    let chars = match &chars {
        None | Some(Value::None) => None,
        Some(chars) => Some(text(chars, "the characters to strip")?),
    };
    let all = receiver(runtime, value)?;
    let stripped = strings::strip(all, chars, ends);
    // Each stripped character may have been compared with all of `chars`.
    runtime.budget().scan((all.len() - stripped.len()).saturating_mul(chars.map_or(1, str::len)))?;
    runtime.maker.part(value.as_part().of(stripped))
}

fn split<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    split: for<'s> fn(&'s str, Option<&str>, usize) -> Vec<&'s str>,
) -> Result<Value> {
    let [separator, most] = arguments.bind("split", ["sep", "maxsplit"])?;
    let separator = match &separator {
        None | Some(Value::None) => None,
        Some(separator) => match text(separator, "a separator")? {
            "" => return fail("a separator cannot be empty"),
            separator => Some(separator),
        },
    };
    let most = most.map_or(Ok(-1), |most| integer(&most, "maxsplit"))?;
    let all = receiver(runtime, value)?;
    let parts = match separator {
        Some(separator) => all.matches(separator).count() + 1,
        None => all.split(strings::is_space).filter(|part| !part.is_empty()).count(),
    };
    runtime.can_make_items(parts)?;
    let parts = split(all, separator, usize::try_from(most).unwrap_or(usize::MAX));
    runtime.parts(value.as_part(), parts)
}

fn split_lines<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [keep] = arguments.bind("splitlines", ["keepends"])?;
    let all = receiver(runtime, value)?;
    runtime.can_make_items(1 + all.chars().filter(|&c| strings::is_line_end(c)).count())?;
    let lines = strings::lines(all, keep.is_some_and(|keep| keep.is_true()));
    runtime.parts(value.as_part(), lines)
}

fn partition<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    from_right: bool,
) -> Result<Value> {
    let [separator] = arguments.exactly("partition", ["sep"])?;
    let separator = text(&separator, "a separator")?;
    if separator.is_empty() {
        return fail("a separator cannot be empty");
    }
    let all = receiver(runtime, value)?;
    let at = if from_right { all.rfind(separator) } else { all.find(separator) };
    let (at, end) = match at {
        Some(at) => (at, at + separator.len()),
        None if from_right => (0, 0),
        None => (all.len(), all.len()),
    };
    // The separator is taken from the text, so that the parts join to the text again.
    let parts =
        [0..at, at..end, end..all.len()].map(|range| runtime.maker.part(value.as_part().range(range)));
    runtime.maker.tuple(parts.into_iter().collect::<Result<_>>()?)
}

fn affix<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    holds: fn(&str, &str) -> bool,
) -> Result<Value> {
    let [affix] = arguments.exactly("startswith or endswith", ["affix"])?;
    let all = value.as_str().unwrap_or_default();
    if let Value::Tuple(affixes) = &affix {
        for affix in affixes.items() {
            let affix = text(affix, "an affix")?;
            runtime.budget().scan(affix.len())?;
            if holds(all, affix) {
                return Ok(Value::Bool(true));
            }
        }
        return Ok(Value::Bool(false));
    }
    let affix = text(&affix, "an affix")?;
    runtime.budget().scan(affix.len())?;
    Ok(Value::Bool(holds(all, affix)))
}

fn remove<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    strip: for<'s> fn(&'s str, &str) -> Option<&'s str>,
) -> Result<Value> {
    let [affix] = arguments.exactly("removeprefix or removesuffix", ["affix"])?;
    let all = receiver(runtime, value)?;
    match strip(all, text(&affix, "an affix")?) {
        Some(rest) => runtime.maker.part(value.as_part().of(rest)),
        None => Ok(value.clone()),
    }
}

fn map<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    change: fn(&str) -> String,
) -> Result<Value> {
    let [] = arguments.exactly("this method", [])?;
    let all = receiver(runtime, value)?;
    // The change of case can make three characters of one.
    runtime.budget().can_make(all.len().saturating_mul(3))?;
    runtime.maker.text(Mixed::made_of(change(all), value.as_part()))
}

fn replace<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [old, new, count] = arguments.bind("replace", ["old", "new", "count"])?;
    let (Some(old), Some(new)) = (old, new) else { return fail("replace needs old and new") };
    let count = count.map_or(Ok(-1), |count| integer(&count, "count"))?;
    text(&new, "the replacement")?;
    runtime.replace(value, text(&old, "what is replaced")?, new.as_part(), count)
}

impl Runtime<'_> {
    /// Replaces the first `count` occurrences of `old`, or all if `count` is negative.
    pub(super) fn replace(&self, value: &Value, old: &str, new: Part<'_>, count: i64) -> Result<Value> {
        let all = receiver(self, value)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let found = all.matches(old).count().min(count);
        let ranges = new.runs().count().saturating_add(1).saturating_mul(size_of::<Range<usize>>());
        let added = found.checked_mul(new.as_str().len().saturating_add(ranges));
        self.budget().can_make(added.and_then(|added| added.checked_add(all.len())).unwrap_or(usize::MAX))?;
        let (mut replaced, mut from) = (Mixed::default(), 0);
        for (at, _) in all.match_indices(old).take(count) {
            replaced.push(value.as_part().range(from..at));
            replaced.push(new);
            from = at + old.len();
        }
        replaced.push(value.as_part().range(from..all.len()));
        self.maker.text(replaced)
    }

    /// Centers a text in a field, as `str.center` does.
    pub(super) fn centered(&self, value: &Value, width: i64, fill: Part<'_>) -> Result<Value> {
        let text = value.as_str().unwrap_or_default();
        self.budget().scan(text.len())?;
        let width = usize::try_from(width).unwrap_or(0);
        let missing = width.saturating_sub(text.chars().count());
        // Python puts the odd space to the left in a field of odd width, to the right in one of even width.
        let left = missing / 2 + (missing & width & 1);
        self.budget().can_make(missing.saturating_mul(fill.as_str().len()).saturating_add(text.len()))?;
        let blanks = |n: usize| Mixed::made_of(fill.as_str().repeat(n), fill);
        let (before, behind) = (blanks(left), blanks(missing - left));
        let mut all = Mixed::default();
        for part in [
            Part::new(&before.text, &before.content),
            value.as_part(),
            Part::new(&behind.text, &behind.content),
        ] {
            all.push(part);
        }
        self.maker.text(all)
    }

    /// Returns a list of parts of a text.
    fn parts(&self, whole: Part<'_>, parts: Vec<&str>) -> Result<Value> {
        self.maker.list(parts.into_iter().map(|part| self.maker.part(whole.of(part))).collect::<Result<_>>()?)
    }
}

fn join<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [items] = arguments.exactly("join", ["iterable"])?;
    let items = runtime.items(&items)?;
    if let Some(other) = items.items().iter().find(|item| item.as_str().is_none()) {
        return fail(format!("only a str can be joined, not a {}", other.type_name()));
    }
    runtime.join(items.items(), value.as_part())
}

/// Returns the position of a text within the receiver, in characters, or -1.
fn find<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    from_right: bool,
) -> Result<Value> {
    let [part] = arguments.exactly("find", ["sub"])?;
    let part = text(&part, "what is looked for")?;
    let all = receiver(runtime, value)?;
    let at = if from_right { all.rfind(part) } else { all.find(part) };
    Ok(Value::Int(at.map_or(-1, |at| all[..at].chars().count() as i64)))
}

fn found(place: Value) -> Result<Value> {
    if place.as_int() == Some(-1) { fail("the text is not found") } else { Ok(place) }
}

fn count_text<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [part] = arguments.exactly("count", ["sub"])?;
    let all = receiver(runtime, value)?;
    Ok(Value::Int(all.matches(text(&part, "what is counted")?).count() as i64))
}

fn superscript(c: char) -> bool {
    matches!(c, '²' | '³' | '¹')
}

fn all<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    holds: fn(char) -> bool,
) -> Result<Value> {
    let [] = arguments.exactly("this method", [])?;
    let all = receiver(runtime, value)?;
    Ok(Value::Bool(!all.is_empty() && all.chars().all(holds)))
}

fn cased<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    wanted: fn(char) -> bool,
) -> Result<Value> {
    let [] = arguments.exactly("this method", [])?;
    let mut cased =
        receiver(runtime, value)?.chars().filter(|c| c.is_lowercase() || c.is_uppercase()).peekable();
    Ok(Value::Bool(cased.peek().is_some() && cased.all(wanted)))
}

fn zero_fill<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [width] = arguments.exactly("zfill", ["width"])?;
    let all = receiver(runtime, value)?;
    let width = usize::try_from(integer(&width, "a width")?).unwrap_or(0);
    runtime.budget().can_make(width.saturating_add(all.len()))?;
    let zeros = "0".repeat(width.saturating_sub(all.chars().count()));
    let digits = all.strip_prefix(['+', '-']).unwrap_or(all);
    let mut filled = Mixed::default();
    filled.push(value.as_part().range(0..all.len() - digits.len()));
    filled.push_own(&zeros);
    filled.push(value.as_part().of(digits));
    runtime.maker.text(filled)
}

fn justify<'t>(runtime: &Runtime<'t>, value: &Value, arguments: Arguments<'t>, right: bool) -> Result<Value> {
    let [width, fill] = arguments.bind("ljust or rjust", ["width", "fillchar"])?;
    let width = width.map_or_else(|| fail("a width is needed"), |width| integer(&width, "a width"))?;
    let filling = fill.as_ref().map_or(Part::own(" "), Value::as_part);
    let fill = fill.as_ref().map_or(Ok(" "), |fill| text(fill, "what is filled with"))?;
    if fill.chars().count() != 1 {
        return fail("what is filled with must be one character");
    }
    let all = receiver(runtime, value)?;
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(all.chars().count());
    runtime.budget().can_make(missing.saturating_mul(4).saturating_add(all.len()))?;
    let fill = Mixed::made_of(fill.repeat(missing), filling);
    let parts = [value.as_part(), Part::new(&fill.text, &fill.content)];
    let mut justified = Mixed::default();
    for part in if right { [parts[1], parts[0]] } else { parts } {
        justified.push(part);
    }
    runtime.maker.text(justified)
}

fn center<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [width, fill] = arguments.bind("center", ["width", "fillchar"])?;
    let width = width.map_or_else(|| fail("a width is needed"), |width| integer(&width, "a width"))?;
    let filling = fill.as_ref().map_or(Part::own(" "), Value::as_part);
    if filling.as_str().chars().count() != 1 {
        return fail("what is filled with must be one character");
    }
    runtime.centered(value, width, filling)
}

#[expect(clippy::needless_pass_by_value, reason = "methods are called alike")]
fn format<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    match value {
        Value::Str(format) => super::format::format(runtime, format, &arguments),
        other => fail(format!("a {} is no format", other.type_name())),
    }
}

/// Replaces tabs by spaces up to the next tab stop.
fn expand_tabs<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [size] = arguments.bind("expandtabs", ["tabsize"])?;
    let size = size.map_or(Ok(8), |size| integer(&size, "a width"))?;
    let size = usize::try_from(size).unwrap_or(0);
    receiver(runtime, value)?;
    let mut expanded = Mixed::default();
    let mut column: usize = 0;
    for (run, is_content) in value.as_part().runs() {
        for c in run.chars() {
            match c {
                '\t' => {
                    let blanks = column.checked_rem(size).map_or(0, |over| size - over);
                    runtime.budget().can_make(expanded.text.len().saturating_add(blanks))?;
                    expanded.push_as(&" ".repeat(blanks), is_content);
                    column += blanks;
                }
                c => {
                    expanded.push_as(c.encode_utf8(&mut [0; 4]), is_content);
                    column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
                }
            }
        }
    }
    runtime.maker.text(expanded)
}

fn ascii<'t>(runtime: &Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("this method", [])?;
    Ok(Value::Bool(receiver(runtime, value)?.is_ascii()))
}

fn is_integer<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("is_integer", [])?;
    Ok(Value::Bool(matches!(value, Value::Float(f) if f.fract() == 0.0)))
}

fn dict(value: &Value) -> Result<&Dict> {
    match value {
        Value::Dict(dict) => Ok(dict),
        other => fail(format!("a {} has no entries", other.type_name())),
    }
}

fn get<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [key, default] = arguments.bind("get", ["key", "default"])?;
    let Some(key) = key else { return fail("get needs a key") };
    let found = dict(value)?.lookup(&key, runtime.budget())?.cloned();
    Ok(found.or(default).unwrap_or(Value::None))
}

fn items<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("items", [])?;
    runtime.entries(value)
}

impl Runtime<'_> {
    /// Returns the entries of a dictionary as a list of pairs.
    pub(super) fn entries(&self, value: &Value) -> Result<Value> {
        let pair = |(key, value): &(Value, Value)| self.maker.tuple(vec![key.clone(), value.clone()]);
        self.maker.list(dict(value)?.entries().iter().map(pair).collect::<Result<_>>()?)
    }
}

fn column<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    of: fn(&(Value, Value)) -> Value,
) -> Result<Value> {
    let [] = arguments.exactly("this method", [])?;
    runtime.maker.list(dict(value)?.entries().iter().map(of).collect())
}

/// Returns the receiver: values are immutable.
fn copy<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("copy", [])?;
    Ok(value.clone())
}

fn index<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [wanted] = arguments.exactly("index", ["value"])?;
    for (i, item) in runtime.items(value)?.items().iter().enumerate() {
        if item.equals(&wanted, runtime.budget())? {
            return Ok(Value::Int(i as i64));
        }
    }
    fail("the value is not in the list")
}

fn count_items<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [wanted] = arguments.exactly("count", ["value"])?;
    let mut count = 0;
    for item in runtime.items(value)?.items() {
        count += i64::from(item.equals(&wanted, runtime.budget())?);
    }
    Ok(Value::Int(count))
}

/// Returns whether the values differ from those of the previous iteration.
fn changed<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let Value::Loop(state) = value else { return fail("only a loop has iterations") };
    if !arguments.named.is_empty() {
        return fail("changed takes no named arguments");
    }
    let values = runtime.maker.rc_list(arguments.positional)?;
    let Some(at) = state.changed.get() else {
        // The remembered values are stored outside the loop object, so that no value can contain itself.
        runtime.budget().make(size_of_val(&values))?;
        state.changed.set(Some(runtime.remembered.len()));
        runtime.remembered.push(values);
        return Ok(Value::Bool(true));
    };
    let Some(last) = runtime.remembered.get(at).cloned() else { return Ok(Value::Bool(true)) };
    let same = Value::List(last).equals(&Value::List(Rc::clone(&values)), runtime.budget())?;
    runtime.remembered[at] = values;
    Ok(Value::Bool(!same))
}

/// Returns the argument for the current iteration of a loop.
fn cycle<'t>(_: &mut Runtime<'t>, value: &Value, mut arguments: Arguments<'t>) -> Result<Value> {
    let Value::Loop(state) = value else { return fail("only a loop has iterations") };
    let turn = state.index.get().checked_rem(arguments.positional.len());
    match turn {
        Some(turn) if arguments.named.is_empty() => Ok(arguments.positional.swap_remove(turn)),
        _ => fail("cycle needs values and takes no named arguments"),
    }
}
