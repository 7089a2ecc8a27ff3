//! [`Trail`]: facts of a request for its record in the audit log.
//!
//! Every computation of a request goes through [`submit`](crate::generate::submit), which notes model and prompts here;
//! every response goes through the router, which has the record written before the response is sent. A request that
//! computes nothing is not recorded.

use leyden_audit::{AuditLog, Caller, Content, Digest, Error, ModelFacts, Phase, Record, hex};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum bytes of an output that is kept as content.
const MAX_OUTPUT: usize = 16 << 20;

/// Facts of a request for its record in the audit log.
pub(crate) struct Trail {
    log: Arc<AuditLog>,
    state: Mutex<State>,
}

impl std::fmt::Debug for Trail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trail").field("log", &self.log.id()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    record: Record,
    input: Option<String>,
    prompts: Digest,
    /// Digests of the results, by computation.
    results: Vec<Option<String>>,
    sent: Sha256,
    /// Output, as long as it is short enough to be kept.
    output: Option<Vec<u8>>,
    written: Written,
}

/// Records of the request that were given to the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Written {
    #[default]
    Nothing,
    Start,
    All,
}

/// Facts that the request's line in the log has, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'a> {
    pub(crate) id: &'a str,
    /// Id that the client gave.
    pub(crate) client_id: Option<&'a str>,
    pub(crate) route: &'static str,
    pub(crate) key: Option<&'a str>,
    pub(crate) status: Option<u16>,
    pub(crate) code: Option<&'static str>,
    pub(crate) prompt_tokens: Option<usize>,
    pub(crate) completion_tokens: Option<usize>,
    pub(crate) finish: Option<&'static str>,
}

impl Trail {
    pub(crate) fn new(log: Arc<AuditLog>) -> Trail {
        Trail { log, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the request.
    pub(crate) fn begin(&self, query: &str, body: &[u8]) {
        let input = self.log.keeps_content().then(|| String::from_utf8_lossy(body).into_owned());
        let mut state = self.state();
        state.record.input_sha256 = Some(leyden_audit::sha256(body));
        if !query.is_empty() {
            state.record.other.insert("query".to_owned(), query.into());
        }
        state.output = input.is_some().then(Vec::new);
        state.input = input;
    }

    /// Notes a computation. Returns its index, for its result.
    pub(crate) fn computes(&self, model: ModelFacts, prompts: &[Arc<Vec<u32>>]) -> usize {
        let mut state = self.state();
        state.record.model = Some(model);
        for prompt in prompts {
            state.prompts.ids(prompt);
        }
        state.results.push(None);
        state.results.len() - 1
    }

    /// Notes settings and seed of a generated text.
    pub(crate) fn sampled(&self, settings: Map<String, Value>, seed: u64) {
        let mut state = self.state();
        (state.record.settings, state.record.seed) = (settings, Some(seed));
    }

    /// Notes the digest of the result of a computation.
    pub(crate) fn result(&self, index: usize, digest: String) {
        if let Some(result) = self.state().results.get_mut(index) {
            *result = Some(digest);
        }
    }

    /// Notes bytes of the response.
    pub(crate) fn sent(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.sent.update(bytes);
        if let Some(output) = &mut state.output {
            if output.len() + bytes.len() > MAX_OUTPUT {
                state.output = None;
            } else {
                output.extend_from_slice(bytes);
            }
        }
    }

    /// Returns true if the request computed something.
    pub(crate) fn has_computed(&self) -> bool {
        !self.state().results.is_empty()
    }

    /// Returns the record that is still to be written, of a request that computed something.
    pub(crate) fn unfinished(&self) -> Option<Phase> {
        let state = self.state();
        match state.written {
            Written::Nothing if !state.results.is_empty() => Some(Phase::Whole),
            Written::Start => Some(Phase::End),
            Written::Nothing | Written::All => None,
        }
    }

    /// Writes the record of a phase, and calls `done` on the log's thread.
    pub(crate) fn write(
        &self,
        phase: Phase,
        outcome: &Outcome<'_>,
        done: impl FnOnce(Result<u64, Error>) + Send + 'static,
    ) {
        let record = self.record(phase, outcome);
        self.log.submit(&record, done);
    }

    fn record(&self, phase: Phase, outcome: &Outcome<'_>) -> Record {
        let mut state = self.state();
        state.written = if phase == Phase::Start { Written::Start } else { Written::All };
        let number = |n: Option<usize>| n.map(|n| n as u64);
        let key = outcome.key.map(str::to_owned);
        let mut record = Record {
            id: outcome.id.to_owned(),
            phase,
            task: outcome.route.to_owned(),
            caller: key.map(|key| Caller { key: Some(key), name: None }),
            prompt_tokens: number(outcome.prompt_tokens),
            prompt_sha256: Some(state.prompts.finish()),
            status: outcome.status,
            ..state.record.clone()
        };
        if let Some(given) = outcome.client_id {
            record.other.insert("client_id".to_owned(), given.into());
        }
        let mut content = Content { input: None, output: None };
        if phase != Phase::End {
            content.input.clone_from(&state.input);
        }
        if phase != Phase::Start {
            record.completion_tokens = number(outcome.completion_tokens);
            record.finish = outcome.finish.map(str::to_owned);
            record.error = outcome.code.map(str::to_owned);
            record.output_sha256 = Some(hex(&state.sent.clone().finalize()));
            record.result_sha256 = whole(&state.results);
            content.output = state.output.take().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        }
        record.content = self.log.keeps_content().then_some(content);
        record
    }
}

/// Returns the digest of all results; `None` if one is missing.
fn whole(results: &[Option<String>]) -> Option<String> {
    let mut digest = Digest::new();
    for result in results {
        digest.text(result.as_ref()?);
    }
    Some(digest.finish())
}
