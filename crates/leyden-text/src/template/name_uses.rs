//! Unknown filters, tests and functions that a source uses, detected when it is parsed instead of when a
//! conversation reaches them.

use std::collections::{HashMap, HashSet};

use super::ast::SyntaxError;
use super::functions;
use super::lexer::{Located, Token};

/// Names in a source.
#[derive(Default)]
pub(super) struct NameUses<'s> {
    /// Names that the source tests for being a filter or test. It may use these even if they are unknown.
    pub(super) asked: HashSet<Box<str>>,
    /// Names that the source assigns.
    pub(super) assigned: HashSet<&'s str>,
    /// Names of variables, with the line of the first use and whether all uses are calls.
    pub(super) mentions: HashMap<&'s str, (usize, bool)>,
}

impl<'s> NameUses<'s> {
    /// Collects the names that a source tests for.
    pub(super) fn of(tokens: &[Located<'s>]) -> NameUses<'s> {
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
        NameUses { asked, ..NameUses::default() }
    }

    /// Checks that all called functions exist. None of the variables given to a template is callable; so a name
    /// that the source only calls and never assigns must be a function.
    ///
    /// # Errors
    /// A function does not exist.
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
