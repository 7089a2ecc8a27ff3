//! The `leyden` binary.
fn main() {}
