//! Parser of statements: from tokens to the syntax tree.

use std::collections::HashMap;

use super::ast::{
    Body, CallBlock, Expr, For, Macro, NameId, Postfix, Statement, StatementKind, SyntaxError, Target,
    Template, Uses,
};
use super::lexer::{Located, Tag, Token, tokens};
use super::name_uses::NameUses;

/// Maximum nesting of brackets, signs and blocks; real templates have about a dozen levels.
const MAX_NESTING: u32 = 100;

pub(super) type Parsed<T> = Result<T, SyntaxError>;

pub(super) struct Parser<'s> {
    tokens: Vec<Located<'s>>,
    at: usize,
    nesting: u32,
    names: Vec<Box<str>>,
    ids: HashMap<&'s str, NameId>,
    /// Number of loops around the current statement; `break` requires one.
    loops: u32,
    /// Implicit variables that the current macro mentions.
    uses: Uses,
    /// Names of blocks, which must be unique.
    blocks: Vec<&'s str>,
    /// Uses of names, to detect unknown filters, tests and functions.
    name_uses: NameUses<'s>,
}

/// Parses a source with line breaks of any kind.
pub(super) fn parse(source: &str) -> Parsed<Template> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    // One line break at the very end is not part of the template.
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let read = tokens(source)?;
    let mut parser = Parser {
        name_uses: NameUses::of(&read),
        tokens: read,
        at: 0,
        nesting: 0,
        names: Vec::new(),
        ids: HashMap::new(),
        loops: 0,
        uses: Uses::default(),
        blocks: Vec::new(),
    };
    let body = parser.body(&[])?;
    parser.name_uses.check()?;
    Ok(Template { body, names: parser.names })
}

impl<'s> Parser<'s> {
    pub(super) fn peek(&self) -> &Token<'s> {
        self.tokens.get(self.at).map_or(&Token::End, |located| &located.token)
    }

    pub(super) fn peek_second(&self) -> &Token<'s> {
        self.tokens.get(self.at + 1).map_or(&Token::End, |located| &located.token)
    }

    pub(super) fn next(&mut self) -> Token<'s> {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    pub(super) fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |located| located.line)
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(SyntaxError { line: self.line(), message: message.into() })
    }

    pub(super) fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.peek() {
            Token::Data(_) | Token::Open(_) => "text".into(),
            Token::Close(Tag::Print) => "`}}`".into(),
            Token::Close(Tag::Block) => "`%}`".into(),
            Token::Name(name) => format!("`{name}`"),
            Token::Str(_) => "a string".into(),
            Token::Int(number) => format!("`{number}`"),
            Token::Float(number) => format!("`{number}`"),
            Token::Op(op) => format!("`{op}`"),
            Token::End => "the end".into(),
        };
        self.error(format!("want {wanted}, found {found}"))
    }

    pub(super) fn skip_op(&mut self, op: &str) -> bool {
        let found = matches!(self.peek(), Token::Op(found) if *found == op);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_op(&mut self, op: &str) -> Parsed<()> {
        if self.skip_op(op) { Ok(()) } else { self.unexpected(&format!("`{op}`")) }
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if *found == name)
    }

    pub(super) fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_name(&mut self) -> Parsed<&'s str> {
        match self.peek() {
            Token::Name(name) => {
                let name = *name;
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected("a name"),
        }
    }

    /// Records that a filter or test does not exist.
    ///
    /// # Errors
    /// The source does not test for it.
    pub(super) fn unknown_name(&mut self, name: &str, line: usize, message: String) -> Parsed<()> {
        if self.name_uses.asked.iter().any(|asked| **asked == *name) {
            return Ok(());
        }
        Err(SyntaxError { line, message })
    }

    /// Records that an expression mentions a variable, and whether it calls it.
    pub(super) fn mentions(&mut self, name: &'s str, id: NameId) {
        match name {
            "caller" => self.uses.caller = Some(id),
            "varargs" => self.uses.varargs = Some(id),
            "kwargs" => self.uses.kwargs = Some(id),
            _ => {}
        }
        let called = *self.peek_second() == Token::Op("(");
        let line = self.line();
        self.name_uses.mentions.entry(name).or_insert((line, true)).1 &= called;
    }

    fn close(&mut self, tag: Tag) -> Parsed<()> {
        if *self.peek() == Token::Close(tag) {
            self.at += 1;
            return Ok(());
        }
        self.unexpected(if tag == Tag::Block { "`%}`" } else { "`}}`" })
    }

    pub(super) fn name_id(&mut self, name: &'s str) -> NameId {
        *self.ids.entry(name).or_insert_with(|| {
            self.names.push(name.into());
            self.names.len() as NameId - 1
        })
    }

    /// Parses a part inside brackets or a block.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            return self.error(format!("more than {MAX_NESTING} nested brackets or blocks"));
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    /// Parses statements up to a block that begins with one of the names in `ends`, which is the next token
    /// afterwards; up to the end of the source if `ends` is empty.
    fn body(&mut self, ends: &[&str]) -> Parsed<Body> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let kind = match self.next() {
                Token::Data(text) => StatementKind::Text(text.into()),
                Token::Open(Tag::Print) => {
                    let expr = self.tuple(true, &[])?;
                    self.close(Tag::Print)?;
                    StatementKind::Print(expr)
                }
                Token::Open(Tag::Block) => {
                    if let Token::Name(name) = self.peek()
                        && ends.contains(name)
                    {
                        return Ok(body);
                    }
                    self.nested(Self::statement)?
                }
                _ if ends.is_empty() => return Ok(body),
                _ => {
                    self.at -= 1;
                    return self.unexpected(&format!("`{{% {} %}}`", ends[ends.len() - 1]));
                }
            };
            body.push(Statement { line, kind });
        }
    }

    /// Parses a body and the block that ends it, which is the only possible one.
    fn body_to(&mut self, end: &str) -> Parsed<Body> {
        self.close(Tag::Block)?;
        let body = self.body(&[end])?;
        self.at += 1;
        self.close(Tag::Block)?;
        Ok(body)
    }

    /// Parses a block after its `{%`.
    fn statement(&mut self) -> Parsed<StatementKind> {
        let name = self.expect_name()?;
        let kind = match name {
            "if" => return self.if_block(),
            "for" => return self.for_block(),
            "set" => return self.set(),
            "macro" => return self.macro_block(),
            "filter" => {
                let filters = self.filters(true)?;
                return Ok(StatementKind::FilterBlock(filters, self.body_to("endfilter")?));
            }
            "with" => return self.with_block(),
            "call" => return self.call_block(),
            "block" => return self.named_block(),
            "autoescape" => return self.autoescape(),
            "extends" | "include" | "import" | "from" => {
                return self.error(format!("`{name}` needs another template, which a model does not have"));
            }
            // Marks the text of an assistant, for training; it prints nothing.
            "generation" => return Ok(StatementKind::Plain(self.body_to("endgeneration")?)),
            "break" | "continue" if self.loops == 0 => {
                return self.error(format!("`{name}` outside of a loop"));
            }
            "break" => StatementKind::Break,
            "continue" => StatementKind::Continue,
            _ => {
                self.at -= 1;
                return self.unexpected("a block that chat templates may have");
            }
        };
        self.close(Tag::Block)?;
        Ok(kind)
    }

    fn if_block(&mut self) -> Parsed<StatementKind> {
        let mut branches = Vec::new();
        let mut condition = Some(self.tuple(false, &[])?);
        loop {
            self.close(Tag::Block)?;
            let ends: &[&str] = if condition.is_some() { &["elif", "else", "endif"] } else { &["endif"] };
            let body = self.body(ends)?;
            branches.push((condition, body));
            condition = match self.expect_name()? {
                "elif" => Some(self.tuple(false, &[])?),
                "else" => None,
                _ => break,
            };
        }
        self.close(Tag::Block)?;
        Ok(StatementKind::If(branches))
    }

    fn for_block(&mut self) -> Parsed<StatementKind> {
        let target = self.target(false)?;
        if !self.skip_name("in") {
            return self.unexpected("`in`");
        }
        let items = self.tuple(false, &["if", "recursive"])?;
        let filter = if self.skip_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.skip_name("recursive");
        self.close(Tag::Block)?;
        self.loops += 1;
        let body = self.body(&["else", "endfor"]);
        self.loops -= 1;
        let body = body?;
        let otherwise = if self.expect_name()? == "else" {
            self.body_to("endfor")?
        } else {
            self.close(Tag::Block)?;
            Vec::new()
        };
        Ok(StatementKind::For(Box::new(For { target, items, filter, body, otherwise, recursive })))
    }

    fn set(&mut self) -> Parsed<StatementKind> {
        let target = self.target(true)?;
        if self.skip_op("=") {
            let expr = self.tuple(true, &[])?;
            self.close(Tag::Block)?;
            return Ok(StatementKind::Set(target, expr));
        }
        let filters = self.filters(false)?;
        Ok(StatementKind::SetBlock(target, filters, self.body_to("endset")?))
    }

    fn macro_block(&mut self) -> Parsed<StatementKind> {
        let name = self.expect_name()?;
        self.name_uses.assigned.insert(name);
        let name = self.name_id(name);
        self.expect_op("(")?;
        let mut parameters = Vec::new();
        self.parameters(&mut parameters)?;
        let (body, uses) = self.macro_body("endmacro")?;
        Ok(StatementKind::Macro(Macro { name, parameters, body, uses }))
    }

    /// Parses the parameters of a macro after their `(`.
    fn parameters(&mut self, parameters: &mut Vec<(NameId, Option<Expr>)>) -> Parsed<()> {
        while !self.skip_op(")") {
            if !parameters.is_empty() {
                self.expect_op(",")?;
            }
            let parameter = self.expect_name()?;
            self.name_uses.assigned.insert(parameter);
            let parameter = self.name_id(parameter);
            let default = if self.skip_op("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.iter().any(|(_, default)| default.is_some()) {
                return self.error("a parameter without a default follows one with a default");
            }
            parameters.push((parameter, default));
        }
        Ok(())
    }

    /// Parses the body of a macro. Returns it with the implicit variables that it mentions.
    fn macro_body(&mut self, end: &str) -> Parsed<(Body, Uses)> {
        // A `break` in a macro does not leave the loop around the macro.
        let loops = std::mem::take(&mut self.loops);
        let around = std::mem::take(&mut self.uses);
        let body = self.body_to(end);
        let uses = self.uses;
        // An enclosing macro mentions these variables too.
        self.uses = Uses {
            caller: around.caller.or(uses.caller),
            varargs: around.varargs.or(uses.varargs),
            kwargs: around.kwargs.or(uses.kwargs),
        };
        self.loops = loops;
        Ok((body?, uses))
    }

    /// Parses a call with a body, which the callee gets as `caller`.
    fn call_block(&mut self) -> Parsed<StatementKind> {
        self.name_uses.assigned.insert("caller");
        let name = self.name_id("caller");
        let mut parameters = Vec::new();
        if self.skip_op("(") {
            self.parameters(&mut parameters)?;
        }
        let Expr::Postfix(callee, mut postfixes) = self.expression()? else {
            return self.error("`call` needs a call");
        };
        let Some(Postfix::Call(arguments)) = postfixes.pop() else {
            return self.error("`call` needs a call");
        };
        let callee = if postfixes.is_empty() { *callee } else { Expr::Postfix(callee, postfixes) };
        let (body, uses) = self.macro_body("endcall")?;
        let caller = Macro { name, parameters, body, uses };
        Ok(StatementKind::Call(Box::new(CallBlock { callee, arguments, caller })))
    }

    /// Parses a block that a derived template could replace; there are no derived templates.
    fn named_block(&mut self) -> Parsed<StatementKind> {
        let name = self.expect_name()?;
        if self.blocks.contains(&name) {
            return self.error(format!("the block `{name}` is defined twice"));
        }
        self.blocks.push(name);
        let scoped = self.skip_name("scoped");
        if self.is_name("required") {
            return self.error("`required` needs another template, which a model does not have");
        }
        self.close(Tag::Block)?;
        let loops = std::mem::take(&mut self.loops);
        let body = self.body(&["endblock"]);
        self.loops = loops;
        let body = body?;
        self.at += 1;
        self.skip_name(name);
        self.close(Tag::Block)?;
        Ok(StatementKind::Block { scoped, body })
    }

    /// Parses a switch of HTML escaping, which is always off.
    fn autoescape(&mut self) -> Parsed<StatementKind> {
        match self.expression()? {
            Expr::Bool(false) => {
                let body = self.body_to("endautoescape")?;
                Ok(StatementKind::With(Vec::new(), body))
            }
            _ => self.error("`autoescape` can only be false"),
        }
    }

    fn with_block(&mut self) -> Parsed<StatementKind> {
        let mut assignments = Vec::new();
        while *self.peek() != Token::Close(Tag::Block) {
            if !assignments.is_empty() {
                self.expect_op(",")?;
            }
            let target = self.target(false)?;
            self.expect_op("=")?;
            assignments.push((target, self.expression()?));
        }
        Ok(StatementKind::With(assignments, self.body_to("endwith")?))
    }

    /// Parses the target of an assignment: names, in parentheses or not, or an attribute of a namespace.
    fn target(&mut self, may_be_attribute: bool) -> Parsed<Target> {
        let mut targets = Vec::new();
        let mut is_tuple = false;
        loop {
            targets.push(if self.skip_op("(") {
                let target = self.nested(|parser| parser.target(may_be_attribute))?;
                self.expect_op(")")?;
                target
            } else {
                let name = self.expect_name()?;
                if matches!(name, "true" | "false" | "none" | "True" | "False" | "None") {
                    return self.error(format!("cannot assign to `{name}`"));
                }
                self.name_uses.assigned.insert(name);
                let name = self.name_id(name);
                if may_be_attribute && self.skip_op(".") {
                    Target::Attribute(name, self.expect_name()?.into())
                } else {
                    Target::Name(name)
                }
            });
            if !self.skip_op(",") {
                break;
            }
            is_tuple = true;
            if !matches!(self.peek(), Token::Name(name) if *name != "in")
                && !matches!(self.peek(), Token::Op("("))
            {
                break;
            }
        }
        match targets.pop() {
            Some(target) if !is_tuple => Ok(target),
            last => Ok(Target::Tuple(targets.into_iter().chain(last).collect())),
        }
    }

    /// Parses the filters of a block: after `{% filter ` the first one has no `|`.
    fn filters(&mut self, without_bar: bool) -> Parsed<Vec<Postfix>> {
        let mut filters = Vec::new();
        if without_bar {
            filters.push(self.filter()?);
        }
        while self.skip_op("|") {
            filters.push(self.filter()?);
        }
        Ok(filters)
    }
}
