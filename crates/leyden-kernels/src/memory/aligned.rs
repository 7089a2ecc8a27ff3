//! Arrays aligned to a cache line.

use std::ops::{Deref, DerefMut};

/// Array that begins at a multiple of 64 bytes, so that none of its vectors crosses a cache line, which would take two
/// reads.
#[derive(Debug)]
pub struct Aligned<T> {
    values: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// Creates an array of `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let spare = 64 / size_of::<T>() - 1;
        let values = vec![T::default(); len + spare];
        let first = values.as_ptr().align_offset(64).min(spare);
        Aligned { values, first, len }
    }

    /// Sets the length. Contents are kept if the array has room for `len` values, and lost otherwise.
    pub fn resize(&mut self, len: usize) {
        if self.first + len > self.values.len() {
            *self = Aligned::zeroed(len);
        }
        self.len = len;
    }
}

impl<T: Copy + Default> Default for Aligned<T> {
    fn default() -> Self {
        Aligned::zeroed(0)
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.values[self.first..self.first + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.first..self.first + self.len]
    }
}
