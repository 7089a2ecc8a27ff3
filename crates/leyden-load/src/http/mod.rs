//! A small, strict, bounded client for HTTP/1.1: one request at a time on a connection that is kept.
//!
//! The design follows from the clock: times are taken as soon as the system returns bytes, before they are parsed,
//! and bytes are never held back to fill a buffer. [`head`] and [`body`] are free of I/O; only [`connection`] uses a
//! socket. A kept connection that the server has closed meanwhile does not count as a failure of the server.

mod body;
mod connection;
mod gate;
mod head;
mod tls;

pub(crate) use connection::{Client, Sink};
pub(crate) use gate::Gate;
#[cfg(test)]
pub(crate) use head::Framing;
pub(crate) use head::Head;
pub use leyden_tls::{Authorities, ClientFiles};
pub(crate) use tls::{Tls, config};
