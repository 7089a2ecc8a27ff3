//! Headers of entries. Each file has one possible header, so a reader compares whole blocks.

use tar::{EntryType, Header};

use crate::error::printable;
use crate::names;

/// Size of a block in bytes.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Blocks of zeros at the end of an archive.
pub(crate) const END_BLOCKS: usize = 2;

/// A block of an archive.
pub(crate) type Block = [u8; BLOCK_BYTES];

/// Returns the header of a file: no owner, no time; programs are executable.
///
/// # Errors
/// The name fits no header.
pub(crate) fn of_file(name: &str, bytes: u64) -> Result<Block, String> {
    let mut header = Header::new_ustar();
    header.set_path(name).map_err(|error| format!("its name fits no header: {error}"))?;
    header.set_size(bytes);
    header.set_mode(if name.starts_with(names::PROGRAMS) { 0o755 } else { 0o644 });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    Ok(*header.as_bytes())
}

/// Returns the number of zeros behind a file's content.
pub(crate) fn padding(bytes: u64) -> usize {
    let rest = bytes % BLOCK_BYTES as u64;
    if rest == 0 { 0 } else { BLOCK_BYTES - rest as usize }
}

/// Entry that a header describes.
pub(crate) enum Found {
    /// The wanted file, with its size.
    Wanted(u64),
    /// Zeros: the end of the archive.
    End,
    /// Something else: its name, if it can be told, and a description.
    Other(Option<String>, String),
}

/// Compares a header with that of the file `name`.
pub(crate) fn read(block: &Block, name: &str) -> Found {
    if block.iter().all(|byte| *byte == 0) {
        return Found::End;
    }
    let header = Header::from_byte_slice(block);
    if let Ok(bytes) = header.entry_size()
        && of_file(name, bytes).is_ok_and(|wanted| wanted == *block)
    {
        return Found::Wanted(bytes);
    }
    if !header.cksum().is_ok_and(|stated| stated == checksum(block)) {
        return Found::Other(None, "its header is damaged".to_owned());
    }
    let found = String::from_utf8_lossy(&header.path_bytes()).into_owned();
    let kind = match header.entry_type() {
        EntryType::Symlink => "a symbolic link",
        EntryType::Link => "a hard link",
        EntryType::Directory => "a folder",
        EntryType::Char | EntryType::Block | EntryType::Fifo => "a device or FIFO",
        EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink => {
            "an extended header"
        }
        EntryType::Regular => "",
        _ => "of an unknown kind",
    };
    let what = match () {
        () if !kind.is_empty() => format!("it is {kind}, and a bundle has plain files alone"),
        () if found == name => "its header has other fields than those that leyden bundle writes".to_owned(),
        () => match names::check_name(&found) {
            Err(why) => why.to_owned(),
            Ok(()) => format!("it is in the place of {}", printable(name)),
        },
    };
    Found::Other(Some(found), what)
}

/// Returns the checksum of a header: the sum of its bytes, with spaces in the place of the checksum itself.
fn checksum(block: &Block) -> u32 {
    block.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { 32 } else { u32::from(*b) }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_the_only_one_of_its_file() {
        for (name, bytes) in
            [("a", 0), ("bin/leyden", 12), ("models/m/m.gguf", 9 << 30), ("m", u64::from(u32::MAX))]
        {
            let block = of_file(name, bytes).unwrap();
            assert!(matches!(read(&block, name), Found::Wanted(found) if found == bytes), "{name}");
            let header = Header::from_byte_slice(&block);
            assert_eq!(header.cksum().unwrap(), checksum(&block));
            for i in 0..BLOCK_BYTES {
                let mut changed = block;
                changed[i] ^= 1;
                assert!(!matches!(read(&changed, name), Found::Wanted(_)), "{name}: byte {i}");
            }
        }
        let longest = ["a".repeat(53), "b".repeat(100), "c".to_owned()];
        assert!(names::check_name(&longest[..2].join("/")).is_ok());
        for parts in [&longest[..2], &longest[1..], &["a".repeat(100), "b".repeat(54)]] {
            assert!(of_file(&parts.join("/"), 1).is_ok(), "{parts:?}");
        }
        assert!(matches!(read(&[0; BLOCK_BYTES], "a"), Found::End));
        assert_eq!((padding(0), padding(1), padding(512), padding(513)), (0, 511, 0, 511));
    }
}
