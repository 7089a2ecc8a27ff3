//! Execution of statements: output, control flow, variables and macros.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::SystemTime;

use super::arguments::Arguments;
use super::ast::{
    Body, CallBlock, Expr, For, Macro, NameId, Postfix, Statement, StatementKind, Target, Template, Uses,
};
use super::budget::{Budget, Result, fail};
use super::filters;
use super::functions;
use super::methods;
use super::mixed::{Mixed, Part};
use super::print::Writer;
use super::runtime::{MacroValue, Names, Runtime};
use super::scope::Frame;
use super::value::{Loop, Maker, Value};

/// Control flow after a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// State of one rendering.
pub(super) struct Interpreter<'t> {
    pub(super) runtime: Runtime<'t>,
    /// Variables given to the template, by name id.
    context: Vec<Option<Value>>,
    /// Variables that the template sets outside of loops and macros, by name id.
    top: Vec<Option<Value>>,
    frames: Vec<Frame>,
    /// Index of the first visible frame: the frames before it belong to the callers of a macro.
    first_visible: usize,
    /// Recursive loops, with the variables captured at each.
    recursions: Vec<(&'t For, Frame)>,
    /// Id of the name `loop`.
    loop_name: Option<NameId>,
    output: Output,
    /// Line of the current statement, for errors.
    pub(super) line: usize,
}

/// Text that is being printed, counted in the budget.
struct Output {
    text: Mixed,
    budget: Rc<Budget>,
}

impl Output {
    fn push(&mut self, part: Part<'_>) -> Result<()> {
        for (run, is_content) in part.runs() {
            self.budget.make(run.len())?;
            let ranges = self.text.content.len();
            self.text.push_as(run, is_content);
            self.budget.make((self.text.content.len() - ranges) * size_of::<Range<usize>>())?;
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.text.text.len() + size_of_val(self.text.content.as_slice())
    }

    fn take(&mut self) -> Mixed {
        self.budget.free(self.size());
        std::mem::take(&mut self.text)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.budget.free(self.size());
    }
}

impl<'t> Interpreter<'t> {
    pub(super) fn new(template: &'t Template, maker: &Maker, now: SystemTime) -> Self {
        let names = Names {
            is_filter: |name| filters::named(name).is_some(),
            method: |value, name| methods::named(value, name).map(|method| method.name),
        };
        let undefined = || vec![None; template.names.len()];
        let loop_name = (0..).zip(&template.names).find(|(_, name)| &***name == "loop").map(|(id, _)| id);
        Interpreter {
            runtime: Runtime::new(template, maker, now, names),
            context: undefined(),
            top: undefined(),
            frames: Vec::new(),
            first_visible: 0,
            recursions: Vec::new(),
            loop_name,
            output: Output { text: Mixed::default(), budget: Rc::clone(&maker.0) },
            line: 1,
        }
    }

    /// Defines a variable of the template. A variable that the template never mentions is dropped.
    pub(super) fn define(&mut self, name: &str, value: Value) {
        if let Some(id) = self.runtime.template.names.iter().position(|known| **known == *name) {
            self.context[id] = Some(value);
        }
    }

    /// Runs the template and returns its output.
    pub(super) fn run(&mut self) -> Result<Mixed> {
        self.body(&self.runtime.template.body)?;
        Ok(self.output.take())
    }

    fn body(&mut self, body: &'t Body) -> Result<Flow> {
        self.runtime.budget().enter()?;
        for statement in body {
            let flow = self.statement(statement)?;
            if flow != Flow::Next {
                self.runtime.budget().leave();
                return Ok(flow);
            }
        }
        self.runtime.budget().leave();
        Ok(Flow::Next)
    }

    /// Runs a body in a new scope.
    fn scoped_body(&mut self, body: &'t Body) -> Result<Flow> {
        self.push_frame();
        let flow = self.body(body)?;
        self.frames.pop();
        Ok(flow)
    }

    /// Returns the output of a body as a string. A `break` or `continue` in it has no effect outside.
    fn captured(&mut self, body: &'t Body) -> Result<Value> {
        let inner = Output { text: Mixed::default(), budget: Rc::clone(&self.runtime.maker.0) };
        let outer = std::mem::replace(&mut self.output, inner);
        self.scoped_body(body)?;
        let mut inner = std::mem::replace(&mut self.output, outer);
        let text = inner.take();
        self.runtime.maker.text(text)
    }

    fn statement(&mut self, statement: &'t Statement) -> Result<Flow> {
        self.runtime.budget().steps(1)?;
        self.line = statement.line;
        match &statement.kind {
            StatementKind::Text(text) => self.output.push(Part::own(text))?,
            StatementKind::Print(expr) => {
                let value = self.eval(expr)?;
                self.print(&value)?;
            }
            StatementKind::If(branches) => {
                for (condition, body) in branches {
                    let holds = match condition {
                        Some(condition) => self.eval(condition)?.is_true(),
                        None => true,
                    };
                    if holds {
                        return self.body(body);
                    }
                }
            }
            StatementKind::For(block) => {
                let value = self.eval(&block.items)?;
                let recursion = if block.recursive { Some(self.recursion(block)?) } else { None };
                self.for_loop(block, &value, 1, recursion)?;
            }
            StatementKind::Call(block) => {
                let value = self.call_block(block)?;
                self.print(&value)?;
            }
            StatementKind::Block { scoped, body } => {
                let first_visible = self.first_visible;
                if !scoped {
                    self.first_visible = self.frames.len();
                }
                self.scoped_body(body)?;
                self.first_visible = first_visible;
            }
            StatementKind::Set(target, expr) => {
                let value = self.eval(expr)?;
                self.assign(target, value)?;
            }
            StatementKind::SetBlock(target, filters, body) => {
                let text = self.captured(body)?;
                let value = self.apply(text, filters)?;
                self.assign(target, value)?;
            }
            StatementKind::FilterBlock(filters, body) => {
                let text = self.captured(body)?;
                let value = self.apply(text, filters)?;
                self.print(&value)?;
            }
            StatementKind::Macro(definition) => self.define_macro(definition)?,
            StatementKind::With(assignments, body) => {
                let values =
                    assignments.iter().map(|(_, expr)| self.eval(expr)).collect::<Result<Vec<_>>>()?;
                self.push_frame();
                for ((target, _), value) in assignments.iter().zip(values) {
                    self.assign(target, value)?;
                }
                let flow = self.body(body)?;
                self.frames.pop();
                return Ok(flow);
            }
            StatementKind::Plain(body) => return self.body(body),
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn apply(&mut self, mut value: Value, filters: &'t [Postfix]) -> Result<Value> {
        for filter in filters {
            value = self.postfix(&value, filter)?;
        }
        Ok(value)
    }

    fn print(&mut self, value: &Value) -> Result<()> {
        if let Value::Str(text) = value {
            return self.output.push(text.part());
        }
        let budget = Rc::clone(&self.runtime.maker.0);
        let mut writer = Writer::new(&budget);
        writer.str(value)?;
        self.output.push(Part::new(&writer.text.text, &writer.text.content))
    }

    /// Registers a recursive loop.
    fn recursion(&mut self, block: &'t For) -> Result<usize> {
        let captured = Frame::copy_of(&self.frames[self.first_visible..], &self.runtime.maker.0)?;
        self.runtime.maker.0.make(size_of::<(&For, Frame)>())?;
        self.recursions.push((block, captured));
        Ok(self.recursions.len() - 1)
    }

    /// Calls a recursive loop for nested items. Returns its output.
    pub(super) fn call_loop(&mut self, state: &Loop, arguments: Arguments<'t>) -> Result<Value> {
        let [items] = arguments.exactly("loop", ["iterable"])?;
        let Some((block, captured)) = state.recursion.and_then(|at| self.recursions.get(at)) else {
            return fail("the loop is called without `recursive`");
        };
        let (block, captured) =
            (*block, Frame::copy_of(std::slice::from_ref(captured), &self.runtime.maker.0)?);
        let (line, first_visible) = (self.line, self.first_visible);
        let depth = self.frames.len();
        self.first_visible = depth;
        self.frames.push(captured);
        let inner = Output { text: Mixed::default(), budget: Rc::clone(&self.runtime.maker.0) };
        let outer = std::mem::replace(&mut self.output, inner);
        self.runtime.budget().enter()?;
        self.for_loop(block, &items, state.depth + 1, state.recursion)?;
        self.runtime.budget().leave();
        let text = std::mem::replace(&mut self.output, outer).take();
        self.frames.truncate(depth);
        (self.line, self.first_visible) = (line, first_visible);
        self.runtime.maker.text(text)
    }

    fn for_loop(
        &mut self,
        block: &'t For,
        value: &Value,
        depth: usize,
        recursion: Option<usize>,
    ) -> Result<()> {
        let mut items = self.runtime.items(value)?;
        if let Some(filter) = &block.filter {
            let mut kept = Vec::new();
            for item in items.items() {
                self.push_frame();
                self.assign(&block.target, item.clone())?;
                if self.eval(filter)?.is_true() {
                    kept.push(item.clone());
                }
                self.frames.pop();
            }
            items = self.runtime.maker.rc_list(kept)?;
        }
        if items.items().is_empty() {
            self.scoped_body(&block.otherwise)?;
            return Ok(());
        }
        let (index, changed) = (Cell::new(0), Cell::new(None));
        let state = Rc::new(Loop { items: Rc::clone(&items), index, depth, recursion, changed });
        for (i, item) in items.items().iter().enumerate() {
            state.index.set(i);
            self.push_frame();
            if let Some(name) = self.loop_name {
                self.set(name, Value::Loop(Rc::clone(&state)))?;
            }
            self.assign(&block.target, item.clone())?;
            let flow = self.body(&block.body)?;
            self.frames.pop();
            if flow == Flow::Break {
                break;
            }
        }
        Ok(())
    }

    /// Calls a callee that gets a body as `caller`.
    fn call_block(&mut self, block: &'t CallBlock) -> Result<Value> {
        let callee = self.eval(&block.callee)?;
        let mut arguments = self.arguments(&block.arguments)?;
        let caller = self.macro_value(&block.caller)?;
        arguments.named.push(("caller".into(), caller));
        self.call(&callee, arguments)
    }

    fn define_macro(&mut self, definition: &'t Macro) -> Result<()> {
        let value = self.macro_value(definition)?;
        self.set(definition.name, value)
    }

    /// Creates a macro that captures the current variables.
    fn macro_value(&mut self, definition: &'t Macro) -> Result<Value> {
        let captured = Frame::copy_of(&self.frames[self.first_visible..], &self.runtime.maker.0)?;
        // Macros are freed only at the end of the rendering.
        self.runtime.maker.0.make(size_of::<MacroValue<'_>>())?;
        self.runtime.macros.push(MacroValue { definition, captured });
        Ok(Value::Macro(self.runtime.macros.len() - 1))
    }

    /// Calls a macro.
    pub(super) fn call_macro(&mut self, id: usize, arguments: Arguments<'t>) -> Result<Value> {
        let Some(MacroValue { definition, captured }) = self.runtime.macros.get(id) else {
            return Ok(Value::None);
        };
        let definition = *definition;
        let captured = Frame::copy_of(std::slice::from_ref(captured), &self.runtime.maker.0)?;
        let name = |id: NameId| &*self.runtime.template.names[id as usize];
        let Uses { caller, varargs, kwargs } = definition.uses;
        if arguments.positional.len() > definition.parameters.len() && varargs.is_none() {
            return fail(format!("too many arguments for macro {}", name(definition.name)));
        }
        let mut positional = arguments.positional.into_iter();
        let mut named = arguments.named;
        let mut values = Vec::new();
        for (parameter, _) in &definition.parameters {
            let given = named.iter().position(|(given, _)| *given == name(*parameter));
            values.push(match (positional.next(), given) {
                (Some(_), Some(_)) => {
                    return fail(format!(
                        "macro {} is given {} twice",
                        name(definition.name),
                        name(*parameter)
                    ));
                }
                (Some(value), None) => Some(value),
                (None, Some(at)) => Some(named.remove(at).1),
                (None, None) => None,
            });
        }
        let mut more = Vec::new();
        if let Some(id) =
            caller.filter(|id| !definition.parameters.iter().any(|(parameter, _)| parameter == id))
        {
            let given = named.iter().position(|(given, _)| given == "caller");
            let value = given.map(|at| named.remove(at).1);
            more.push((id, value.unwrap_or_else(|| Value::undefined("there is no caller; caller"))));
        }
        match kwargs {
            Some(id) => {
                let mut entries = Vec::new();
                for (key, value) in named {
                    let key = self.runtime.maker.own(&key)?;
                    self.runtime.maker.insert(&mut entries, key, value)?;
                }
                more.push((id, self.runtime.maker.dict(entries)?));
            }
            None => {
                if let Some((given, _)) = named.first() {
                    return fail(format!("macro {} has no parameter {given}", name(definition.name)));
                }
            }
        }
        if let Some(id) = varargs {
            more.push((id, self.runtime.maker.tuple(positional.collect())?));
        }

        let line = self.line;
        let first_visible = self.first_visible;
        self.first_visible = self.frames.len();
        self.frames.push(captured);
        self.push_frame();
        for ((parameter, default), value) in definition.parameters.iter().zip(values) {
            let value = match (value, default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default)?,
                (None, None) => Value::undefined(&self.runtime.template.names[*parameter as usize]),
            };
            self.set(*parameter, value)?;
        }
        for (id, value) in more {
            self.set(id, value)?;
        }
        let result = self.captured(&definition.body)?;
        self.frames.truncate(self.first_visible);
        self.first_visible = first_visible;
        self.line = line;
        Ok(result)
    }

    /// Returns the value of a variable.
    pub(super) fn variable(&self, id: NameId) -> Result<Value> {
        for frame in self.frames[self.first_visible..].iter().rev() {
            if let Some(value) = frame.get(id)? {
                return Ok(value.clone());
            }
        }
        let id = id as usize;
        if let Some(value) = self.top[id].as_ref().or(self.context[id].as_ref()) {
            return Ok(value.clone());
        }
        let name = &*self.runtime.template.names[id];
        Ok(functions::named(name)
            .map_or_else(|| Value::undefined(name), |function| Value::Function(function.name)))
    }

    fn set(&mut self, id: NameId, value: Value) -> Result<()> {
        match self.frames[self.first_visible..].last_mut() {
            Some(frame) => frame.set(id, value),
            None => {
                self.top[id as usize] = Some(value);
                Ok(())
            }
        }
    }

    fn push_frame(&mut self) {
        self.frames.push(Frame::new(&self.runtime.maker.0));
    }

    fn assign(&mut self, target: &'t Target, value: Value) -> Result<()> {
        match target {
            Target::Name(id) => self.set(*id, value),
            Target::Attribute(id, attribute) => match self.variable(*id)? {
                Value::Namespace(namespace) => self.runtime.set_attribute(namespace, attribute, value),
                other => fail(format!(
                    "only a namespace has attributes that can be set, not a {}",
                    other.type_name()
                )),
            },
            Target::Tuple(targets) => {
                let items = self.runtime.items(&value)?;
                if items.items().len() != targets.len() {
                    return fail(format!(
                        "want {} values to assign, found {}",
                        targets.len(),
                        items.items().len()
                    ));
                }
                for (target, item) in targets.iter().zip(items.items()) {
                    self.assign(target, item.clone())?;
                }
                Ok(())
            }
        }
    }

    /// Evaluates an expression one nesting level deeper.
    pub(super) fn eval(&mut self, expr: &'t Expr) -> Result<Value> {
        self.runtime.budget().enter()?;
        let value = self.expression(expr)?;
        self.runtime.budget().leave();
        Ok(value)
    }
}
