//! Environment variables that tests read.

/// Returns true if the tests run in an emulator (`LEYDEN_TEST_RUNNER`).
pub(crate) fn runner() -> bool {
    std::env::var_os("LEYDEN_TEST_RUNNER").is_some()
}

/// Returns true if no test may be skipped (`LEYDEN_CI`).
pub(crate) fn ci() -> bool {
    std::env::var_os("LEYDEN_CI").is_some()
}
