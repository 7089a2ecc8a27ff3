//! Scratch memory that the tasks of a thread reuse.

use crate::memory::aligned::Aligned;
use std::cell::Cell;

thread_local! {
    /// Buffers that the last tasks of this thread returned.
    static SCRATCH: Cell<Vec<Aligned<u8>>> = Cell::default();
}

/// Scratch memory that the tasks of a thread reuse; its contents are left over from earlier tasks.
pub(crate) struct Scratch(Aligned<u8>);

impl Scratch {
    /// Returns scratch memory of `bytes` bytes.
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

    /// Returns its bytes as signed integers.
    #[inline(always)]
    pub(crate) fn signed(&mut self) -> &mut [i8] {
        // SAFETY: the same bytes; any bits are a valid i8.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len()) }
    }

    /// Returns its bytes as floats.
    #[inline(always)]
    pub(crate) fn floats(&mut self) -> &mut [f32] {
        let (first, len) = (self.0.as_mut_ptr().cast(), self.0.len() / size_of::<f32>());
        // SAFETY: initialised bytes, aligned to a cache line; any bits are a valid float.
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
