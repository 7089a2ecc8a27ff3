//! What a client may send, in one place.

use std::time::Duration;

/// Limits on connections and requests. Each is enforced before what it bounds is allocated or computed.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; beyond these some may ask for health and metrics, and wait with other requests until one closes.
    pub connections: usize,
    /// Open connections of one address, the network of IPv6; of proxies that are trusted there may be any number.
    pub connections_per_peer: usize,
    /// Time for the request line and the headers, from their first byte; for the first request, from the connection.
    pub header_time: Duration,
    /// How long a connection may stay open between requests.
    pub idle_time: Duration,
    /// How long a client may refuse to take bytes.
    pub write_stall: Duration,
    /// How long it may send nothing while its body is due, and how long it may be slow.
    pub body_stall: Duration,
    /// Bytes that a body must have brought, after that time, for each further second; at least 1.
    pub body_rate: usize,
    /// Time for a body in all.
    pub body_time: Duration,
    /// How long a request waits for room for its model.
    pub room_wait: Duration,
    /// Bytes of the path with its query.
    pub path_bytes: usize,
    /// Bytes of the request line and all headers.
    pub head_bytes: usize,
    /// Headers.
    pub headers: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// How deep a JSON document may nest.
    pub json_depth: usize,
    /// Values in a JSON document.
    pub json_values: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Parts of the content of a message.
    pub content_parts: usize,
    /// Prompts of a request for completions.
    pub prompts: usize,
    /// Inputs of a request for embeddings.
    pub embedding_inputs: usize,
    /// Choices per prompt.
    pub choices: usize,
    /// Texts of a request: prompts times choices.
    pub texts: usize,
    /// Stop texts.
    pub stops: usize,
    /// Characters of a stop text.
    pub stop_chars: usize,
    /// Biased tokens.
    pub logit_biases: usize,
    /// Alternatives per token.
    pub top_logprobs: usize,
    /// Log probabilities of prompts' tokens in an answer, alternatives counted.
    pub prompt_logprobs: usize,
    /// Bytes of memory that an answer may take.
    pub answer_bytes: usize,
    /// Bytes that the answers of all keys may take at a time; at least those of an answer.
    pub answers_bytes: usize,
    /// Bytes that the answers of one key may take at a time, of a server with keys; at least those of an answer.
    pub answers_bytes_per_key: usize,
    /// Tools.
    pub tools: usize,
    /// Bytes of all tools together, as JSON.
    pub tools_bytes: usize,
    /// Bytes of a schema as JSON, characters of a grammar.
    pub schema_bytes: usize,
    /// Characters of texts that only name something: a model, a user.
    pub name_chars: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            // One peer alone, a gateway, gets on with it; and one that is rude leaves half to the others.
            connections_per_peer: 512,
            header_time: Duration::from_secs(10),
            // Balancers that keep connections for a minute or 90 seconds close them first.
            idle_time: Duration::from_secs(120),
            write_stall: Duration::from_secs(30),
            body_stall: Duration::from_secs(15),
            // Slower than any line on which somebody would wait for an answer.
            body_rate: 1 << 10,
            body_time: Duration::from_secs(300),
            room_wait: Duration::from_secs(30),
            path_bytes: 8 << 10,
            head_bytes: 24 << 10,
            headers: 64,
            body_bytes: 8 << 20,
            json_depth: 64,
            json_values: 200_000,
            messages: 1024,
            content_parts: 256,
            prompts: 64,
            embedding_inputs: 2048,
            // OpenAI's.
            choices: 128,
            texts: 512,
            stops: 16,
            stop_chars: 256,
            logit_biases: 1024,
            top_logprobs: 20,
            prompt_logprobs: 1 << 20,
            // The states of 32,768 tokens of 512 numbers, or 500,000 tokens with five alternatives.
            answer_bytes: 128 << 20,
            answers_bytes: 512 << 20,
            answers_bytes_per_key: 256 << 20,
            tools: 128,
            tools_bytes: 256 << 10,
            schema_bytes: 64 << 10,
            name_chars: 512,
        }
    }
}
