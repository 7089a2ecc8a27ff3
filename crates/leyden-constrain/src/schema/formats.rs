//! Formats of strings, each as a regular expression.
//!
//! Some expressions are narrower than the format: every generated text has the format, but not every text of the
//! format is generated. Only dates are wider, with a 29 February in every year.

use super::text::Pattern;

const DATE: &str = "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)\
    |02-(?:0[1-9]|[12][0-9]))";
const TIME: &str =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
/// Character of a path in a URI.
const PATH: &str = "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})";

/// Enforced formats of strings.
pub(super) const FORMATS: [&str; 27] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
    "uri-reference",
    "json-pointer",
    "regex",
    "ipv4network",
    "ipv6network",
    "ipv4interface",
    "ipv6interface",
    "ipvanyaddress",
    "ipvanynetwork",
    "ipvanyinterface",
    "byte",
    "binary",
    "password",
    "path",
    "file-path",
    "directory-path",
    "base64url",
];

/// Returns the pattern of a format; `None` if it does not restrict strings.
pub(super) fn pattern(format: &str) -> Option<Pattern> {
    let uri = |scheme: &str| {
        let host = format!("(?:{LABEL}(?:\\.{LABEL})*|{BYTE}(?:\\.{BYTE}){{3}})");
        let rest = format!("(?:/{PATH}*)*(?:\\?(?:{PATH}|[/?])*)?(?:#(?:{PATH}|[/?])*)?");
        let authority = format!("//{host}(?::[0-9]{{1,5}})?{rest}");
        format!("{scheme}(?:{authority}|{PATH}+{rest})")
    };
    let v4 = format!("{BYTE}(?:\\.{BYTE}){{3}}");
    let v6 = ipv6();
    let rule = match format {
        "date-time" => format!("{DATE}T{TIME}"),
        "time" => TIME.to_owned(),
        "date" => DATE.to_owned(),
        "duration" => {
            let time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
            let date = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
            format!("P(?:[0-9]+W|{date}(?:{time})?|{time})")
        }
        "email" => {
            let part = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
            format!("{part}(?:\\.{part}){{0,2}}@{LABEL}(?:\\.{LABEL}){{1,2}}")
        }
        "hostname" => format!("{LABEL}(?:\\.{LABEL}){{0,3}}"),
        "ipv4" => v4,
        "ipv6" => v6,
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_owned(),
        "uri" => uri("[a-zA-Z][a-zA-Z0-9+.-]*:"),
        "uri-reference" => {
            let rest = format!("(?:\\?(?:{PATH}|[/?])*)?(?:#(?:{PATH}|[/?])*)?");
            format!("(?:{}|/?(?:[a-zA-Z0-9._~-]+(?:/{PATH}+)*/?)?{rest})", uri("[a-zA-Z][a-zA-Z0-9+.-]*:"))
        }
        "json-pointer" => "(?:/(?:[^/~]|~[01])*)*".to_owned(),
        // Characters, classes and one level of groups, each optionally repeated.
        "regex" => {
            let class = "\\[\\^?(?:a-z|A-Z|0-9|[a-zA-Z0-9_ ])+\\]";
            let plain = "[a-zA-Z0-9 _,:;=@#%&~'\"<>!/-]";
            let atom = format!("(?:{plain}|\\\\[dDwWsS.]|\\.|{class})[*+?]?");
            format!("\\^?(?:{atom}|\\((?:{atom})+(?:\\|(?:{atom})+)*\\)[*+?]?)+\\$?")
        }
        // The bits after the prefix are zero.
        "ipv4network" => network4(),
        "ipv6network" => network6(),
        "ipv4interface" => format!("{v4}(?:/(?:3[0-2]|[12]?[0-9]))?"),
        "ipv6interface" => format!("{v6}(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"),
        "ipvanyaddress" => format!("(?:{v4}|{v6})"),
        "ipvanynetwork" => format!("(?:{}|{})", network4(), network6()),
        "ipvanyinterface" => format!("(?:{v4}|{v6})(?:/(?:3[0-2]|[12]?[0-9]))?"),
        "byte" => {
            "(?:[a-zA-Z0-9+/]{4})*(?:[a-zA-Z0-9+/][AQgw]==|[a-zA-Z0-9+/]{2}[AEIMQUYcgkosw048]=)?".to_owned()
        }
        "base64url" => {
            "(?:[a-zA-Z0-9_-]{4})*(?:[a-zA-Z0-9_-][AQgw]==|[a-zA-Z0-9_-]{2}[AEIMQUYcgkosw048]=)?".to_owned()
        }
        _ => return None,
    };
    Pattern::own(&rule)
}

/// Returns an expression of eight groups, or fewer with `::`.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let mut forms = vec![format!("{group}(?::{group}){{7}}"), format!("::(?:{group}(?::{group}){{0,6}})?")];
    for before in 1..=6 {
        // `::` represents at least one group.
        let after = 7 - before - 1;
        let behind = format!("(?:{group}(?::{group}){{0,{after}}})?");
        forms.push(format!("{group}(?::{group}){{{}}}::{behind}", before - 1));
    }
    forms.push(format!("{group}(?::{group}){{6}}::"));
    format!("(?:{})", forms.join("|"))
}

fn network4() -> String {
    format!(
        "(?:{BYTE}(?:\\.{BYTE}){{3}}(?:/32)?|{BYTE}(?:\\.{BYTE}){{2}}\\.0/24|{BYTE}\\.{BYTE}\\.0\\.0/16|{BYTE}\\.0\\.0\\.0/8|0\\.0\\.0\\.0/0)"
    )
}

fn network6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let prefixes = (1..=7).map(|groups| format!("{group}(?::{group}){{{}}}::/{}", groups - 1, 16 * groups));
    let whole = format!("{group}(?::{group}){{7}}(?:/128)?");
    format!("(?:{}|{whole}|::/0)", prefixes.collect::<Vec<_>>().join("|"))
}
