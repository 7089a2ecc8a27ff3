//! Numbers: bounds are followed exactly, whatever their digits, and what is written has an end.
use leyden_testkit::emulated;
use std::sync::{Arc, LazyLock};

use crate::vocabularies::{bytes_and_words, follows, vocabulary};
use leyden_constrain::{Compiled, Grammar, Vocabulary};
use leyden_text::Tokenizer;
use proptest::prelude::*;
use serde_json::{Value, json};

struct Numbers {
    tokenizer: Box<dyn Tokenizer>,
    vocabulary: Arc<Vocabulary>,
}

impl Numbers {
    fn new() -> Numbers {
        let tokenizer = bytes_and_words();
        let vocabulary = vocabulary(tokenizer.as_ref());
        Numbers { tokenizer, vocabulary }
    }

    fn compile(&self, schema: &Value) -> Compiled {
        let compiled = Grammar::json_schema(schema).and_then(|grammar| self.vocabulary.compile(&grammar));
        compiled.unwrap_or_else(|e| panic!("{schema}: {e}"))
    }

    fn check(&self, schema: &Value, good: &[&str], bad: &[&str]) {
        let start = self.compile(schema).start();
        for text in good {
            assert!(follows(&start, self.tokenizer.as_ref(), text), "{schema} should allow {text}");
        }
        for text in bad {
            assert!(!follows(&start, self.tokenizer.as_ref(), text), "{schema} should not allow {text}");
        }
    }
}

#[test]
fn excluded_bounds_are_never_written() {
    let n = Numbers::new();
    let number = |rest: Value| {
        let mut schema = json!({ "type": "number" });
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        schema
    };
    n.check(
        &number(json!({ "exclusiveMinimum": 0, "maximum": 0.5 })),
        &["0.5", "0.50", "0.1", "0.00000000000000001"],
        &["0", "0.0", "-0", "0.51", "0.500001", "-0.1", "1", "0.", ".5", "5e-1"],
    );
    n.check(
        &number(json!({ "exclusiveMinimum": 1, "maximum": 1.5 })),
        &["1.5", "1.1", "1.0000001", "1.50"],
        &["1", "1.0", "1.000", "1.6", "0", "2"],
    );
    n.check(
        &number(json!({ "minimum": -1.5, "exclusiveMaximum": -1 })),
        &["-1.5", "-1.1", "-1.00001", "-1.50"],
        &["-1", "-1.0", "-1.51", "-0.5", "1", "0", "-2"],
    );
    n.check(
        &number(json!({ "exclusiveMinimum": 0, "exclusiveMaximum": 0.001 })),
        &["0.0009", "0.0001", "0.00000001"],
        &["0", "0.0", "0.001", "0.0010", "0.01", "1"],
    );
    n.check(
        &number(json!({ "exclusiveMinimum": 0, "maximum": 1e-9 })),
        &["0.000000001", "0.0000000001", "0.00000000099"],
        &["0", "0.0", "0.0000000011", "0.1"],
    );
    n.check(
        &number(json!({ "minimum": 0, "exclusiveMaximum": 1 })),
        &["0", "0.0", "0.999"],
        &["1", "1.0", "-0.1"],
    );
    n.check(
        &number(json!({ "exclusiveMinimum": -0.5, "exclusiveMaximum": 0.5 })),
        &["0", "-0.49", "0.49", "0.0"],
        &["-0.5", "0.5", "0.50", "-1", "1"],
    );
    n.check(
        &number(json!({ "exclusiveMaximum": 0 })),
        &["-1", "-0.1", "-123456"],
        &["0", "0.0", "-0.0", "1"],
    );
    n.check(
        &number(json!({ "exclusiveMinimum": 100 })),
        &["100.1", "101", "1000"],
        &["100", "100.0", "99.9"],
    );
    // As draft 4 said it.
    let old = json!({ "minimum": 3, "exclusiveMinimum": true, "maximum": 4, "exclusiveMaximum": true });
    n.check(&number(old), &["3.5", "3.01"], &["3", "4", "3.0"]);
    n.check(
        &json!({ "type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4 }),
        &["2", "3"],
        &["1", "4"],
    );
    let both =
        json!({ "type": "number", "minimum": 0, "allOf": [{ "exclusiveMinimum": 0 }, { "maximum": 2 }] });
    n.check(&both, &["0.1", "2"], &["0", "2.1"]);
}

#[test]
fn integers_of_64_bits_and_more_are_exact() {
    let n = Numbers::new();
    let i64s = json!({ "anyOf": [
        { "type": "integer", "minimum": i64::MIN, "exclusiveMaximum": 9_223_372_036_854_775_808_u64 },
        { "type": "null" },
    ] });
    n.check(
        &i64s,
        &["9223372036854775807", "-9223372036854775808", "0", "null", "9007199254740993"],
        &["9223372036854775808", "-9223372036854775809", "10000000000000000000"],
    );
    for schema in [
        json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        json!({ "type": "integer", "format": "uint64" }),
        json!({ "type": "integer", "minimum": 0, "exclusiveMaximum": 18_446_744_073_709_551_616.0 }),
    ] {
        n.check(
            &schema,
            &["18446744073709551615", "0", "18446744073709551609"],
            &["18446744073709551616", "-1", "20000000000000000000"],
        );
    }
    n.check(
        &json!({ "type": "integer", "format": "int64" }),
        &["-9223372036854775808"],
        &["9223372036854775808"],
    );
    let from = json!({ "type": "integer", "minimum": 1_000_000_000_000_000_000_u64 });
    n.check(&from, &["1000000000000000000", "9999999999999999999"], &["999999999999999999", "1"]);
    n.check(&json!({ "const": u64::MAX }), &["18446744073709551615"], &["18446744073709551616"]);
    n.check(
        &json!({ "enum": [9_007_199_254_740_993_i64, -9_007_199_254_740_993_i64, 0.1] }),
        &["9007199254740993", "-9007199254740993", "0.1"],
        &["9007199254740992", "0.2"],
    );
    let one_of = json!({ "oneOf": [{ "type": "integer", "maximum": 9_007_199_254_740_992_i64 },
        { "type": "integer", "exclusiveMinimum": 9_007_199_254_740_992_i64 }] });
    n.check(&one_of, &["9007199254740992", "9007199254740993"], &["1.5"]);
}

#[test]
fn numbers_have_an_end() {
    let n = Numbers::new();
    let (nines, ones) = ("9".repeat(18), "1".repeat(17));
    for schema in [json!({ "type": "number" }), json!({})] {
        n.check(
            &schema,
            &[&nines, &format!("-{nines}.{ones}e-99"), "0", "-0", "1E+5"],
            &[&format!("{nines}9"), &format!("0.{ones}1"), "1e100", "01", "1."],
        );
    }
    n.check(&json!({ "type": "integer" }), &[&nines, "-12"], &[&format!("{nines}9"), "1.0"]);
    for bounded in [json!({ "minimum": 0 }), json!({ "maximum": 1 }), json!({ "minimum": 0, "maximum": 1 })] {
        let start = n.compile(&json!({ "type": "number", "allOf": [bounded] })).start();
        assert!(!follows(&start, n.tokenizer.as_ref(), &format!("0.{ones}1")), "{bounded}");
        assert!(follows(&start, n.tokenizer.as_ref(), &format!("0.{ones}")), "{bounded}");
    }
}

#[test]
fn multiples_are_told_by_their_digits() {
    let n = Numbers::new();
    for (schema, good, bad) in [
        (
            json!({ "type": "number", "multipleOf": 0.01 }),
            vec!["0.01", "1.5", "-7", "3.10"],
            vec!["0.001", "1.000"],
        ),
        (
            json!({ "type": "number", "multipleOf": 0.25 }),
            vec!["0.25", "0.5", "1", "12.75", "3.50"],
            vec!["0.3", "0.05"],
        ),
        (
            json!({ "type": "number", "multipleOf": 2.5 }),
            vec!["0", "2.5", "5", "10", "12.5"],
            vec!["1", "7", "2"],
        ),
        (json!({ "type": "integer", "multipleOf": 0.5 }), vec!["1", "0"], vec!["0.5"]),
        (json!({ "type": "integer", "multipleOf": 5 }), vec!["0", "5", "-10", "125"], vec!["1", "12"]),
        (
            json!({ "type": "integer", "multipleOf": 4 }),
            vec!["0", "4", "8", "100", "112"],
            vec!["2", "10", "114"],
        ),
        (
            json!({ "type": "integer", "multipleOf": 7, "minimum": 8, "exclusiveMaximum": 28 }),
            vec!["14", "21"],
            vec!["7", "28", "15"],
        ),
        (
            json!({ "type": "number", "multipleOf": 0.5, "exclusiveMinimum": 0, "maximum": 1 }),
            vec!["0.5", "1", "1.0"],
            vec!["0", "0.0", "1.5"],
        ),
        (
            json!({ "type": "number", "multipleOf": 3, "allOf": [{ "multipleOf": 2 }] }),
            vec!["6", "12", "0"],
            vec!["3", "4"],
        ),
    ] {
        n.check(&schema, &good, &bad);
    }
}

static NUMBERS: LazyLock<Numbers> = LazyLock::new(Numbers::new);

/// A decimal of an integer and a scale, as it is written.
fn written(value: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if emulated() { 8 } else { 40 }))]

    #[test]
    fn bounds_are_exact(
        a in -30_000_i64..30_000,
        width in 0_i64..40_000,
        scale in 0_usize..5,
        integer: bool,
        open in any::<(bool, bool)>(),
        unbounded in prop::sample::select(vec![None, None, Some(true), Some(false)]),
    ) {
        let n = &*NUMBERS;
        let b = a + width;
        let at = |value: i64| serde_json::from_str::<Value>(&written(value.into(), scale)).unwrap();
        let mut schema = json!({ "type": if integer { "integer" } else { "number" } });
        let (lower, upper) = (unbounded != Some(true), unbounded != Some(false));
        if lower {
            schema[if open.0 { "exclusiveMinimum" } else { "minimum" }] = at(a);
        }
        if upper {
            schema[if open.1 { "exclusiveMaximum" } else { "maximum" }] = at(b);
        }
        // Two digits more than the bounds have.
        let unit = 100_i128;
        let (low, high) = (i128::from(a) * unit, i128::from(b) * unit);
        let holds = |value: i128| {
            (!lower || if open.0 { value > low } else { value >= low })
                && (!upper || if open.1 { value < high } else { value <= high })
        };
        let whole = unit * 10_i128.pow(scale as u32);
        let Ok(compiled) = Grammar::json_schema(&schema).and_then(|grammar| n.vocabulary.compile(&grammar)) else {
            // Nothing is between.
            let first = if integer { (low.div_euclid(whole) - 1..=high.div_euclid(whole) + 1).map(|i| i * whole).any(holds) } else { holds(low) || holds(low + 1) };
            prop_assert!(!first, "{schema}");
            return Ok(());
        };
        let start = compiled.start();
        let mut values = vec![low, high, (low + high) / 2, 0, low / whole * whole, high / whole * whole];
        values.extend(values.clone().iter().flat_map(|v| [v - 1, v + 1, v - unit, v + unit, v - whole, v + whole, -v]));
        for value in values {
            let is_whole = value % whole == 0;
            let mut texts = Vec::new();
            if is_whole {
                texts.push(written(value / whole, 0));
            }
            if !integer {
                texts.push(written(value, scale + 2));
            }
            for text in texts.iter().filter(|text| !text.starts_with("-0") || value != 0) {
                prop_assert_eq!(follows(&start, n.tokenizer.as_ref(), text), holds(value), "{} {}", schema, text);
            }
        }
    }
}
