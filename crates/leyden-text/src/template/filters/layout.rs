//! Filters that fit text to a length.

use super::texts::as_text;
use crate::template::arguments::{Arguments, integer, is_true};
use crate::template::budget::{Result, fail};
use crate::template::mixed::Part;
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::strings;
use crate::template::value::Value;

/// Returns a length given as an argument, or the default.
fn length(value: Option<&Value>, default: i64, what: &str) -> Result<i64> {
    value.map_or(Ok(default), |value| integer(value, what))
}

pub(super) fn center<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [width] = arguments.bind("center", ["width"])?;
    let width = length(width.as_ref(), 80, "a width")?;
    let value = as_text(runtime, value)?;
    runtime.centered(&value, width, Part::own(" "))
}

/// Excess over the maximum length up to which a text is not truncated.
const LEEWAY: i64 = 5;

pub(super) fn truncate<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [most, cut_words, end, leeway] =
        arguments.bind("truncate", ["length", "killwords", "end", "leeway"])?;
    let most = length(most.as_ref(), 255, "a length")?;
    let leeway = match &leeway {
        None | Some(Value::None) => LEEWAY,
        Some(leeway) => integer(leeway, "a leeway")?,
    };
    let end = match end {
        None => runtime.maker.own("...")?,
        Some(end) => runtime.to_text(&end)?,
    };
    let value = as_text(runtime, value)?;
    let text = value.as_str().unwrap_or_default();
    let ending = end.as_str().unwrap_or_default().chars().count() as i64;
    if most < ending || leeway < 0 {
        return fail(format!("truncate: expected a length of at least {ending} and a leeway of at least 0"));
    }
    if text.chars().count() as i64 <= most.saturating_add(leeway) {
        return Ok(value);
    }
    let kept = usize::try_from(most - ending).unwrap_or(0);
    let mut cut = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    if !is_true(cut_words) {
        cut = text[..cut].rfind(' ').unwrap_or(cut);
    }
    let mut writer = Writer::new(runtime.budget());
    writer.push_part(value.as_part().range(0..cut))?;
    writer.push_part(end.as_part())?;
    runtime.maker.text(writer.text)
}

/// Wraps text to lines of at most `width` characters, breaking at spaces.
pub(super) fn word_wrap<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let parameters = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, break_long, wrap, hyphens] = arguments.bind("wordwrap", parameters)?;
    let width = length(width.as_ref(), 79, "a width")?;
    let Some(width) = usize::try_from(width).ok().filter(|width| *width > 0) else {
        return fail("wordwrap: the width must be more than 0");
    };
    let break_long = break_long.is_none_or(|flag| flag.is_true());
    let hyphens = hyphens.is_none_or(|flag| flag.is_true());
    let wrap = match wrap {
        None | Some(Value::None) => runtime.maker.own("\n")?,
        Some(wrap) => runtime.to_text(&wrap)?,
    };
    let value = as_text(runtime, value)?;
    let text = value.as_str().unwrap_or_default();
    runtime.can_make_items(text.len())?;
    let mut writer = Writer::new(runtime.budget());
    for (i, line) in strings::lines(text, false).into_iter().enumerate() {
        let wrapped = strings::wrapped(line, width, break_long, hyphens);
        if i > 0 {
            writer.push_part(wrap.as_part())?;
        }
        for (n, piece) in wrapped.into_iter().enumerate() {
            if n > 0 {
                writer.push_part(wrap.as_part())?;
            }
            writer.push_part(value.as_part().of(piece))?;
        }
    }
    runtime.maker.text(writer.text)
}
