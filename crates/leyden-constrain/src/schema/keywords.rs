//! The keywords of JSON Schema, all drafts together, and what becomes of each.
//!
//! A keyword of any draft counts as meant, whichever draft the schema names: to enforce more than a draft asks for is
//! harmless, and to leave out what an author wrote is not.

use serde_json::Number;

/// What is done with a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Says nothing about values, or names parts of the schema that only references reach.
    Annotation,
    /// Its value is a schema; for `items`, in old drafts, a list of them.
    Schema,
    /// Its value is a list of schemas.
    List,
    /// Its value maps names to schemas.
    Map,
    /// Its value is plain data.
    Plain(Shape),
    /// A reference to another schema.
    Reference,
    /// Cannot be enforced by a grammar, or is not yet.
    Unsupported,
}

/// What plain data must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A whole number that is not negative.
    Count,
    Number,
    /// A number, or in draft 4 a boolean beside `minimum` or `maximum`.
    Bound,
    Flag,
    Text,
    Texts,
    /// The name of a type or a list of them.
    Types,
    Value,
    Values,
}

/// The keyword of this name. An unknown one is an annotation, as the standard has it.
pub(super) fn keyword(name: &str) -> Keyword {
    match name {
        "additionalProperties" | "additionalItems" | "items" => Keyword::Schema,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Keyword::List,
        "properties" | "patternProperties" => Keyword::Map,
        "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minLength" | "maxLength" => {
            Keyword::Plain(Shape::Count)
        }
        "minimum" | "maximum" | "multipleOf" => Keyword::Plain(Shape::Number),
        "exclusiveMinimum" | "exclusiveMaximum" => Keyword::Plain(Shape::Bound),
        "pattern" | "format" => Keyword::Plain(Shape::Text),
        "required" => Keyword::Plain(Shape::Texts),
        "type" => Keyword::Plain(Shape::Types),
        "uniqueItems" => Keyword::Plain(Shape::Flag),
        "const" => Keyword::Plain(Shape::Value),
        "enum" => Keyword::Plain(Shape::Values),
        "$ref" => Keyword::Reference,
        "if"
        | "then"
        | "else"
        | "not"
        | "contains"
        | "minContains"
        | "maxContains"
        | "propertyNames"
        | "dependencies"
        | "dependentRequired"
        | "dependentSchemas"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "$dynamicRef"
        | "$recursiveRef"
        | "extends"
        | "disallow"
        | "divisibleBy"
        | "x-guidance" => Keyword::Unsupported,
        _ => Keyword::Annotation,
    }
}

/// The types of JSON Schema.
pub(super) const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// The least and the greatest number of a format of integers.
pub(super) fn integer_range(format: &str) -> Option<(Number, Number)> {
    match format {
        "int32" => Some((i32::MIN.into(), i32::MAX.into())),
        "uint32" => Some((0.into(), u32::MAX.into())),
        "int64" => Some((i64::MIN.into(), i64::MAX.into())),
        "uint64" => Some((0.into(), u64::MAX.into())),
        _ => None,
    }
}
