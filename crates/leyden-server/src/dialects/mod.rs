//! The APIs of other servers: a file or a folder each, with all their endpoints, which are rows in the table of routes.

pub(crate) mod answer_store;
pub(crate) mod anthropic;
mod anthropic_blocks;
pub(crate) mod cohere;
pub(crate) mod llama_embedding;
pub(crate) mod llama_infill;
pub(crate) mod llama_lora;
pub(crate) mod llama_server;
pub(crate) mod ollama;
pub(crate) mod ollama_embed;
pub(crate) mod ollama_manage;
pub(crate) mod ollama_models;
pub(crate) mod ollama_pull;
pub(crate) mod open_inference;
pub(crate) mod openai;
pub(crate) mod responses;
mod stops;
pub(crate) mod tei;
pub(crate) mod vllm;
