//! OpenAI-compatible HTTP server for models.
//!
//! [`serve`] blocks until the process gets a signal to stop. Each engine of a [`Model`] has one supervised thread
//! (`worker`) that runs its scheduler and its decode loop. The HTTP side checks a request completely, and computes its
//! cost, before it reaches that thread, and reads the answer from a mailbox. A request whose client has disconnected
//! ends within a step.
//!
//! There is no web framework: `routes` has one table, in which every endpoint names its access, and one file per
//! endpoint. This crate opens no outgoing connections; traces are queued in an exporter (`leyden-otlp`), whose thread the
//! program starts.
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
mod batch_runner;
mod batches;
mod body;
mod calibrated;
mod call;
mod chat_input;
mod chat_output;
mod connection;
mod connection_limit;
mod cors;
mod decisions;
mod defaults;
mod dialect;
mod dialects;
mod embedding;
mod encoding;
mod error;
mod failure;
mod fair_semaphore;
mod fields;
mod file_store;
mod fim;
mod fingerprint;
mod generate;
mod grammar_cache;
mod grammars;
mod ids;
mod in_memory;
mod inference;
mod ip_network;
mod json;
mod json_form;
mod keep_alive;
mod labelled;
mod leases;
mod legacy_functions;
mod limits;
mod listen;
mod loading;
mod log;
mod logprobs;
mod mailbox;
mod media;
mod memory_plan;
mod messages;
mod metrics;
mod model;
mod model_entry;
mod models;
mod on_demand;
mod openapi;
mod operation;
mod options;
mod paging;
mod process;
mod prompt;
mod published;
mod pulls;
mod rendering;
mod replicas;
mod replies;
mod request;
mod request_head;
mod request_model;
mod residency;
mod result_digest;
mod route;
mod router;
mod routes;
mod sampling;
mod sampling_fields;
mod schema;
mod served;
mod service;
mod service_level;
mod signals;
mod speech;
mod stop_conditions;
mod streamed_json;
mod sync;
mod synonyms;
mod timestamp;
mod timings;
mod tls;
mod tls_session;
mod tls_stream;
mod token_name;
mod tool_kinds;
mod tools;
mod trace;
mod traffic;
mod trail;
mod truncation;
mod usage;
mod worker;
mod worker_options;

pub use abilities::Abilities;
pub use about::About;
pub use adapters::ServedAdapter;
pub use auth::ApiKeys;
pub use calibrated::Calibrated;
pub use defaults::Defaults;
pub use failure::{Error, ErrorKind};
pub use fingerprint::Fingerprint;
pub use in_memory::InMemory;
pub use ip_network::Network;
pub use leyden_engine::schedule::{Bound, Promise};
pub use leyden_tls::{ClientCertificates, Error as TlsError, ServerFiles, ServerTls};
pub use limits::Limits;
pub use listen::serve;
pub use log::LogFormat;
pub use memory_plan::{MemoryPlan, Need, plan_memories, plan_memory};
pub use model::{Model, ModelInfo};
pub use on_demand::{
    Change, ChangeError, Changed, Changer, Describer, Lister, Loader, NameFinder, OnDemand, Puller, Pulling,
};
pub use options::{ServerOptions, TellEnd, Waits};
pub use pulls::Abandoned;
pub use service::Loaded;
pub use speech::SpeechModel;
pub use trace::Traces;
pub use worker_options::WorkerOptions;

#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests;
