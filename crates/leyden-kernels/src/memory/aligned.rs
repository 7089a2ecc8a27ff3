//! Blocks of values that begin at a cache line.

use std::ops::{Deref, DerefMut};

/// A block of values that begins at a multiple of 64 bytes, so that no vector of it lies in two cache lines, which would
/// be read one after the other.
#[derive(Debug)]
pub struct Aligned<T> {
    values: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy + Default> Aligned<T> {
    /// So many zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let spare = 64 / size_of::<T>() - 1;
        let values = vec![T::default(); len + spare];
        let first = values.as_ptr().align_offset(64).min(spare);
        Aligned { values, first, len }
    }

    /// Sets the length. Of more values than there was ever room for none is kept, of others the first are.
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
