//! A small, strict, bounded client for HTTP/1.1: one request at a time on a connection that is kept.
//!
//! The idea is the clock: a moment is taken as soon as the system hands over bytes, before they are understood, and
//! nothing is held back to fill a buffer. [`head`] and [`body`] are pure, [`connection`] is all that touches a socket.
//! What is easy to get wrong: a kept connection that the server has closed meanwhile is no failure of the server.

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
pub use leyden_tls::Authorities;
pub(crate) use tls::{Tls, config};
