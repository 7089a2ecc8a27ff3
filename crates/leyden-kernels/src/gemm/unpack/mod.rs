//! Panels unpacked once for many tiles.

#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) mod amx_planes;
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) mod panel;
pub(crate) mod stream;
pub(crate) mod winograd;
