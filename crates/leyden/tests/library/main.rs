//! Tests of the library's public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;
mod batch;
mod constrained;
mod invariance;
mod real_encoder;
mod recurrent;
mod replicas;
mod speculation;
