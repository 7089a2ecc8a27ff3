//! [`Structure`]: positions that zeros of a pruned matrix may have.

use std::fmt;
use std::str::FromStr;

/// Number of weights in a block of four inputs or four outputs.
pub(crate) const BLOCK: usize = 4;

/// Largest group of a pattern N:M.
const MAX_GROUP: usize = 64;

/// Positions that zeros may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// Any positions.
    Unstructured,
    /// `keep` weights stay of each `group` neighbouring inputs of an output (N:M).
    Groups {
        /// Number of weights that stay.
        keep: usize,
        /// Number of neighbouring inputs: a power of two up to 64.
        group: usize,
    },
    /// Blocks of four neighbouring inputs of one output.
    Inputs,
    /// Blocks of four neighbouring outputs of one input.
    Outputs,
}

impl Structure {
    /// Returns the requirement that a matrix `[rows, k]` does not meet, if any.
    #[must_use]
    pub fn unfit(self, rows: usize, k: usize) -> Option<&'static str> {
        match self {
            Structure::Groups { group, .. } if !k.is_multiple_of(group) => {
                Some("its number of inputs is no multiple of the group")
            }
            Structure::Inputs if !k.is_multiple_of(BLOCK) => Some("its number of inputs is no multiple of 4"),
            Structure::Outputs if !rows.is_multiple_of(BLOCK) => {
                Some("its number of outputs is no multiple of 4")
            }
            _ => None,
        }
    }

    /// Returns the share of zeros that the pattern itself sets: of N:M alone.
    #[must_use]
    pub fn sparsity(self) -> Option<f64> {
        match self {
            Structure::Groups { keep, group } => Some((group - keep) as f64 / group as f64),
            _ => None,
        }
    }

    /// Returns the number of rows and columns that become zero together.
    pub(crate) fn block(self) -> [usize; 2] {
        match self {
            Structure::Unstructured | Structure::Groups { .. } => [1, 1],
            Structure::Inputs => [1, BLOCK],
            Structure::Outputs => [BLOCK, 1],
        }
    }
}

impl FromStr for Structure {
    type Err = String;

    fn from_str(text: &str) -> Result<Structure, String> {
        match text {
            "unstructured" => return Ok(Structure::Unstructured),
            "1x4" => return Ok(Structure::Inputs),
            "4x1" => return Ok(Structure::Outputs),
            _ => {}
        }
        let parsed =
            text.split_once(':').and_then(|(n, m)| Some((n.parse().ok()?, m.parse::<usize>().ok()?)));
        match parsed {
            Some((keep, group))
                if group.is_power_of_two() && group <= MAX_GROUP && keep > 0 && keep < group =>
            {
                Ok(Structure::Groups { keep, group })
            }
            _ => Err(format!(
                "want unstructured, 1x4, 4x1, or N:M such as 2:4 or 32:64: N weights stay of M, a power of two up to {MAX_GROUP}"
            )),
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Structure::Unstructured => f.write_str("unstructured"),
            Structure::Groups { keep, group } => write!(f, "{keep}:{group}"),
            Structure::Inputs => f.write_str("1x4"),
            Structure::Outputs => f.write_str("4x1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_read_and_written() {
        for text in ["unstructured", "2:4", "12:64", "1x4", "4x1"] {
            assert_eq!(text.parse::<Structure>().unwrap().to_string(), text);
        }
        for wrong in ["", "0:4", "4:4", "3:6", "1:128", "2:", "x", "4x4"] {
            assert!(wrong.parse::<Structure>().unwrap_err().starts_with("want unstructured"), "{wrong}");
        }
        let groups = Structure::Groups { keep: 2, group: 4 };
        assert_eq!((groups.unfit(3, 6).is_some(), groups.unfit(3, 8)), (true, None));
        assert!(Structure::Outputs.unfit(6, 8).is_some() && Structure::Inputs.unfit(6, 6).is_some());
    }
}
