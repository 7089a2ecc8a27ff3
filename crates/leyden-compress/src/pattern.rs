//! Types that the user assigns to tensors by name.

use crate::error::Error;
use leyden_tensor::DType;
use std::str::FromStr;

/// `PATTERN=TYPE`: tensors whose name matches get the type. In the pattern `*` matches any text; a pattern without
/// `*` may match anywhere in the name, for example `attn_v` in every layer.
#[derive(Clone, Debug)]
pub struct Override {
    pattern: String,
    dtype: DType,
}

impl Override {
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn pattern(&self) -> &str {
        &self.pattern
    }

    pub(crate) fn fits(&self, name: &str) -> bool {
        if !self.pattern.contains('*') {
            return name.contains(&self.pattern);
        }
        let mut parts = self.pattern.split('*');
        let (Some(first), Some(last)) = (parts.next(), parts.next_back()) else { return false };
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl FromStr for Override {
    type Err = Error;

    fn from_str(text: &str) -> Result<Override, Error> {
        let wrong = |what: String| Error::Override { text: text.to_owned(), what };
        let (pattern, name) = text
            .rsplit_once('=')
            .filter(|(pattern, _)| !pattern.is_empty())
            .ok_or_else(|| wrong("want PATTERN=TYPE, such as attn_v=Q8_0".to_owned()))?;
        let dtype = DType::encodable().find(|t| t.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let known: Vec<&str> = DType::encodable().map(DType::name).collect();
            wrong(format!("unknown type `{name}`; known: {}", known.join(", ")))
        })?;
        Ok(Override { pattern: pattern.to_owned(), dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        let fits =
            |pattern: &str, name: &str| format!("{pattern}=q8_0").parse::<Override>().unwrap().fits(name);
        assert!(fits("attn_v", "blk.3.attn_v.weight") && !fits("attn_v", "blk.3.attn_q.weight"));
        assert!(fits("blk.*.ffn_*", "blk.11.ffn_up.weight") && !fits("blk.*.ffn", "blk.11.ffn_up.weight"));
        assert!(fits("*up.weight", "blk.11.ffn_up.weight") && !fits("blk.1.*", "blk.11.ffn_up.weight"));
        for wrong in ["attn_v", "=Q8_0", "a=Q9"] {
            assert!(wrong.parse::<Override>().is_err(), "{wrong}");
        }
    }
}
