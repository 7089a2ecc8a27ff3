//! Results as HTML pages.
//!
//! [`Page`] is a page: the verdict or the main figure, then plots, tables, and how to repeat the run. It is one file with inline
//! styles and drawings, without scripts, for screens of any width, light or dark, and for paper. [`Run`] holds the figures of one
//! run, read by [`read`] from the JSON of a command; [`Run::page`] is its page and [`side_by_side`] that of several.
//!
//! A kind of document is a file in `kinds/` and its row in the table there.
#![forbid(unsafe_code)]

mod chart;
mod compare;
mod error;
mod file;
mod html;
mod kinds;
mod page;
mod run;
mod unit;

pub use chart::{Axis, Estimate, Extent, Mark, Plot, Row, RowPlot, Series, Shape};
pub use compare::{MAX_RUNS, side_by_side};
pub use error::Error;
pub use file::{read_file, read_from, write};
pub use html::command_line;
pub use kinds::read;
pub use page::{Block, Cell, Headline, Page, Section, Table, Tone};
pub use run::{About, Better, Figure, Group, Lines, Run};
pub use unit::{Unit, duration, number, rate};
