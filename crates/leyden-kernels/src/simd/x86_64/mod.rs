//! x86-64.

pub(crate) mod avx2;
pub(crate) mod avx2_int;
pub(crate) mod avx512;
pub(crate) mod avx512_int;
pub(crate) mod avx512_pair;
pub(crate) mod avxvnni_int;
pub(crate) mod common;
