//! Verdicts on a model against quality floors, and signed evidence of them.
//!
//! - [`Floors`]: the parsed language of `accuracy>=0.95*ref, kld<=0.05`.
//! - [`judge`]: one [`Judgement`] for each floor, from paired outcomes of questions or from figures of text windows;
//!   a true value below the floor passes with a probability of at most 5 %.
//! - [`Evidence`]: the document of a verdict, bound to the SHA-256 of its [`FileSet`]s, the program and the machine;
//!   [`Signed`] is the document with its signature by a [`Key`].
//! - [`Problem`]: a reason why evidence does not hold for files, a key, a program or a machine.
//!
//! ```
//! use leyden_verify::{Floors, Measured, Pairs, Verdict, judge};
//! let floors: Floors = "accuracy>=0.95*ref".parse()?;
//! let pairs = Pairs { both: 880, only_model: 20, only_reference: 25, neither: 75 };
//! let judged = judge(&floors.all()[0], "rows.csv", &Measured::Questions(pairs), 1)?;
//! assert_eq!(judged.verdict, Verdict::Pass);
//! # Ok::<(), leyden_verify::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bounds;
mod canonical;
mod check;
mod date;
mod document;
mod error;
mod files;
mod floor;
mod judge;
mod key;
mod random;
mod signed;
mod verdict;

pub use check::{Problem, ProblemKind, compare_files, compare_machine, compare_program, compare_verdict};
pub use date::{Time, days};
pub use document::{Evidence, LimitResult, LoadResult, Machine, Program, Settings};
pub use error::Error;
pub use files::{FileHash, FileSet, sha256_of_file};
pub use floor::{Floor, Floors, Metric};
pub use judge::{Judgement, Measured, Pairs, WindowFigures, judge};
pub use key::{DEFAULT_DAYS, Key};
pub use signed::{Signature, Signed, evidence_path};
pub use verdict::Verdict;
