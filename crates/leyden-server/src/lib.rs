//! OpenAI-compatible HTTP server for models.
//!
//! [`serve`] blocks until the process gets a signal to stop. Each engine of a [`Model`] has one supervised thread
//! (`worker`) that runs its scheduler and its decode loop. The HTTP side checks a request completely, and computes its
//! cost, before it reaches that thread, and reads the answer from a mailbox. A request whose client has disconnected
//! ends within a step.
//!
//! There is no web framework: `routes` has one table, in which every endpoint names its access, and one file per
//! endpoint. This crate opens no outgoing connections.
#![forbid(unsafe_code)]

mod abilities;
mod about;
mod adapters;
mod admission;
mod answer_bytes;
mod answer_memory;
mod app;
mod auth;
mod base64;
mod body;
mod call;
mod chat_input;
mod connection;
mod cors;
mod defaults;
mod dialect;
mod dialects;
mod embedding;
mod encoding;
mod ending;
mod error;
mod failure;
mod fields;
mod fim;
mod fingerprint;
mod generate;
mod generic_tools;
mod grammar_cache;
mod grammars;
mod ids;
mod inference;
mod json;
mod json_form;
mod keep_alive;
mod labelled;
mod limits;
mod listen;
mod loading;
mod log;
mod logprobs;
mod mailbox;
mod media;
mod messages;
mod metrics;
mod model;
mod models;
mod moment;
mod older;
mod on_demand;
mod openapi;
mod operation;
mod options;
mod peers;
mod pieces;
mod preflight;
mod prompt;
mod published;
mod pulls;
mod rendering;
mod replicas;
mod replies;
mod request;
mod residency;
mod route;
mod router;
mod routes;
mod sampling;
mod sampling_fields;
mod schema;
mod seats;
mod served;
mod signals;
mod slot;
mod speech;
mod synonyms;
mod timings;
mod token_name;
mod tool_kinds;
mod tools;
mod traffic;
mod turns;
mod usage;
mod wire;
mod worker;
mod worker_options;

pub use abilities::Abilities;
pub use about::About;
pub use adapters::ServedAdapter;
pub use auth::ApiKeys;
pub use defaults::Defaults;
pub use failure::{Error, ErrorKind};
pub use fingerprint::Fingerprint;
pub use limits::Limits;
pub use listen::serve;
pub use log::LogFormat;
pub use model::{Model, ModelInfo};
pub use on_demand::{
    Change, ChangeError, Changed, Changer, Describer, Lister, Loader, NameFinder, OnDemand, Puller, Pulling,
};
pub use options::{ServerOptions, TellEnd, Waits};
pub use peers::Network;
pub use preflight::{MemoryPlan, Need, plan_memories, plan_memory};
pub use pulls::Abandoned;
pub use worker_options::WorkerOptions;

#[cfg(test)]
mod tests;
