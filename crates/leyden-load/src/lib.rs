//! A load generator for servers with OpenAI's interface: workloads, measurements, verdicts.
//!
//! A [`Target`] is a model on a [`Server`], a [`Workload`] defines the requests and their times, [`run`] sends them
//! and keeps a [`Record`] of each, and [`Summary`] computes figures, with the verdict on a [`Slo`]. Everything but
//! `run` and the search for a target is free of I/O.
//!
//! Common mistakes in measuring a server, and how they are avoided here:
//!
//! * Times are taken when the system returns bytes, before they are parsed. Events that arrive in one read share a
//!   time.
//! * With given arrival times, latencies count from the time at which a request was due, so that a server which
//!   delays requests cannot hide it (coordinated omission). The generator's own delay is reported separately.
//! * A failed request is not left out of an SLO: its latency is infinite.
//!
//! ```no_run
//! use leyden_load::*;
//! use std::time::Duration;
//! let control = Control::default();
//! let server = Server::new("http://127.0.0.1:8080".parse()?, None, &Authorities::System)?;
//! let target = Target::find(server, None, Ask::default(), Duration::from_secs(60), &control)?;
//! let workload = Workload {
//!     arrivals: Arrivals::Users(8, Pause::default()),
//!     prompt: "30..200".parse()?,
//!     output: "64".parse()?,
//!     prefix: None,
//!     duration: Some(Duration::from_secs(60)),
//!     least: 0,
//!     requests: None,
//!     warmup: Duration::ZERO,
//!     ramp: Duration::ZERO,
//!     drain: Duration::from_secs(60),
//!     timeout: Duration::from_secs(600),
//!     retry: false,
//!     seed: 1,
//! };
//! let run = run(&target, &workload, &control, &mut |_| {})?;
//! println!("{:?}", Summary::new(&run, None).ttft_s);
//! # Ok::<(), Error>(())
//! ```
#![forbid(unsafe_code)]

mod api;
mod compare;
mod control;
mod document;
mod error;
mod http;
mod lengths;
mod plots;
mod random;
mod record;
mod run;
mod search;
mod server;
mod slo;
mod sse;
mod stats;
mod summary;
mod target;
mod trace;
mod url;
mod words;
mod workload;

pub use api::{Ask, Endpoint};
pub use compare::{Comparison, Ratio};
pub use control::Control;
pub use error::{Error, ErrorKind, Result};
pub use http::{Authorities, ClientFiles};
pub use lengths::{Lengths, MAX_TOKENS, Pause, parse_duration};
pub use plots::plots;
pub use random::Random;
pub use record::{Class, Fail, Record};
pub use run::{Progress, Run, run};
pub use search::Search;
pub use server::{ApiKey, Server};
pub use slo::{Limit, Metric, Outcome, Slo, Verdict};
pub use stats::{Percentiles, Samples, median};
pub use summary::{Counts, ErrorRow, MAX_LAG, SloReport, Summary, UserRate};
pub use target::{Calibration, Source, Target};
pub use trace::{Arrival, Trace};
pub use url::Base;
pub use workload::{Arrivals, MAX_REQUESTS, MAX_USERS, SharedPrefix, Workload};
