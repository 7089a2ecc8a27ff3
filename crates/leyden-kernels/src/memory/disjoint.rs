//! View of a slice for concurrent writes to disjoint elements.

/// View of a mutable slice that several tasks may write at once, each to its own elements.
///
/// The matrix kernels give every task its own rows or columns of one output; the borrow checker cannot see that, so the
/// split is stated here once.
pub(crate) struct Disjoint<'a, T> {
    ptr: *mut T,
    len: usize,
    _slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through the unsafe methods below, whose callers promise disjoint ranges.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

// SAFETY: as above.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Disjoint { ptr: slice.as_mut_ptr(), len: slice.len(), _slice: std::marker::PhantomData }
    }

    /// Prefetches the cache line of an element for writing.
    #[inline(always)]
    pub(crate) fn fetch(&self, at: usize) {
        crate::prefetch::prefetch_for_write(self.ptr.wrapping_add(at).cast());
    }

    /// Returns the address of an element.
    pub(crate) fn at(&self, at: usize) -> *mut T {
        self.ptr.wrapping_add(at)
    }

    /// Returns the elements `start..start + n`.
    ///
    /// # Safety
    /// No two live ranges given out may overlap.
    ///
    /// # Panics
    /// If the range lies outside the slice.
    #[allow(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    pub(crate) unsafe fn range(&self, start: usize, n: usize) -> &mut [T] {
        assert!(start <= self.len && n <= self.len - start, "range {start}+{n} outside {}", self.len);
        // SAFETY: in bounds (checked above) and not aliased (caller).
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(start), n) }
    }

    /// Returns `count` ranges of `n` elements, `stride` apart, the first at `start`.
    ///
    /// # Safety
    /// No two live ranges given out may overlap.
    ///
    /// # Panics
    /// If one of the ranges lies outside the slice, or they overlap each other.
    pub(crate) unsafe fn strided(
        &self,
        start: usize,
        n: usize,
        stride: usize,
        count: usize,
    ) -> Strided<'_, T> {
        let end = count
            .checked_sub(1)
            .map_or(Some(0), |last| last.checked_mul(stride)?.checked_add(start)?.checked_add(n));
        assert!(
            n <= stride && end.is_some_and(|end| end <= self.len),
            "{count} ranges {start}+{n} of each {stride} outside {}",
            self.len
        );
        Strided {
            next: self.ptr.wrapping_add(start),
            n,
            stride,
            left: count,
            _slice: std::marker::PhantomData,
        }
    }
}

/// Iterator over the ranges of [`Disjoint::strided`].
pub(crate) struct Strided<'a, T> {
    next: *mut T,
    n: usize,
    stride: usize,
    left: usize,
    _slice: std::marker::PhantomData<&'a mut [T]>,
}

impl<'a, T> Iterator for Strided<'a, T> {
    type Item = &'a mut [T];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a mut [T]> {
        self.left = self.left.checked_sub(1)?;
        // SAFETY: the remaining ranges are in bounds and disjoint (checked by `strided`), and not aliased otherwise
        // (its caller).
        let range = unsafe { std::slice::from_raw_parts_mut(self.next, self.n) };
        self.next = self.next.wrapping_add(self.stride);
        Some(range)
    }
}
