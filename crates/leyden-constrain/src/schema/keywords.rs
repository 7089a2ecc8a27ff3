//! Keywords of JSON Schema, of all drafts together, with their treatment.
//!
//! Keywords of all drafts are enforced, whichever draft the schema names: enforcing more than a draft requires is
//! harmless, and ignoring a keyword that the author wrote is not.

use serde_json::Number;

/// Treatment of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Does not restrict values, or contains parts of the schema that only references use.
    Annotation,
    /// The value is a schema; for `items`, in old drafts, a list of schemas.
    Schema,
    /// The value is a list of schemas.
    List,
    /// The value maps names to schemas.
    Map,
    /// The value is plain data.
    Plain(Shape),
    /// Reference to another schema.
    Reference,
    /// Not supported.
    Unsupported,
}

/// Required form of plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Integer that is not negative.
    Count,
    Number,
    /// Number, or in draft 4 a boolean beside `minimum` or `maximum`.
    Bound,
    Flag,
    Text,
    Texts,
    /// Name of a type, or a list of names.
    Types,
    Value,
    Values,
}

/// Returns the treatment of a keyword. An unknown one is an annotation, as in the standard.
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

/// Types of JSON Schema.
pub(super) const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// Returns the minimum and maximum of an integer format.
pub(super) fn integer_range(format: &str) -> Option<(Number, Number)> {
    match format {
        "int32" => Some((i32::MIN.into(), i32::MAX.into())),
        "uint32" => Some((0.into(), u32::MAX.into())),
        "int64" => Some((i64::MIN.into(), i64::MAX.into())),
        "uint64" => Some((0.into(), u64::MAX.into())),
        _ => None,
    }
}
