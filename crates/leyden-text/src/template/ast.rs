//! The tree of a template.
//!
//! Chains (`a ~ b ~ c`, `a.b.c`, `elif` after `elif`) are lists and not nested nodes: the tree is as deep
//! as the source has brackets and blocks inside each other, which the parser bounds, so walking and
//! dropping it cannot exhaust the stack.

use super::filters::Filter;
use super::predicates::Predicate;

/// What is wrong with a source, and where.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// A variable's name, by its number in [`Template::names`].
pub(super) type NameId = u32;

#[derive(Debug)]
pub(super) struct Template {
    pub(super) body: Body,
    pub(super) names: Vec<Box<str>>,
}

pub(super) type Body = Vec<Statement>;

#[derive(Debug)]
pub(super) struct Statement {
    pub(super) line: usize,
    pub(super) kind: StatementKind,
}

#[derive(Debug)]
pub(super) enum StatementKind {
    Text(Box<str>),
    Print(Expr),
    /// Conditions with their bodies, in order; the last may be without a condition.
    If(Vec<(Option<Expr>, Body)>),
    For(Box<For>),
    Set(Target, Expr),
    SetBlock(Target, Vec<Postfix>, Body),
    Macro(Macro),
    /// A block whose output goes through filters.
    FilterBlock(Vec<Postfix>, Body),
    With(Vec<(Target, Expr)>, Body),
    /// A call whose callee gets the body as the macro `caller`.
    Call(Box<CallBlock>),
    /// A named block, which sees the variables around it if it is `scoped`.
    Block {
        scoped: bool,
        body: Body,
    },
    /// A block that means nothing here.
    Plain(Body),
    Break,
    Continue,
}

#[derive(Debug)]
pub(super) struct For {
    pub(super) target: Target,
    pub(super) items: Expr,
    pub(super) filter: Option<Expr>,
    pub(super) body: Body,
    pub(super) otherwise: Body,
    /// The body may call `loop` for the items within an item.
    pub(super) recursive: bool,
}

#[derive(Debug)]
pub(super) struct CallBlock {
    pub(super) callee: Expr,
    pub(super) arguments: Arguments,
    pub(super) caller: Macro,
}

#[derive(Debug)]
pub(super) struct Macro {
    pub(super) name: NameId,
    pub(super) parameters: Vec<(NameId, Option<Expr>)>,
    pub(super) body: Body,
    pub(super) uses: Uses,
}

/// Variables that a macro has if its body names them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    /// The body of the `call` block that calls it.
    pub(super) caller: Option<NameId>,
    /// Arguments beyond its parameters.
    pub(super) varargs: Option<NameId>,
    pub(super) kwargs: Option<NameId>,
}

#[derive(Debug)]
pub(super) enum Target {
    Name(NameId),
    Attribute(NameId, Box<str>),
    Tuple(Vec<Target>),
}

#[derive(Debug)]
pub(super) enum Expr {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Box<str>),
    Name(NameId),
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Positive(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    Concat(Vec<Expr>),
    /// Operators of one precedence, from left to right.
    Arithmetic(Box<Expr>, Vec<(Arithmetic, Expr)>),
    /// Conditions with their values, in order, and the value if none holds.
    Conditional(Vec<(Expr, Expr)>, Option<Box<Expr>>),
    Postfix(Box<Expr>, Vec<Postfix>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Remainder,
    Power,
}

/// What stands behind an operand.
#[derive(Debug)]
pub(super) enum Postfix {
    Attribute(Box<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    /// One that does not exist is an error when it is reached: the source asks for it before.
    Filter(Box<str>, Option<&'static Filter>, Arguments),
    Test {
        name: Box<str>,
        test: Option<&'static Predicate>,
        arguments: Arguments,
        negated: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Box<str>, Expr)>,
    /// Items that are further arguments: those of `*`.
    pub(super) items: Option<Box<Expr>>,
    /// Entries that are further arguments with names: those of `**`.
    pub(super) entries: Option<Box<Expr>>,
}
