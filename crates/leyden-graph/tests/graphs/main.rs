//! Graphs against other implementations: ONNX's own node tests, and onnxruntime on real models. Both need Python.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod models;
mod mutations;
mod nodes;
