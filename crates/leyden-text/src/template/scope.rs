//! [`Frame`]: variables of one scope.

use std::rc::Rc;

use super::ast::NameId;
use super::budget::{Budget, Result};
use super::value::Value;

/// Variables of a loop iteration, macro call or block, counted in the budget.
pub(super) struct Frame {
    variables: Vec<(NameId, Value)>,
    budget: Rc<Budget>,
}

impl Frame {
    pub(super) fn new(budget: &Rc<Budget>) -> Self {
        Frame { variables: Vec::new(), budget: Rc::clone(budget) }
    }

    /// Copies all variables of several frames into one.
    pub(super) fn copy_of(frames: &[Frame], budget: &Rc<Budget>) -> Result<Self> {
        let len: usize = frames.iter().map(|frame| frame.variables.len()).sum();
        let mut copy = Frame::new(budget);
        budget.make(len * size_of::<(NameId, Value)>())?;
        copy.variables = frames.iter().flat_map(|frame| frame.variables.iter().cloned()).collect();
        Ok(copy)
    }

    /// Returns the value of a variable. Of several with the same name the last is used.
    pub(super) fn get(&self, id: NameId) -> Result<Option<&Value>> {
        self.budget.steps(self.variables.len() / 16)?;
        Ok(self.variables.iter().rev().find(|(name, _)| *name == id).map(|(_, value)| value))
    }

    pub(super) fn set(&mut self, id: NameId, value: Value) -> Result<()> {
        self.budget.steps(self.variables.len() / 16)?;
        match self.variables.iter_mut().rev().find(|(name, _)| *name == id) {
            Some(variable) => variable.1 = value,
            None => {
                self.budget.make(size_of::<(NameId, Value)>())?;
                self.variables.push((id, value));
            }
        }
        Ok(())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.budget.free(self.variables.len() * size_of::<(NameId, Value)>());
    }
}
