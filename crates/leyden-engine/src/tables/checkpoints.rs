//! Checkpoints of recurrent states in the block tables.

use super::{BlockTables, SequenceId};
use crate::states::States;
use leyden_models::StateCheckpoint;

impl BlockTables {
    /// Returns whether sequences can share computed prefixes.
    #[must_use]
    pub fn shares_beginnings(&self) -> bool {
        self.states.as_ref().is_none_or(States::reuses)
    }

    /// Returns the number of checkpoints of recurrent states.
    #[must_use]
    pub fn state_checkpoints(&self) -> usize {
        self.states.as_ref().map_or(0, States::kept)
    }

    /// Sets the positions of checkpoints of a sequence's recurrent state, for a prompt of `prompt` tokens whose first
    /// `shared` tokens another text has too. Does nothing for models without recurrent layers. A sequence opened with a
    /// [`Scope`](crate::Scope) has these positions already.
    pub fn plan_checkpoints(&mut self, id: SequenceId, prompt: usize, shared: usize) {
        if let (Some(states), Some(s)) = (&self.states, self.sequences.get_mut(&id)) {
            states.plan(&mut s.state, s.tokens, prompt, shared);
        }
    }

    /// Adds a checkpoint position at the last block border of a sequence's first `tokens` tokens.
    pub fn add_checkpoint(&mut self, id: SequenceId, tokens: usize) {
        self.sequences.get_mut(&id).into_iter().for_each(|s| States::mark(&mut s.state, tokens, true));
    }

    /// Returns the checkpoints to be made in a step, for each of the sequences with its number of new tokens.
    pub(crate) fn checkpoints(&mut self, new: &[(SequenceId, usize)]) -> Vec<Vec<StateCheckpoint>> {
        let of = |(id, new): &(SequenceId, usize)| {
            let (Some(states), Some(s)) = (&mut self.states, self.sequences.get_mut(id)) else {
                return Vec::new();
            };
            let owner = s.scope.as_ref().map_or("", |scope| &scope.owner);
            states.advance(&mut s.state, owner, &s.blocks, (s.tokens, s.tokens + new))
        };
        new.iter().map(of).collect()
    }

    /// Returns the number of state slots that the cache must have.
    pub(crate) fn state_slots(&self) -> usize {
        self.states.as_ref().map_or(0, States::slots)
    }

    /// Takes the copies of states (from slot, to slot) to be made before the next step, in order.
    pub(crate) fn take_restores(&mut self) -> Vec<(u32, u32)> {
        self.states.as_mut().map_or_else(Vec::new, States::take_restores)
    }

    /// Ends the step for which [`checkpoints`](Self::checkpoints) were returned. If it failed, the states of its
    /// sequences are marked as lost.
    pub(crate) fn end_step(&mut self, new: &[(SequenceId, usize)], succeeded: bool) {
        let Some(states) = &mut self.states else { return };
        states.end_step(succeeded);
        if !succeeded {
            for (id, _) in new {
                self.sequences.get_mut(id).into_iter().for_each(|s| States::lose(&mut s.state));
            }
        }
    }

    /// Returns whether the sequence can be continued: no failed step has left its state inconsistent.
    pub(crate) fn is_current(&self, id: SequenceId) -> bool {
        let states = self.states.is_some();
        !states || self.sequences.get(&id).is_some_and(|s| States::is_current(&s.state))
    }
}
