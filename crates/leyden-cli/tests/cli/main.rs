//! The built program as a user runs it: output, exit codes, messages, wrong input.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod abuse;
mod audit;
mod batch;
mod batches;
mod bench;
mod bundle;
mod calibrate;
mod constrained;
mod conversation;
mod convert;
mod doctor;
mod encoders;
mod eval;
mod fill_in_middle;
mod folders;
mod gliner;
mod hwbench;
mod inspect;
mod load;
mod lora;
mod many_models;
mod model_forms;
mod models;
mod names;
mod outputs;
mod pack;
mod plan;
mod program;
mod prune;
mod quantize;
mod report;
mod rows;
mod run;
mod serve;
mod serve_abuse;
mod serve_waits;
mod service;
mod special_tokens;
mod stateless;
mod streams;
mod tls;
mod tokenize;
mod traces;
mod verify;
