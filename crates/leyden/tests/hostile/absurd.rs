//! Small files that declare large sizes: memory use must follow the size of the file.

use crate::judge::Tally;
use crate::model::llama;
use leyden_tensor::Value;
use leyden_testkit::emulated;

/// Returns the peak resident memory of the process in bytes; `None` if the system does not report it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Judges each case, and checks how far the peak of resident memory moved.
pub(crate) fn run(tally: &mut Tally) {
    let sizes: [(&str, &[u32], bool); 10] = [
        // The longest accepted context costs address space, but memory only for actual tokens.
        ("llama.context_length", &[1 << 24], true),
        ("llama.context_length", &[1 << 31, u32::MAX], false),
        ("llama.block_count", &[2, 4096, 1 << 20, u32::MAX], false),
        ("llama.embedding_length", &[1 << 24, u32::MAX], false),
        ("llama.feed_forward_length", &[1 << 24, u32::MAX], false),
        ("llama.attention.head_count", &[1 << 20, 1 << 24, u32::MAX], false),
        ("llama.attention.head_count_kv", &[1 << 24, u32::MAX], false),
        ("llama.attention.key_length", &[1 << 16, 1 << 24, u32::MAX], false),
        ("llama.rope.dimension_count", &[1 << 20, u32::MAX], false),
        ("llama.vocab_size", &[1 << 30], true),
    ];
    // Warms up everything that is allocated once.
    tally.judge("warm", llama(true).file().unwrap()).unwrap();
    for (key, values, good) in sizes {
        for &value in values {
            let mut parts = llama(true);
            parts.set(key, Value::U32(value));
            check(tally, &format!("{key} {value}"), &parts.file().unwrap(), good);
        }
    }
    // The maximum number of layers, each of the smallest matrices, and one more.
    check(tally, "many layers", &llama(true).with_layers(40).file().unwrap(), true);
    let mut parts = llama(false).with_layers(if emulated() { 100 } else { 1000 });
    parts.set("llama.context_length", Value::U32(1 << 24));
    check(tally, "many layers and the longest context", &parts.file().unwrap(), true);
    check(tally, "most layers", &llama(false).with_layers(1024).file().unwrap(), true);
    check(tally, "too many layers", &llama(false).with_layers(1025).file().unwrap(), false);
}

fn check(tally: &mut Tally, name: &str, file: &[u8], good: bool) {
    /// Memory of two steps beyond a multiple of the file's size, in bytes.
    const CONSTANT: u64 = 32 << 20;
    let before = resident();
    let start = std::time::Instant::now();
    let result = (0..2).map(|_| tally.judge(name, file.to_vec())).next_back().unwrap();
    let grown = before.zip(resident()).map_or(0, |(before, after)| after - before);
    eprintln!(
        "{name}: {} bytes of file, grown by {} KiB, {:?}: {result:?}",
        file.len(),
        grown >> 10,
        start.elapsed()
    );
    // An emulator's tables of reserved addresses count as resident memory of the process.
    assert!(
        emulated() || grown <= CONSTANT + 16 * file.len() as u64,
        "{name}: {grown} bytes for a file of {}",
        file.len()
    );
    assert_eq!(result.is_ok(), good, "{name}: {result:?}");
}
