//! Names of an executable's functions, from its symbol table.
//!
//! Source of the format: Tool Interface Standard (TIS) Executable and Linking Format, version 1.2; the 64-bit layouts of
//! the System V ABI.

/// Section type of symbol tables.
const SYMBOLS: usize = 2;
/// Symbol type of functions.
const FUNCTION: u8 = 2;
/// Bytes of a section's header, and of a symbol.
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// Returns the mangled names of all functions of a 64-bit little-endian ELF file; `None` if it is no such file, or has
/// no symbols.
pub(crate) fn functions(file: &[u8]) -> Option<Vec<String>> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(file.get(at..at.checked_add(bytes)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    let (sections, count) = (number(40, 8)?, number(60, 2)?);
    // Number at an offset of a section's header.
    let header = |i: usize, at: usize, bytes: usize| number(sections.checked_add(i * SECTION + at)?, bytes);
    // Byte range of a section.
    let place = |i: usize| -> Option<&[u8]> {
        let (at, len) = (header(i, 24, 8)?, header(i, 32, 8)?);
        file.get(at..at.checked_add(len)?)
    };
    let symbols = (0..count).find(|&i| header(i, 4, 4) == Some(SYMBOLS))?;
    let names = place(header(symbols, 40, 4)?)?;
    let name = |symbol: &[u8]| -> Option<String> {
        let at = u32::from_le_bytes(*symbol.first_chunk()?) as usize;
        let name = names.get(at..)?.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    let of_functions = place(symbols)?.chunks_exact(SYMBOL).filter(|symbol| symbol[4] & 15 == FUNCTION);
    of_functions.map(name).collect()
}
