//! Limits of the requests of clients, in one place.

use std::time::Duration;

/// Limits on connections and requests. Each is enforced before the limited memory is allocated or the work is done.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections. Beyond these, some further ones may request health and metrics; their other requests wait
    /// until a connection closes.
    pub connections: usize,
    /// Open connections of one address (of one network for IPv6); trusted proxies have no such limit.
    pub connections_per_peer: usize,
    /// Time for the request line and the headers, from their first byte; for the first request, from the connection.
    pub header_time: Duration,
    /// Time for which a connection may stay open between requests.
    pub idle_time: Duration,
    /// Time for which a write to a client may be blocked.
    pub write_stall: Duration,
    /// Time for which a client may send nothing of its body, and after which the body's rate is checked.
    pub body_stall: Duration,
    /// Minimum rate of a body after that time, in bytes per second; at least 1.
    pub body_rate: usize,
    /// Total time for a body.
    pub body_time: Duration,
    /// Time for which a request waits for memory for its model.
    pub room_wait: Duration,
    /// Bytes of the path with its query.
    pub path_bytes: usize,
    /// Bytes of the request line and all headers.
    pub head_bytes: usize,
    /// Number of headers.
    pub headers: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Nesting depth of a JSON document.
    pub json_depth: usize,
    /// Number of values in a JSON document.
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
    /// Prompts times choices of a request.
    pub texts: usize,
    /// Number of stop strings.
    pub stops: usize,
    /// Characters of a stop string.
    pub stop_chars: usize,
    /// Entries of a logit bias.
    pub logit_biases: usize,
    /// Alternatives per token in log probabilities.
    pub top_logprobs: usize,
    /// Log probabilities of prompt tokens in an answer, including alternatives.
    pub prompt_logprobs: usize,
    /// Bytes of memory of an answer.
    pub answer_bytes: usize,
    /// Bytes of the answers of all keys at a time; at least those of an answer.
    pub answers_bytes: usize,
    /// Bytes of the answers of one key at a time, on a server with keys; at least those of an answer.
    pub answers_bytes_per_key: usize,
    /// Number of tools.
    pub tools: usize,
    /// Bytes of all tools together, as JSON.
    pub tools_bytes: usize,
    /// Bytes of a schema as JSON, or characters of a grammar.
    pub schema_bytes: usize,
    /// Bytes of an uploaded file.
    pub file_bytes: usize,
    /// Number of stored files of one key.
    pub files: usize,
    /// Bytes of the stored files of one key.
    pub files_bytes: u64,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Unfinished batches of one key.
    pub batches: usize,
    /// Rows of a batch that are computed at a time.
    pub batch_rows_at_once: usize,
    /// Characters of names, such as those of a model or a user.
    pub name_chars: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            // Enough for a gateway as the only peer; one peer that uses them all leaves half to the others.
            connections_per_peer: 512,
            header_time: Duration::from_secs(10),
            // Longer than the minute or 90 seconds after which load balancers close idle connections themselves.
            idle_time: Duration::from_secs(120),
            write_stall: Duration::from_secs(30),
            body_stall: Duration::from_secs(15),
            // Slower than any usable connection.
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
            // OpenAI's maximum.
            choices: 128,
            texts: 512,
            stops: 16,
            stop_chars: 256,
            logit_biases: 1024,
            top_logprobs: 20,
            prompt_logprobs: 1 << 20,
            // Hidden states of 32,768 tokens with 512 values, or 500,000 tokens with five alternatives.
            answer_bytes: 128 << 20,
            answers_bytes: 512 << 20,
            answers_bytes_per_key: 256 << 20,
            tools: 128,
            tools_bytes: 256 << 10,
            schema_bytes: 64 << 10,
            // OpenAI's maximum sizes of a file and a batch.
            file_bytes: 512 << 20,
            files: 10_000,
            files_bytes: 16 << 30,
            batch_rows: 50_000,
            batches: 64,
            batch_rows_at_once: 16,
            name_chars: 512,
        }
    }
}
