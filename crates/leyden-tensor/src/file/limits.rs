//! Limits on the contents of model files.

/// Maximum number of keys in a file; real files have less than a hundred.
pub const MAX_KEYS: u64 = 1 << 16;
/// Maximum number of tensors in a file; a mixture of experts that was never merged has tens of
/// thousands.
pub const MAX_TENSORS: u64 = 1 << 17;
/// Maximum length of a key or a tensor name in bytes: the format's limit for keys.
pub const MAX_NAME_BYTES: u64 = 0xffff;
/// Largest alignment of tensor data, in bytes.
pub const MAX_ALIGNMENT: u32 = 1 << 20;
/// Maximum size of a safetensors header in bytes: the format's limit.
pub const MAX_HEADER_BYTES: u64 = 100_000_000;
