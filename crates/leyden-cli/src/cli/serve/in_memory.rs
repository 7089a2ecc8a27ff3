//! Server without a socket, in which other commands compute many requests at the same time.

use std::time::Duration;

use leyden::{KvType, LoadOptions, Model, SamplingParams};
use leyden_kernels::topology::Topology;
use leyden_server::{InMemory, LogFormat, ServerOptions, plan_memories};

use super::calibration::CalibrationSettings;
use super::prepare::{self, Common};
use super::settings::Settings;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;

/// Maximum number of tokens in a step.
const STEP_TOKENS: usize = 512;
/// Delay that prefill may add between two tokens of other requests: nobody waits for single tokens.
const PROMPT_STALL: Duration = Duration::from_secs(60);

/// Options of a server for throughput.
#[derive(Debug, Clone)]
pub(in crate::cli) struct InMemoryOptions {
    /// Maximum number of running requests; as many may wait.
    pub(in crate::cli) parallel: usize,
    /// Context in tokens; by default the model's.
    pub(in crate::cli) context: Option<usize>,
    pub(in crate::cli) kv_type: KvType,
    /// Sampling of requests that say nothing else.
    pub(in crate::cli) sampling: SamplingParams,
    /// Maximum time of a request.
    pub(in crate::cli) request_time: Option<Duration>,
}

/// Starts a server of one model with the name `name`.
pub(in crate::cli) fn start(
    model: &Model,
    name: &str,
    options: InMemoryOptions,
    notes: Notes,
) -> Result<InMemory, Failure> {
    let queue = 2 * options.parallel;
    let common = Common {
        threads: None,
        arithmetic: Arithmetic::default(),
        options: LoadOptions::new(),
        queue,
        queue_per_key: queue,
        prompt_stall: PROMPT_STALL,
        notes,
        evidence: None,
    };
    let settings = Settings {
        aliases: Vec::new(),
        context: options.context,
        parallel: options.parallel,
        kv_tokens: None,
        state_cache: None,
        step_tokens: STEP_TOKENS.max(options.parallel),
        kv_type: options.kv_type,
        pooling: None,
        promise: None,
        special_in_content: false,
        bare_calls: true,
        // With many rows in a step there is nothing to gain.
        speculate: false,
        draft: None,
        sampling: options.sampling,
        idle: None,
        preload: false,
        lora: Vec::new(),
        calibration: CalibrationSettings::default(),
    };
    let need = prepare::need(&settings, model, name)?;
    let needs = vec![need; model.replicas().len()];
    let usable = Topology::detect().memory.usable_bytes();
    let plans = plan_memories(&needs, usable).map_err(|(_, what)| Failure::new(format!("{name}: {what}")))?;
    let ready =
        prepare::ready(&common, &settings, model, name.to_owned(), &plans[0]).map_err(Failure::new)?;
    let mut server = ServerOptions { log: LogFormat::Off, ..ServerOptions::default() };
    if let Some(time) = options.request_time {
        server.request_time = time;
    }
    Ok(InMemory::start(vec![ready], server)?)
}
