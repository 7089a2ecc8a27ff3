//! Parser of expressions by precedence.

use super::ast::{Arguments, Arithmetic, Comparison, Expr, Postfix};
use super::filters;
use super::lexer::Token;
use super::parser::{Parsed, Parser};
use super::predicates;

impl Parser<'_> {
    /// Parses an expression, or several with commas between them, which form a tuple. A name in `ends` ends it.
    pub(super) fn tuple(&mut self, with_condition: bool, ends: &[&str]) -> Parsed<Expr> {
        let mut items = Vec::new();
        let mut is_tuple = false;
        loop {
            let at_end = match self.peek() {
                Token::Close(_) | Token::Op(")") => true,
                Token::Name(name) => ends.contains(name),
                _ => false,
            };
            if at_end && is_tuple {
                break;
            }
            items.push(if with_condition { self.expression()? } else { self.or()? });
            if !self.skip_op(",") {
                break;
            }
            is_tuple = true;
        }
        match items.pop() {
            Some(item) if !is_tuple => Ok(item),
            last => Ok(Expr::Tuple(items.into_iter().chain(last).collect())),
        }
    }

    /// Parses an expression of the lowest precedence: `a if b else c`.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        let mut value = self.or()?;
        let mut branches = Vec::new();
        while self.skip_name("if") {
            let condition = self.or()?;
            let otherwise = self.skip_name("else");
            branches.push((condition, value));
            if !otherwise {
                return Ok(Expr::Conditional(branches, None));
            }
            value = self.or()?;
        }
        Ok(if branches.is_empty() { value } else { Expr::Conditional(branches, Some(Box::new(value))) })
    }

    fn or(&mut self) -> Parsed<Expr> {
        let first = self.and()?;
        let mut items = vec![first];
        while self.skip_name("or") {
            items.push(self.and()?);
        }
        Ok(one_or(items, Expr::Or))
    }

    fn and(&mut self) -> Parsed<Expr> {
        let first = self.not()?;
        let mut items = vec![first];
        while self.skip_name("and") {
            items.push(self.not()?);
        }
        Ok(one_or(items, Expr::And))
    }

    fn not(&mut self) -> Parsed<Expr> {
        if self.skip_name("not") {
            let inner = self.nested(Self::not)?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        self.compare()
    }

    fn compare(&mut self) -> Parsed<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Op("==") => Comparison::Equal,
                Token::Op("!=") => Comparison::NotEqual,
                Token::Op("<") => Comparison::Less,
                Token::Op("<=") => Comparison::LessOrEqual,
                Token::Op(">") => Comparison::Greater,
                Token::Op(">=") => Comparison::GreaterOrEqual,
                Token::Name("in") => Comparison::In,
                Token::Name("not") if *self.peek_second() == Token::Name("in") => {
                    self.next();
                    Comparison::NotIn
                }
                _ => break,
            };
            self.next();
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.arithmetic(&[("+", Arithmetic::Add), ("-", Arithmetic::Subtract)], Self::concat)
    }

    fn concat(&mut self) -> Parsed<Expr> {
        let first = self.product()?;
        let mut items = vec![first];
        while self.skip_op("~") {
            items.push(self.product()?);
        }
        Ok(one_or(items, Expr::Concat))
    }

    fn product(&mut self) -> Parsed<Expr> {
        let ops = [
            ("*", Arithmetic::Multiply),
            ("/", Arithmetic::Divide),
            ("//", Arithmetic::FloorDivide),
            ("%", Arithmetic::Remainder),
        ];
        self.arithmetic(&ops, Self::power)
    }

    fn power(&mut self) -> Parsed<Expr> {
        self.arithmetic(&[("**", Arithmetic::Power)], |parser| parser.unary(true))
    }

    fn arithmetic(
        &mut self,
        ops: &[(&str, Arithmetic)],
        operand: impl Fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Token::Op(op) = self.peek()
            && let Some((_, arithmetic)) = ops.iter().find(|(found, _)| found == op)
        {
            self.next();
            rest.push((*arithmetic, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Arithmetic(Box::new(first), rest) })
    }

    fn unary(&mut self, with_filters: bool) -> Parsed<Expr> {
        let operand = if self.skip_op("-") {
            Expr::Negative(Box::new(self.nested(|parser| parser.unary(false))?))
        } else if self.skip_op("+") {
            Expr::Positive(Box::new(self.nested(|parser| parser.unary(false))?))
        } else {
            self.primary()?
        };
        self.postfixes(operand, with_filters)
    }

    /// Parses the operations after an operand: lookups and calls, then filters and tests.
    fn postfixes(&mut self, operand: Expr, with_filters: bool) -> Parsed<Expr> {
        let mut postfixes = Vec::new();
        let mut in_filters = false;
        loop {
            let postfix = match self.peek() {
                Token::Op(".") if !in_filters => {
                    self.next();
                    match self.next() {
                        Token::Name(name) => Postfix::Attribute(name.into()),
                        Token::Int(index) => Postfix::Item(Expr::Int(index)),
                        _ => return self.error("want a name or number after `.`"),
                    }
                }
                Token::Op("[") if !in_filters => {
                    self.next();
                    let item = self.nested(Self::item)?;
                    self.expect_op("]")?;
                    item
                }
                Token::Op("(") => Postfix::Call(self.arguments()?),
                Token::Op("|") if with_filters => {
                    self.next();
                    in_filters = true;
                    self.filter()?
                }
                Token::Name("is") if with_filters => {
                    self.next();
                    in_filters = true;
                    self.test()?
                }
                _ => break,
            };
            postfixes.push(postfix);
        }
        Ok(if postfixes.is_empty() { operand } else { Expr::Postfix(Box::new(operand), postfixes) })
    }

    /// Parses the content of square brackets after an operand: an index or a slice.
    fn item(&mut self) -> Parsed<Postfix> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.skip_op(":") {
                colons += 1;
                if colons > 2 {
                    return self.error("a slice has at most three parts");
                }
            } else if matches!(self.peek(), Token::Op("]")) {
                break;
            } else if parts[colons].is_none() {
                parts[colons] = Some(if colons == 0 { self.tuple(true, &[])? } else { self.expression()? });
            } else {
                return self.unexpected("`]`");
            }
        }
        match parts {
            [Some(index), _, _] if colons == 0 => Ok(Postfix::Item(index)),
            [None, _, _] if colons == 0 => self.unexpected("an expression"),
            parts => Ok(Postfix::Slice(Box::new(parts))),
        }
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        self.nested(|parser| {
            parser.expect_op("(")?;
            let mut arguments = Arguments::default();
            let mut first = true;
            while !parser.skip_op(")") {
                if !first {
                    parser.expect_op(",")?;
                    if parser.skip_op(")") {
                        break;
                    }
                }
                first = false;
                if parser.skip_op("*") {
                    if arguments.items.is_some() || arguments.entries.is_some() {
                        return parser.error("a call takes one `*`, before `**`");
                    }
                    arguments.items = Some(Box::new(parser.expression()?));
                } else if parser.skip_op("**") {
                    if arguments.entries.is_some() {
                        return parser.error("a call takes one `**`");
                    }
                    arguments.entries = Some(Box::new(parser.expression()?));
                } else if let (&Token::Name(name), Token::Op("=")) = (parser.peek(), parser.peek_second()) {
                    parser.next();
                    parser.next();
                    if arguments.entries.is_some() {
                        return parser.error("an argument follows `**`");
                    }
                    arguments.named.push((name.into(), parser.expression()?));
                } else if !arguments.named.is_empty()
                    || arguments.items.is_some()
                    || arguments.entries.is_some()
                {
                    return parser.error("a positional argument follows a named one");
                } else {
                    arguments.positional.push(parser.expression()?);
                }
            }
            Ok(arguments)
        })
    }

    /// Parses a filter after its `|`.
    pub(super) fn filter(&mut self) -> Parsed<Postfix> {
        let line = self.line();
        let name = self.dotted_name()?;
        let filter = filters::index(&name);
        if filter.is_none() {
            self.unknown_name(&name, line, filters::unknown(&name))?;
        }
        let arguments =
            if matches!(self.peek(), Token::Op("(")) { self.arguments()? } else { Arguments::default() };
        // These filters take the name of another one, which must exist too.
        let named = match (name.as_str(), arguments.positional.as_slice()) {
            ("map", [Expr::Str(inner), ..]) if filters::named(inner).is_none() => {
                Some((inner, filters::unknown(inner)))
            }
            ("select" | "reject", [Expr::Str(inner), ..])
            | ("selectattr" | "rejectattr", [_, Expr::Str(inner), ..])
                if predicates::named(inner).is_none() =>
            {
                Some((inner, predicates::unknown(inner)))
            }
            _ => None,
        };
        if let Some((inner, message)) = named {
            self.unknown_name(inner, line, message)?;
        }
        Ok(Postfix::Filter(name.as_str().into(), filter, arguments))
    }

    /// Parses a test after its `is`.
    fn test(&mut self) -> Parsed<Postfix> {
        let negated = self.skip_name("not");
        let line = self.line();
        let name = self.dotted_name()?;
        if predicates::named(&name).is_none() {
            self.unknown_name(&name, line, predicates::unknown(&name))?;
        }
        let arguments = match self.peek() {
            Token::Op("(") => self.arguments()?,
            Token::Name("is") => return self.error("tests cannot be chained"),
            Token::Name("else" | "or" | "and") => Arguments::default(),
            Token::Name(_) | Token::Str(_) | Token::Int(_) | Token::Float(_) | Token::Op("[" | "{") => {
                let operand = self.primary()?;
                let argument = self.lookups(operand)?;
                Arguments { positional: vec![argument], ..Arguments::default() }
            }
            _ => Arguments::default(),
        };
        Ok(Postfix::Test { test: predicates::index(&name), name: name.as_str().into(), arguments, negated })
    }

    /// Parses lookups and calls after the argument of a test.
    fn lookups(&mut self, operand: Expr) -> Parsed<Expr> {
        self.postfixes(operand, false)
    }

    fn dotted_name(&mut self) -> Parsed<String> {
        let mut name = self.expect_name()?.to_string();
        while self.skip_op(".") {
            name.push('.');
            name += self.expect_name()?;
        }
        Ok(name)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let expr = match self.peek() {
            Token::Name("true" | "True") => Expr::Bool(true),
            Token::Name("false" | "False") => Expr::Bool(false),
            Token::Name("none" | "None") => Expr::None,
            &Token::Name(name) => {
                let id = self.name_id(name);
                self.mentions(name, id);
                Expr::Name(id)
            }
            Token::Int(number) => Expr::Int(*number),
            Token::Float(number) => Expr::Float(*number),
            Token::Str(_) => {
                let mut text = String::new();
                while let Token::Str(part) = self.peek() {
                    text += part;
                    self.next();
                }
                return Ok(Expr::Str(text.into()));
            }
            Token::Op("(") => {
                self.next();
                if self.skip_op(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let inner = self.nested(|parser| parser.tuple(true, &[]))?;
                self.expect_op(")")?;
                return Ok(inner);
            }
            Token::Op("[") => {
                self.next();
                return self.nested(Self::list);
            }
            Token::Op("{") => {
                self.next();
                return self.nested(Self::dict);
            }
            _ => return self.unexpected("an expression"),
        };
        self.next();
        Ok(expr)
    }

    fn list(&mut self) -> Parsed<Expr> {
        let mut items = Vec::new();
        while !self.skip_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.skip_op("]") {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        Ok(Expr::List(items))
    }

    fn dict(&mut self) -> Parsed<Expr> {
        let mut entries = Vec::new();
        while !self.skip_op("}") {
            if !entries.is_empty() {
                self.expect_op(",")?;
                if self.skip_op("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_op(":")?;
            entries.push((key, self.expression()?));
        }
        Ok(Expr::Dict(entries))
    }
}

/// Returns the only item of a chain, or the chain.
fn one_or(mut items: Vec<Expr>, chain: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    match items.pop() {
        Some(item) if items.is_empty() => item,
        last => chain(items.into_iter().chain(last).collect()),
    }
}
