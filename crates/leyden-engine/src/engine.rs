//! The engine: a model, a paged cache, open sequences, and the step that advances them.

use crate::error::{Error, ErrorKind};
use crate::tables::{BlockTables, Sequence, SequenceId};
use crate::windows::Windows;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{BLOCK_TOKENS, KvCache, KvType};
use leyden_models::{ActivationSums, AdapterSet, Batch, Network, Span, Workspace};
use std::ops::Range;
use std::sync::Arc;

/// What an engine is made for.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// How keys and values are stored.
    pub kv_type: KvType,
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Tokens that all sequences together can hold; rounded up to whole blocks.
    pub cache_tokens: usize,
    /// The most new tokens in one step.
    pub step_tokens: usize,
}

/// Which logits of an entry are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None: a part of a prompt.
    None,
    /// Those after its last token.
    Last,
    /// Those after every token from this one of the entry's on.
    From(usize),
    /// None, but the states of the tokens from this one of the entry's on.
    States(usize),
    /// None, but states of a text that this entry has whole.
    Whole(WholeText),
}

/// A text that is computed in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WholeText {
    /// Where the second text of a pair begins, if it is one whose texts are of different types.
    pub second: Option<usize>,
    /// Whether the state of the first token is all that is wanted, rather than those of all.
    pub first_only: bool,
}

impl Outputs {
    /// Which of an entry's tokens' states are wanted, of so many.
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
    /// The sequence.
    pub sequence: SequenceId,
    /// Its next tokens; at least one.
    pub tokens: Vec<u32>,
    /// Which logits are wanted.
    pub outputs: Outputs,
}

/// What to run in one step.
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Entries of different sequences.
    pub entries: Vec<StepEntry>,
}

/// One row of logits.
#[derive(Clone, Copy, Debug)]
pub struct OutputRow<'a> {
    /// Whose it is.
    pub sequence: SequenceId,
    /// Position of the token it follows.
    pub position: usize,
    /// One value per token of the vocabulary.
    pub logits: &'a [f32],
    /// The state of the last layer behind its norm, from which the logits were computed.
    pub state: &'a [f32],
}

/// The state of one token.
#[derive(Clone, Copy, Debug)]
pub struct StateRow<'a> {
    /// Whose it is.
    pub sequence: SequenceId,
    /// Position of the token.
    pub position: usize,
    /// The state of the last layer behind its norm.
    pub state: &'a [f32],
}

/// The logits and states of a step, in the order of its entries and their tokens.
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
    /// The states of entries that wanted [`Outputs::States`] or [`Outputs::Whole`].
    pub fn states(&self) -> impl Iterator<Item = StateRow<'_>> {
        let rows = self.state_rows.iter().zip(self.wanted_states.chunks_exact(self.width));
        rows.map(|(&(sequence, position), state)| StateRow { sequence, position, state })
    }

    /// The rows of logits.
    pub fn rows(&self) -> impl Iterator<Item = OutputRow<'_>> {
        self.rows
            .iter()
            .zip(self.logits.chunks_exact(self.vocabulary))
            .zip(self.states.chunks_exact(self.width))
            .map(|((&(sequence, position), logits), state)| OutputRow { sequence, position, logits, state })
    }
}

/// A model with room for sequences.
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
    /// An engine without sequences.
    ///
    /// # Errors
    /// No memory, or the storage type does not fit the model.
    pub fn new(model: Arc<dyn Network>, cpu: Arc<Cpu>, options: EngineOptions) -> Result<Engine, Error> {
        Engine::with_windows(model, cpu, options, usize::MAX)
    }

    /// The same for at most so many sequences at a time. Layers that attend to a window then keep no more of a text than its
    /// end: for what is behind the window of every sequence others get the room.
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

    /// The same with a budget in bytes for checkpoints of states in recurrent layers, without which their sequences share no
    /// beginnings and go back no further than to nothing. Memory is taken as checkpoints are made. Other models need none.
    #[must_use]
    pub fn with_checkpoints(mut self, n_bytes: usize) -> Engine {
        if let Some(checkpoints) = n_bytes.checked_div(self.cache.shape().state_bytes()) {
            self.tables = self.tables.with_states(checkpoints);
        }
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &dyn Network {
        self.model.as_ref()
    }

    /// The processor it runs on.
    #[must_use]
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// The same, to be shared.
    #[must_use]
    pub fn shared_cpu(&self) -> Arc<Cpu> {
        Arc::clone(&self.cpu)
    }

    /// What the engine was made for.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Which blocks hold which sequence's tokens.
    #[must_use]
    pub fn tables(&self) -> &BlockTables {
        &self.tables
    }

    /// The same, to be changed; a scheduler opens and closes sequences here.
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

    /// Tokens in a sequence.
    ///
    /// # Errors
    /// The sequence is not open.
    pub fn tokens(&self, id: SequenceId) -> Result<usize, Error> {
        self.tables.tokens(id)
    }

    /// Forgets all but the first `tokens` tokens of a sequence. A longer number changes nothing.
    ///
    /// # Errors
    /// As [`BlockTables::truncate`].
    pub fn truncate(&mut self, id: SequenceId, tokens: usize) -> Result<(), Error> {
        self.tables.truncate(id, tokens)
    }

    /// Tokens that can still be stored in blocks that no sequence holds.
    #[must_use]
    pub fn free_tokens(&self) -> usize {
        self.tables.available_blocks() * BLOCK_TOKENS
    }

    /// From now on, sums up the squares of what every matrix is multiplied with.
    pub fn record_activations(&mut self) {
        self.work.record(ActivationSums::default());
    }

    /// Ends that; what was summed up.
    pub fn recorded_activations(&mut self) -> ActivationSums {
        self.work.recorded()
    }

    /// Runs one step. A token's logits do not depend on what else the plan holds, nor on how a prompt was cut
    /// into steps.
    ///
    /// # Errors
    /// The plan is impossible (see [`ErrorKind`]) and nothing has changed, or the model failed and the sequences
    /// are as long as before.
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

    /// Makes room for the states of a step, and copies checkpoints to the sequences that begin with them.
    fn bring_states(&mut self) -> Result<(), Error> {
        if let Err(error) = self.cache.reserve_states(self.tables.state_slots()) {
            // Nothing was computed: states are as before, and only the checkpoints are not made.
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

    /// Gives every sequence of the plan the blocks its new tokens need, or none of them.
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

/// The window of a model's layers that attend to one, and the blocks that they need for so many sequences at a time, if
/// that is less than all.
fn window_blocks(model: &dyn Network, options: &EngineOptions, sequences: usize) -> Option<(usize, u32)> {
    let window = model.config().window()?;
    let slots = Windows::slots_for(window, sequences, options.step_tokens);
    let blocks = options.cache_tokens.div_ceil(BLOCK_TOKENS);
    u32::try_from(slots).ok().filter(|_| slots < blocks).map(|slots| (window, slots))
}
