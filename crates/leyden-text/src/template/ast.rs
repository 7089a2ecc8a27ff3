//! Syntax tree of a template.
//!
//! Chains (`a ~ b ~ c`, `a.b.c`, `elif` after `elif`) are lists instead of nested nodes: the tree is as deep as the
//! nesting of brackets and blocks in the source, which the parser limits, so walking and dropping it cannot
//! overflow the stack.

/// Syntax error with its line.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

/// Variable name, as an index into [`Template::names`].
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
    /// Conditions with their bodies, in order; the last may have no condition.
    If(Vec<(Option<Expr>, Body)>),
    For(Box<For>),
    Set(Target, Expr),
    SetBlock(Target, Vec<Postfix>, Body),
    Macro(Macro),
    /// A block whose output is passed through filters.
    FilterBlock(Vec<Postfix>, Body),
    With(Vec<(Target, Expr)>, Body),
    /// A call whose callee gets the body as the macro `caller`.
    Call(Box<CallBlock>),
    /// A named block, which can access the variables around it if it is `scoped`.
    Block {
        scoped: bool,
        body: Body,
    },
    /// A block without effect of its own.
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
    /// True if the body may call `loop` for nested items.
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

/// Implicit variables that a macro has if its body mentions them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uses {
    /// Body of the `call` block that calls the macro.
    pub(super) caller: Option<NameId>,
    /// Arguments beyond the macro's parameters.
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
    /// Operators of the same precedence, from left to right.
    Arithmetic(Box<Expr>, Vec<(Arithmetic, Expr)>),
    /// Conditions with their values, in order, and the value if none is true.
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

/// Operation after an operand.
#[derive(Debug)]
pub(super) enum Postfix {
    Attribute(Box<str>),
    Item(Expr),
    Slice(Box<[Option<Expr>; 3]>),
    Call(Arguments),
    /// A filter by name, with its index in the table. An unknown one is an error only when evaluated: the source may
    /// test for it first.
    Filter(Box<str>, Option<usize>, Arguments),
    Test {
        name: Box<str>,
        /// Index in the table of tests.
        test: Option<usize>,
        arguments: Arguments,
        negated: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Expr>,
    pub(super) named: Vec<(Box<str>, Expr)>,
    /// Iterable of further positional arguments: that of `*`.
    pub(super) items: Option<Box<Expr>>,
    /// Dict of further named arguments: that of `**`.
    pub(super) entries: Option<Box<Expr>>,
}
