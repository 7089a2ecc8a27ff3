//! Parser of GBNF.

use std::collections::HashMap;

use crate::error::{Error, ErrorKind};

/// Maximum nesting depth of parentheses.
const MAX_DEPTH: usize = 64;
/// Maximum number of rules.
const MAX_RULES: usize = 2_000;
/// Maximum count of a repetition.
const MAX_REPEATS: u32 = 10_000;

/// Rules by number; the first is the root.
pub(super) struct Rules {
    pub(super) bodies: Vec<Node>,
}

/// Body of a rule, or part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Literal(String),
    /// One of the characters in these ranges, or one outside of them.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// Any character.
    Any,
    /// Reference to the rule of this number.
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        node: Box<Node>,
        least: u32,
        most: Option<u32>,
    },
}

/// Parses a grammar.
pub(super) fn parse(source: &str) -> Result<Rules, Error> {
    let mut parser =
        Parser { rest: source, source, names: HashMap::new(), bodies: Vec::new(), used_at: Vec::new() };
    let root = parser.rule_number("root")?;
    debug_assert_eq!(root, 0, "the root is the first rule");
    parser.blanks(true);
    while !parser.rest.is_empty() {
        parser.rule()?;
        parser.blanks(true);
    }
    let Parser { names, bodies, used_at, .. } = parser;
    let missing = bodies.iter().position(Option::is_none);
    if let Some(missing) = missing {
        let name = names.iter().find(|(_, number)| **number == missing).map_or("", |(name, _)| name);
        return Err(wrong(used_at[missing], &format!("there is no rule `{name}`")));
    }
    Ok(Rules { bodies: bodies.into_iter().flatten().collect() })
}

fn wrong(line: usize, what: &str) -> Error {
    ErrorKind::Grammar(format!("line {line}: {what}")).into()
}

struct Parser<'a> {
    rest: &'a str,
    source: &'a str,
    names: HashMap<&'a str, usize>,
    bodies: Vec<Option<Node>>,
    /// Line of the first reference to each rule.
    used_at: Vec<usize>,
}

impl<'a> Parser<'a> {
    fn line(&self) -> usize {
        1 + self.source[..self.source.len() - self.rest.len()].matches('\n').count()
    }

    fn wrong<T>(&self, what: &str) -> Result<T, Error> {
        Err(wrong(self.line(), what))
    }

    /// Skips spaces and comments, and line breaks if `lines` is true.
    fn blanks(&mut self, lines: bool) {
        loop {
            let text = self
                .rest
                .trim_start_matches(|c| matches!(c, ' ' | '\t') || lines && matches!(c, '\r' | '\n'));
            let text = match text.strip_prefix('#') {
                Some(comment) => &comment[comment.find(['\r', '\n']).unwrap_or(comment.len())..],
                None => text,
            };
            if text.len() == self.rest.len() {
                return;
            }
            self.rest = text;
        }
    }

    fn name(&mut self) -> Result<&'a str, Error> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        let (name, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if name.is_empty() {
            return self.wrong("expected the name of a rule");
        }
        self.rest = rest;
        Ok(name)
    }

    fn rule_number(&mut self, name: &'a str) -> Result<usize, Error> {
        if let Some(number) = self.names.get(name) {
            return Ok(*number);
        }
        let number = self.bodies.len();
        if number >= MAX_RULES {
            return Err(ErrorKind::TooComplex(format!("more than {MAX_RULES} rules")).into());
        }
        self.names.insert(name, number);
        self.bodies.push(None);
        self.used_at.push(self.line());
        Ok(number)
    }

    fn rule(&mut self) -> Result<(), Error> {
        let name = self.name()?;
        let number = self.rule_number(name)?;
        self.blanks(false);
        match self.rest.strip_prefix("::=") {
            Some(rest) => self.rest = rest,
            None => return self.wrong("expected `::=`"),
        }
        self.blanks(true);
        let body = self.choice(0)?;
        if self.bodies[number].replace(body).is_some() {
            return self.wrong(&format!("the rule `{name}` is defined twice"));
        }
        self.blanks(false);
        if self.rest.is_empty() || self.rest.starts_with(['\r', '\n']) {
            return Ok(());
        }
        self.wrong("expected the end of the line")
    }

    fn choice(&mut self, depth: usize) -> Result<Node, Error> {
        if depth > MAX_DEPTH {
            return Err(ErrorKind::TooComplex(format!("parentheses nested deeper than {MAX_DEPTH}")).into());
        }
        let mut options = vec![self.sequence(depth)?];
        loop {
            self.blanks(depth > 0);
            let Some(rest) = self.rest.strip_prefix('|') else { break };
            self.rest = rest;
            self.blanks(true);
            options.push(self.sequence(depth)?);
        }
        Ok(if options.len() == 1 { options.remove(0) } else { Node::Choice(options) })
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, Error> {
        let mut nodes = Vec::new();
        loop {
            self.blanks(depth > 0);
            let Some(c) = self.rest.chars().next() else { break };
            let node = match c {
                '"' => self.literal()?,
                '[' => self.class()?,
                '.' => {
                    self.rest = &self.rest[1..];
                    Node::Any
                }
                '(' => {
                    self.rest = &self.rest[1..];
                    let node = self.choice(depth + 1)?;
                    self.blanks(true);
                    match self.rest.strip_prefix(')') {
                        Some(rest) => self.rest = rest,
                        None => return self.wrong("expected `)`"),
                    }
                    node
                }
                '<' | '!' => return self.wrong("tokens in a grammar are not supported"),
                c if c.is_ascii_alphanumeric() || c == '_' => {
                    let name = self.name()?;
                    Node::Rule(self.rule_number(name)?)
                }
                '*' | '+' | '?' | '{' => return self.wrong("there is nothing to repeat"),
                _ => break,
            };
            nodes.push(self.repeated(node)?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Sequence(nodes) })
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node, Error> {
        for n in 0.. {
            let (least, most, length) = match self.rest.bytes().next() {
                Some(b'*') => (0, None, 1),
                Some(b'+') => (1, None, 1),
                Some(b'?') => (0, Some(1), 1),
                Some(b'{') => self.counts()?,
                _ => break,
            };
            if n > 2 {
                return Err(ErrorKind::TooComplex("repetitions of repetitions".into()).into());
            }
            self.rest = &self.rest[length..];
            node = Node::Repeat { node: Box::new(node), least, most };
        }
        Ok(node)
    }

    /// Parses `{m}`, `{m,}`, `{,n}` or `{m,n}`. Returns the counts and the length in bytes.
    fn counts(&self) -> Result<(u32, Option<u32>, usize), Error> {
        let Some(end) = self.rest.find('}') else { return self.wrong("expected `}`") };
        let inner = &self.rest[1..end];
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(n) if n <= MAX_REPEATS => Ok(n),
            Ok(_) => Err(ErrorKind::TooComplex(format!("more than {MAX_REPEATS} repetitions")).into()),
            Err(_) => self.wrong("expected a number of repetitions"),
        };
        let (least, most) = match inner.split_once(',') {
            None => (number(inner)?, Some(number(inner)?)),
            Some((least, most)) => (
                if least.trim().is_empty() { 0 } else { number(least)? },
                if most.trim().is_empty() { None } else { Some(number(most)?) },
            ),
        };
        if most.is_some_and(|most| most < least) {
            return self.wrong("the maximum of a repetition is less than its minimum");
        }
        Ok((least, most, end + 1))
    }

    fn literal(&mut self) -> Result<Node, Error> {
        self.rest = &self.rest[1..];
        let mut text = String::new();
        loop {
            match self.rest.chars().next() {
                None | Some('\n') => return self.wrong("expected `\"`"),
                Some('"') => break,
                Some(_) => text.push(self.character()?),
            }
        }
        self.rest = &self.rest[1..];
        Ok(Node::Literal(text))
    }

    fn class(&mut self) -> Result<Node, Error> {
        self.rest = &self.rest[1..];
        let negated = self.rest.starts_with('^');
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let mut ranges = Vec::new();
        loop {
            match self.rest.chars().next() {
                None | Some('\n') => return self.wrong("expected `]`"),
                Some(']') => break,
                Some(_) => {}
            }
            let first = self.character()?;
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let last = if is_range {
                self.rest = &self.rest[1..];
                self.character()?
            } else {
                first
            };
            if last < first {
                return self.wrong("the end of a character range is less than its start");
            }
            ranges.push((first, last));
        }
        self.rest = &self.rest[1..];
        if ranges.is_empty() && !negated {
            return self.wrong("a character class without characters");
        }
        Ok(if ranges.is_empty() { Node::Any } else { Node::Class { negated, ranges } })
    }

    /// Parses one character, possibly escaped.
    fn character(&mut self) -> Result<char, Error> {
        let mut chars = self.rest.chars();
        let (Some(c), escaped) = (chars.next(), chars.next()) else {
            return self.wrong("expected a character");
        };
        if c != '\\' {
            self.rest = &self.rest[c.len_utf8()..];
            return Ok(c);
        }
        let digits = match escaped {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => 0,
        };
        if digits > 0 {
            let code = self.rest.get(2..2 + digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
            let Some(c) = code.and_then(char::from_u32) else {
                return self.wrong("an escape that is not a character");
            };
            self.rest = &self.rest[2 + digits..];
            return Ok(c);
        }
        let c = match escaped {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some(c @ ('\\' | '"' | '[' | ']' | '-' | '^' | '/')) => c,
            _ => return self.wrong("an unknown escape"),
        };
        self.rest = &self.rest[2..];
        Ok(c)
    }
}
