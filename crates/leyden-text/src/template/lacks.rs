//! Filters, tests and functions that a source needs and that are not there: known when it is parsed, not when a
//! conversation gets there.

use std::collections::{HashMap, HashSet};

use super::ast::SyntaxError;
use super::functions;
use super::lexer::{Located, Token};

/// Names in a source.
#[derive(Default)]
pub(super) struct Lacks<'s> {
    /// Texts of which the source asks whether they are filters or tests. It may name these where they are not.
    pub(super) asked: HashSet<Box<str>>,
    /// Names that the source sets itself.
    pub(super) assigned: HashSet<&'s str>,
    /// Names of variables, with the line of the first and whether all are called.
    pub(super) mentions: HashMap<&'s str, (usize, bool)>,
}

impl<'s> Lacks<'s> {
    /// Reads the names that a source asks about.
    pub(super) fn of(tokens: &[Located<'s>]) -> Lacks<'s> {
        let mut asked = HashSet::new();
        for three in tokens.windows(4) {
            let [first, second, third, fourth] = three else { continue };
            let kind = match (&second.token, &third.token, &fourth.token) {
                (Token::Name("is"), Token::Name("not"), Token::Name(kind)) => kind,
                (Token::Name("is"), Token::Name(kind), _) => kind,
                _ => continue,
            };
            if let (Token::Str(name), "filter" | "test") = (&first.token, *kind) {
                asked.insert(name.as_str().into());
            }
        }
        Lacks { asked, ..Lacks::default() }
    }

    /// Checks that what is called can be there. No variable that a template is given can be called; so a name that the
    /// source does not set is a function, unless the source looks at it otherwise, as to ask whether it is defined.
    ///
    /// # Errors
    /// There is no such function.
    pub(super) fn check(&self) -> Result<(), SyntaxError> {
        let given = ["loop", "caller", "varargs", "kwargs", "self", "super"];
        let missing = self.mentions.iter().filter(|(name, (_, called))| {
            *called
                && !self.assigned.contains(*name)
                && !given.contains(name)
                && functions::named(name).is_none()
        });
        match missing.min_by_key(|(_, (line, _))| *line) {
            Some((name, (line, _))) => Err(SyntaxError { line: *line, message: functions::unknown(name) }),
            None => Ok(()),
        }
    }
}
