//! The engine: a model, a paged KV cache, open sequences, and the step that advances them.

use crate::error::{Error, ErrorKind};
use crate::tables::{BlockTables, Sequence, SequenceId};
use crate::windows::Windows;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{BLOCK_TOKENS, KvCache, KvType};
use leyden_models::{ActivationSums, AdapterSet, Batch, Network, Span, Workspace};
use std::ops::Range;
use std::sync::Arc;

/// Sizes of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Storage type of keys and values.
    pub kv_type: KvType,
    /// Maximum length of a sequence in tokens.
    pub context: usize,
    /// Number of tokens that all sequences together can hold; rounded up to whole blocks.
    pub cache_tokens: usize,
    /// Maximum of new tokens in one step.
    pub step_tokens: usize,
}

/// Requested results of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None: the entry is a part of a prompt.
    None,
    /// Logits after the last token.
    Last,
    /// Logits after every token from this index of the entry on.
    From(usize),
    /// Hidden states of the tokens from this index of the entry on; no logits.
    States(usize),
    /// Hidden states of a text that this entry has whole; no logits.
    Whole(WholeText),
}

/// Options of a text that is computed in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeText {
    /// Index of the first token of a pair's second text, for models with token types.
    pub second: Option<usize>,
    /// True if only the first token's hidden state is requested.
    pub first_only: bool,
}

impl Outputs {
    /// Returns the indices of the tokens whose hidden states are requested, in an entry of so many.
    pub(crate) fn states(self, tokens: usize) -> Range<usize> {
        match self {
            Outputs::None | Outputs::Last | Outputs::From(_) => tokens..tokens,
            Outputs::States(from) => from.min(tokens)..tokens,
            Outputs::Whole(WholeText { first_only: true, .. }) => 0..tokens.min(1),
            Outputs::Whole(_) => 0..tokens,
        }
    }
}

/// New tokens of one sequence.
#[derive(Clone, Debug)]
pub struct StepEntry {
    /// Sequence of the entry.
    pub sequence: SequenceId,
    /// Next tokens of the sequence; at least one.
    pub tokens: Vec<u32>,
    /// Requested results.
    pub outputs: Outputs,
}

/// Input of one step.
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Entries of different sequences.
    pub entries: Vec<StepEntry>,
}

/// Row of logits.
#[derive(Clone, Copy, Debug)]
pub struct OutputRow<'a> {
    /// Sequence of the token.
    pub sequence: SequenceId,
    /// Position of the token before the predicted one.
    pub position: usize,
    /// Logits, one per token of the vocabulary.
    pub logits: &'a [f32],
    /// Hidden state after the final norm, from which the logits were computed.
    pub state: &'a [f32],
}

/// Hidden state of one token.
#[derive(Clone, Copy, Debug)]
pub struct StateRow<'a> {
    /// Sequence of the token.
    pub sequence: SequenceId,
    /// Position of the token.
    pub position: usize,
    /// Hidden state after the final norm.
    pub state: &'a [f32],
}

/// Logits and hidden states of a step, in the order of its entries and their tokens.
#[derive(Debug)]
pub struct StepOutput<'a> {
    rows: Vec<(SequenceId, usize)>,
    logits: &'a [f32],
    vocabulary: usize,
    states: &'a [f32],
    width: usize,
    state_rows: Vec<(SequenceId, usize)>,
    wanted_states: &'a [f32],
}

impl StepOutput<'_> {
    /// Returns the hidden states of entries with [`Outputs::States`] or [`Outputs::Whole`].
    pub fn states(&self) -> impl Iterator<Item = StateRow<'_>> {
        let rows = self.state_rows.iter().zip(self.wanted_states.chunks_exact(self.width));
        rows.map(|(&(sequence, position), state)| StateRow { sequence, position, state })
    }

    /// Returns the rows of logits.
    pub fn rows(&self) -> impl Iterator<Item = OutputRow<'_>> {
        self.rows
            .iter()
            .zip(self.logits.chunks_exact(self.vocabulary))
            .zip(self.states.chunks_exact(self.width))
            .map(|((&(sequence, position), logits), state)| OutputRow { sequence, position, logits, state })
    }
}

/// Model with a KV cache for sequences.
#[derive(Debug)]
pub struct Engine {
    model: Arc<dyn Network>,
    cpu: Arc<Cpu>,
    options: EngineOptions,
    cache: KvCache,
    tables: BlockTables,
    work: Workspace,
}

impl Engine {
    /// Creates an engine without sequences.
    ///
    /// # Errors
    /// There is not enough memory, or the storage type does not fit the model.
    pub fn new(model: Arc<dyn Network>, cpu: Arc<Cpu>, options: EngineOptions) -> Result<Engine, Error> {
        Engine::with_windows(model, cpu, options, usize::MAX)
    }

    /// Creates an engine for at most so many sequences at a time. Layers with a sliding window then keep only the end
    /// of each text; their cache is smaller by the blocks before the windows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_windows(
        model: Arc<dyn Network>,
        cpu: Arc<Cpu>,
        options: EngineOptions,
        sequences: usize,
    ) -> Result<Engine, Error> {
        let blocks = options.cache_tokens.div_ceil(BLOCK_TOKENS);
        let count = u32::try_from(blocks).map_err(|_| ErrorKind::CacheFull)?;
        let shape = model.kv_shape(options.kv_type)?;
        let windowed = window_blocks(model.as_ref(), &options, sequences);
        let tables = BlockTables::new(count);
        let tables = if shape.state_bytes() > 0 { tables.with_states(0) } else { tables };
        let (cache, tables) = match windowed {
            None => (KvCache::new(shape, blocks)?, tables),
            Some((window, slots)) => {
                let cache = KvCache::with_windows(shape, blocks, slots as usize)?;
                (cache, tables.with_windows(window, slots))
            }
        };
        Ok(Engine { model, cpu, options, cache, tables, work: Workspace::default() })
    }

    /// Sets the budget in bytes for checkpoints of recurrent states. Without checkpoints, sequences of recurrent models
    /// share no prefixes and can be truncated only to nothing. Memory is allocated as checkpoints are made. Other
    /// models ignore the budget.
    #[must_use]
    pub fn with_checkpoints(mut self, n_bytes: usize) -> Engine {
        if let Some(checkpoints) = n_bytes.checked_div(self.cache.shape().state_bytes()) {
            self.tables = self.tables.with_states(checkpoints);
        }
        self
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &dyn Network {
        self.model.as_ref()
    }

    /// Returns the processor that the engine runs on.
    #[must_use]
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// Returns a shared handle of the processor.
    #[must_use]
    pub fn shared_cpu(&self) -> Arc<Cpu> {
        Arc::clone(&self.cpu)
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Returns the block tables of all sequences.
    #[must_use]
    pub fn tables(&self) -> &BlockTables {
        &self.tables
    }

    /// Returns the block tables for changes; a scheduler opens and closes sequences here.
    pub fn tables_mut(&mut self) -> &mut BlockTables {
        &mut self.tables
    }

    /// Opens an empty sequence that shares nothing.
    pub fn open(&mut self) -> SequenceId {
        self.tables.open()
    }

    /// Opens an empty sequence that shares nothing and is computed with adapters.
    pub fn open_adapted(&mut self, adapters: AdapterSet) -> SequenceId {
        self.tables.open_adapted(adapters)
    }

    /// Closes a sequence and frees its blocks. Closing one that is not open does nothing.
    pub fn close(&mut self, id: SequenceId) {
        self.tables.close(id);
    }

    /// Returns the number of tokens in a sequence.
    ///
    /// # Errors
    /// The sequence is not open.
    pub fn tokens(&self, id: SequenceId) -> Result<usize, Error> {
        self.tables.tokens(id)
    }

    /// Truncates a sequence to its first `tokens` tokens. A number above its length changes nothing.
    ///
    /// # Errors
    /// As [`BlockTables::truncate`].
    pub fn truncate(&mut self, id: SequenceId, tokens: usize) -> Result<(), Error> {
        self.tables.truncate(id, tokens)
    }

    /// Returns the number of tokens that can still be stored in blocks that no sequence holds.
    #[must_use]
    pub fn free_tokens(&self) -> usize {
        self.tables.available_blocks() * BLOCK_TOKENS
    }

    /// Starts summing up the squares of the inputs of every matrix product.
    pub fn record_activations(&mut self) {
        self.work.record(ActivationSums::default());
    }

    /// Starts summing like [`record_activations`](Self::record_activations), and keeps the inputs of the matrices with
    /// these names.
    pub fn record_inputs(&mut self, names: impl IntoIterator<Item = String>) {
        self.work.record(ActivationSums::keeping(names));
    }

    /// Stops it, and returns the sums.
    pub fn recorded_activations(&mut self) -> ActivationSums {
        self.work.recorded()
    }

    /// Runs one step. A token's logits depend neither on the other entries of the plan nor on how a prompt was divided
    /// into steps.
    ///
    /// # Errors
    /// The plan is invalid (see [`ErrorKind`]) and nothing has changed, or the model failed and the sequences are as
    /// long as before.
    pub fn step(&mut self, plan: &StepPlan) -> Result<StepOutput<'_>, Error> {
        self.check(plan)?;
        self.reserve(plan)?;
        let new: Vec<(SequenceId, usize)> =
            plan.entries.iter().map(|e| (e.sequence, e.tokens.len())).collect();
        let placed = self.tables.place(&new).ok_or(ErrorKind::CacheFull)?;
        placed.into_iter().for_each(|(block, slot)| self.cache.place(block, slot));
        let checkpoints = self.tables.checkpoints(&new);
        self.bring_states()?;
        let mut tokens = Vec::new();
        let mut outputs = Vec::new();
        let mut rows = Vec::new();
        let (mut states, mut state_rows) = (Vec::new(), Vec::new());
        let mut spans = Vec::new();
        for (e, checkpoints) in plan.entries.iter().zip(&checkpoints) {
            let s = self.tables.get(e.sequence)?;
            let of_states = e.outputs.states(e.tokens.len());
            states.extend(of_states.clone().map(|i| tokens.len() + i));
            state_rows.extend(of_states.map(|i| (e.sequence, s.tokens + i)));
            let mut second = None;
            let wanted = match e.outputs {
                Outputs::Whole(text) => {
                    second = text.second;
                    e.tokens.len()
                }
                Outputs::None | Outputs::States(_) => e.tokens.len(),
                Outputs::Last => e.tokens.len() - 1,
                Outputs::From(first) => first,
            };
            for i in wanted..e.tokens.len() {
                outputs.push(tokens.len() + i);
                rows.push((e.sequence, s.tokens + i));
            }
            tokens.extend_from_slice(&e.tokens);
            let state = s.state.slot as usize;
            let (tokens, position, blocks, adapters) = (e.tokens.len(), s.tokens, &s.blocks[..], &s.adapters);
            spans.push(Span { tokens, position, blocks, state, checkpoints, second, adapters });
        }
        let batch = Batch {
            tokens: &tokens,
            spans: &spans,
            outputs: &outputs,
            states: &states,
            context: self.options.context,
        };
        let cpu = self.cpu.for_tokens(tokens.len());
        let forward = self.model.forward(cpu, &batch, &mut self.cache, &mut self.work);
        self.tables.end_step(&new, forward.is_ok());
        forward?;
        for e in &plan.entries {
            self.tables.advance(e.sequence, e.tokens.len());
        }
        let (logits, states) = (self.work.logits(), self.work.states());
        let wanted_states = self.work.wanted_states();
        let (vocabulary, width) = (self.model.vocabulary(), self.model.config().width);
        Ok(StepOutput { rows, logits, vocabulary, states, width, state_rows, wanted_states })
    }

    /// Reserves memory for the recurrent states of a step, and copies checkpoints to the sequences that begin with
    /// them.
    fn bring_states(&mut self) -> Result<(), Error> {
        if let Err(error) = self.cache.reserve_states(self.tables.state_slots()) {
            // Nothing was computed: the states are unchanged, and the checkpoints were not made.
            self.tables.end_step(&[], false);
            return Err(error.into());
        }
        for (from, to) in self.tables.take_restores() {
            for layer in 0..self.cache.shape().layers.len() {
                let (states, n) = self.cache.states(layer);
                let (from, to) = (from as usize * n, to as usize * n);
                states.copy_within(from..from + n, to);
            }
        }
        Ok(())
    }

    fn check(&self, plan: &StepPlan) -> Result<(), Error> {
        let (generates, whole) = (self.model.config().generates(), self.model.config().needs_whole_texts());
        let mut total = 0_usize;
        for (i, e) in plan.entries.iter().enumerate() {
            let s = self.tables.get(e.sequence)?;
            if plan.entries[..i].iter().any(|o| o.sequence == e.sequence) {
                return Err(ErrorKind::DuplicateSequence.into());
            }
            if !self.model.takes(&s.adapters) {
                return Err(ErrorKind::ForeignAdapter.into());
            }
            if !self.tables.is_current(e.sequence) {
                return Err(ErrorKind::StateLost.into());
            }
            if e.tokens.is_empty() {
                return Err(ErrorKind::Empty.into());
            }
            if !generates && matches!(e.outputs, Outputs::Last | Outputs::From(_)) {
                return Err(ErrorKind::NoLogits.into());
            }
            if (whole || matches!(e.outputs, Outputs::Whole(_))) && s.tokens > 0 {
                return Err(ErrorKind::TextInParts.into());
            }
            let vocabulary = self.model.vocabulary();
            if let Some(&id) = e.tokens.iter().find(|t| **t as usize >= vocabulary) {
                return Err(ErrorKind::Token { id, vocabulary }.into());
            }
            let tokens = s.tokens + e.tokens.len();
            if tokens > self.options.context {
                return Err(ErrorKind::ContextFull { tokens, context: self.options.context }.into());
            }
            total += e.tokens.len();
        }
        if total == 0 {
            return Err(ErrorKind::Empty.into());
        }
        if total > self.options.step_tokens {
            return Err(ErrorKind::StepTooLarge { tokens: total, limit: self.options.step_tokens }.into());
        }
        Ok(())
    }

    /// Reserves the blocks for the new tokens of every sequence in the plan, or none of them.
    fn reserve(&mut self, plan: &StepPlan) -> Result<(), Error> {
        let missing =
            |s: &Sequence, new: usize| (s.tokens + new).div_ceil(BLOCK_TOKENS).saturating_sub(s.blocks.len());
        let mut needed = 0;
        for e in &plan.entries {
            needed += missing(self.tables.get(e.sequence)?, e.tokens.len());
        }
        if needed > self.tables.available_blocks() {
            return Err(ErrorKind::CacheFull.into());
        }
        for e in &plan.entries {
            let tokens = self.tables.tokens(e.sequence)? + e.tokens.len();
            if !self.tables.reserve(e.sequence, tokens) {
                return Err(ErrorKind::CacheFull.into());
            }
        }
        Ok(())
    }
}

/// Returns the sliding window of a model's layers and the number of blocks that these layers need for so many sequences
/// at a time, if that is less than all blocks.
fn window_blocks(model: &dyn Network, options: &EngineOptions, sequences: usize) -> Option<(usize, u32)> {
    let window = model.config().window()?;
    let slots = Windows::slots_for(window, sequences, options.step_tokens);
    let blocks = options.cache_tokens.div_ceil(BLOCK_TOKENS);
    u32::try_from(slots).ok().filter(|_| slots < blocks).map(|slots| (window, slots))
}
