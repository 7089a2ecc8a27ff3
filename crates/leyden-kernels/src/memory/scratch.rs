//! Scratch memory that a thread's tasks use one after the other.

use crate::memory::aligned::Aligned;
use std::cell::Cell;

thread_local! {
    /// What the last task of this thread unpacked the panels of each of its matrices into.
    static SCRATCH: Cell<Vec<Aligned<u8>>> = Cell::default();
}

/// Memory that a thread's tasks use one after the other, as its first one or the last left it.
pub(crate) struct Scratch(Aligned<u8>);

impl Scratch {
    /// Of so many bytes.
    pub(crate) fn of(bytes: usize) -> Scratch {
        let mut rooms = SCRATCH.take();
        let mut room = rooms.pop().unwrap_or_default();
        SCRATCH.set(rooms);
        room.resize(bytes);
        Scratch(room)
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Its bytes as signed ones.
    #[inline(always)]
    pub(crate) fn signed(&mut self) -> &mut [i8] {
        // SAFETY: the same bytes, of which any bits are such a number.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len()) }
    }

    /// Its bytes as floats.
    #[inline(always)]
    pub(crate) fn floats(&mut self) -> &mut [f32] {
        let (first, len) = (self.0.as_mut_ptr().cast(), self.0.len() / size_of::<f32>());
        // SAFETY: initialised bytes from a cache line on; any bits are a float.
        unsafe { std::slice::from_raw_parts_mut(first, len) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut rooms = SCRATCH.take();
        rooms.push(std::mem::take(&mut self.0));
        SCRATCH.set(rooms);
    }
}
