//! Damage to the bytes of a file: cuts, flipped bits, boundary values, noise.

use crate::judge::Tally;
use leyden_testkit::{boundary_values, overwrite, random};

/// Returns a boundary value to replace a count, length or offset.
fn boundary(len: usize, r: u64) -> u64 {
    let values = boundary_values(len);
    values[(r % values.len() as u64) as usize]
}

/// Judges mutations of one file. The wide file differs from the narrow one in its data and takes longer, so it gets
/// fewer.
pub(crate) fn mutate(tally: &mut Tally, file: &[u8], wide: bool) {
    // Keys, vocabulary and tensor names; the rest is weights.
    let header = file.len().min(10_000);
    let (step, times) = if wide { (20, 1) } else { (1, 4) };
    for at in (0..header).step_by(step) {
        let r = random(at as u64 | u64::from(wide) << 40);
        tally.sample(&format!("bit of byte {at}"), overwrite(file, at, &[file[at] ^ 1 << (r & 7)]));
        let value = boundary(file.len(), r >> 8);
        let width = if r & 8 == 0 { 4 } else { 8 };
        tally.sample(&format!("{value} at {at}"), overwrite(file, at, &value.to_le_bytes()[..width]));
    }
    for i in 0..times * 300 {
        let len = random(i | 1 << 41) as usize % file.len();
        tally.sample(&format!("cut to {len}"), file[..len].to_vec());
    }
    for i in 0..times * 600 {
        let r = random(i | 1 << 42);
        let at = header + (r >> 8) as usize % (file.len() - header);
        let noise: Vec<u8> = (0..1 + r % 64).map(|k| random(i << 8 | k) as u8).collect();
        // Infinities and NaN of half and single precision among the weights.
        let with =
            [&noise[..], &[0, 0x7c], &[0, 0xfe], &[0xff, 0xff, 0x7f, 0x7f], &[0, 0, 0x80, 0xff], &[0xff; 16]]
                [(r >> 4) as usize % 6];
        tally.sample(&format!("{with:02x?} at {at}"), overwrite(file, at, with));
    }
    for i in 0..times * 600 {
        let mut bytes = file.to_vec();
        for k in 0..1 + random(i) % 4 {
            let r = random(i * 8 + k + (1 << 43));
            let within = if r & 16 == 0 { header } else { bytes.len() };
            let at = (r >> 8) as usize % within.min(bytes.len());
            match r % 5 {
                0 => bytes[at] ^= 1 << (r >> 60 & 7),
                1 => bytes[at] = (r >> 50) as u8,
                2 => drop(bytes.drain(at..(at + 1 + (r >> 48) as usize % 9).min(bytes.len()))),
                3 => bytes = overwrite(&bytes, at, &boundary(file.len(), r >> 40).to_le_bytes()),
                _ => bytes.insert(at, (r >> 50) as u8),
            }
        }
        tally.sample(&format!("mixture {i}"), bytes);
    }
}
