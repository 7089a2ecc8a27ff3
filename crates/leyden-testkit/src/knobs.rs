//! Every environment variable that tests read.

/// Whether the tests run behind an emulator (`LEYDEN_TEST_RUNNER`).
pub(crate) fn runner() -> bool {
    std::env::var_os("LEYDEN_TEST_RUNNER").is_some()
}

/// Whether every test must run (`LEYDEN_CI`).
pub(crate) fn ci() -> bool {
    std::env::var_os("LEYDEN_CI").is_some()
}
