//! [`Runtime`]: state of a rendering that functions, filters, tests and methods use.

use std::rc::Rc;
use std::time::SystemTime;

use super::ast::{Macro, NameId, Template, Uses};
use super::budget::{Budget, Failure, Result, fail};
use super::mixed::Part;
use super::print::Writer;
use super::scope::Frame;
use super::value::{List, Maker, Value};

/// Lookups of names in tables whose functions take the runtime.
#[derive(Clone, Copy)]
pub(super) struct Names {
    /// Test for whether there is a filter of a name.
    pub(super) is_filter: fn(&str) -> bool,
    /// Lookup of the static name of a value's method; `None` if the value has no such method.
    pub(super) method: fn(&Value, &str) -> Option<&'static str>,
}

/// Macro with the variables captured at its definition, except the template's top-level variables.
pub(super) struct MacroValue<'t> {
    pub(super) definition: &'t Macro,
    pub(super) captured: Frame,
}

/// State of a rendering that functions, filters, tests and methods use.
pub(super) struct Runtime<'t> {
    pub(super) template: &'t Template,
    pub(super) maker: Maker,
    pub(super) namespaces: Vec<Vec<(Rc<str>, Value)>>,
    pub(super) macros: Vec<MacroValue<'t>>,
    /// Last arguments of each `loop.changed`.
    pub(super) remembered: Vec<Rc<List>>,
    /// Time that `strftime_now` returns.
    pub(super) now: SystemTime,
    pub(super) names: Names,
}

impl<'t> Runtime<'t> {
    pub(super) fn new(template: &'t Template, maker: &Maker, now: SystemTime, names: Names) -> Self {
        Runtime {
            template,
            maker: maker.clone(),
            namespaces: Vec::new(),
            macros: Vec::new(),
            remembered: Vec::new(),
            now,
            names,
        }
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.maker.0
    }

    /// Checks that the budget allows a list of `n` items.
    pub(super) fn can_make_items(&self, n: usize) -> Result<()> {
        self.budget().can_make(n.saturating_mul(size_of::<Value>()))
    }

    /// Returns the items of an iterable.
    pub(super) fn items(&self, value: &Value) -> Result<Rc<List>> {
        let items: Vec<Value> = match value {
            Value::List(list) | Value::Tuple(list) => return Ok(Rc::clone(list)),
            Value::Undefined(_) => Vec::new(),
            Value::Dict(dict) => dict.entries().iter().map(|(key, _)| key.clone()).collect(),
            Value::Range(range) => range.iter().map(Value::Int).collect(),
            Value::Str(text) => {
                let one = |(at, c): (usize, char)| self.maker.part(text.part().range(at..at + c.len_utf8()));
                text.as_str().char_indices().map(one).collect::<Result<_>>()?
            }
            other => return fail(format!("a {} cannot be looped over", other.type_name())),
        };
        self.budget().steps(items.len())?;
        self.maker.rc_list(items)
    }

    /// Joins the values as text with `separator` between them.
    pub(super) fn join(&self, values: &[Value], separator: Part<'_>) -> Result<Value> {
        let mut writer = Writer::new(self.budget());
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                writer.push_part(separator)?;
            }
            writer.str(value)?;
        }
        self.maker.text(writer.text)
    }

    /// Converts a value to text; a text is returned as it is.
    pub(super) fn to_text(&self, value: &Value) -> Result<Value> {
        match value {
            Value::Str(_) => Ok(value.clone()),
            other => self.join(std::slice::from_ref(other), Part::own("")),
        }
    }

    /// Returns the name of a variable.
    pub(super) fn name(&self, id: NameId) -> &str {
        self.template.names.get(id as usize).map_or("", |name| name)
    }

    /// Returns an attribute of a macro.
    pub(super) fn macro_attribute(&self, id: usize, name: &str) -> Result<Value> {
        let Some(MacroValue { definition, .. }) = self.macros.get(id) else { return Ok(Value::None) };
        let Uses { caller, varargs, kwargs } = definition.uses;
        Ok(match name {
            "name" => self.maker.own(self.name(definition.name))?,
            "arguments" => {
                let names = definition.parameters.iter().map(|(name, _)| self.maker.own(self.name(*name)));
                self.maker.tuple(names.collect::<Result<_>>()?)?
            }
            "caller" => Value::Bool(caller.is_some()),
            "catch_varargs" => Value::Bool(varargs.is_some()),
            "catch_kwargs" => Value::Bool(kwargs.is_some()),
            other => Value::undefined(other),
        })
    }

    /// Sets an attribute of a namespace. Namespaces are freed only at the end of the rendering.
    pub(super) fn set_attribute(&mut self, namespace: usize, name: &str, value: Value) -> Result<()> {
        let Some(attributes) = self.namespaces.get_mut(namespace) else { return Ok(()) };
        let searched = attributes.len() / 8;
        match attributes.iter_mut().find(|(known, _)| **known == *name) {
            Some(attribute) => attribute.1 = value,
            None => {
                self.maker.0.make(size_of::<(Rc<str>, Value)>() + name.len())?;
                attributes.push((name.into(), value));
            }
        }
        self.budget().steps(searched)
    }

    /// Fails as `raise_exception` does.
    pub(super) fn raise(&self, message: String) -> Result<Value> {
        Err(Failure::Raised(message))
    }
}
