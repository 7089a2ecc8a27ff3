//! Values of a page, decoded.

use super::Read;
use super::bits::{deltas, runs, size, take};
use super::schema::{Leaf, Physical};
use super::values::{Raw, json};
use serde_json::Value;

/// Encodings by their numbers in the format.
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE: i64 = 3;
const DELTA_BINARY_PACKED: i64 = 5;
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;
const BYTE_STREAM_SPLIT: i64 = 9;

/// Values of a page.
pub(super) enum Values {
    /// The values themselves.
    Plain(std::vec::IntoIter<Value>),
    /// Their places in the dictionary.
    Indices(std::vec::IntoIter<u32>),
}

/// Decodes the `count` values of a data page.
pub(super) fn decode(leaf: &Leaf, encoding: i64, bytes: &[u8], count: usize) -> Read<Values> {
    if matches!(encoding, PLAIN_DICTIONARY | RLE_DICTIONARY) {
        let Some((width, rest)) = bytes.split_first() else {
            return match count {
                0 => Ok(Values::Indices(Vec::new().into_iter())),
                _ => Err("a page is cut off".to_owned()),
            };
        };
        return Ok(Values::Indices(runs(rest, u32::from(*width), count)?.into_iter()));
    }
    Ok(Values::Plain(values(leaf, encoding, bytes, count)?.into_iter()))
}

/// Decodes the `count` values of a dictionary.
pub(super) fn dictionary(leaf: &Leaf, bytes: &[u8], count: usize) -> Read<Vec<Value>> {
    values(leaf, PLAIN, bytes, count)
}

fn values(leaf: &Leaf, encoding: i64, mut bytes: &[u8], count: usize) -> Read<Vec<Value>> {
    let to_json = |raw: Raw<'_>| json(raw, leaf.physical, leaf.meaning);
    let mut all = Vec::new();
    match (encoding, leaf.physical) {
        (PLAIN, physical) => {
            for i in 0..count {
                all.push(to_json(plain(physical, &mut bytes, i)?)?);
            }
        }
        (RLE, Physical::Boolean) => {
            let length = size(&mut bytes)?;
            let bits = runs(take(&mut bytes, length)?, 1, count)?;
            all.extend(bits.into_iter().map(|bit| Value::Bool(bit == 1)));
        }
        (DELTA_BINARY_PACKED, Physical::Int32 | Physical::Int64) => {
            for n in deltas(&mut bytes, count)? {
                // Sums of 32-bit columns wrap within 32 bits.
                let n = if leaf.physical == Physical::Int32 { i64::from(n as i32) } else { n };
                all.push(to_json(Raw::Int(n))?);
            }
        }
        (DELTA_LENGTH_BYTE_ARRAY, Physical::Bytes) => {
            for length in lengths(&mut bytes, count)? {
                all.push(to_json(Raw::Bytes(take(&mut bytes, length)?))?);
            }
        }
        (DELTA_BYTE_ARRAY, Physical::Bytes | Physical::Fixed(_)) => {
            let kept = lengths(&mut bytes, count)?;
            let added = lengths(&mut bytes, count)?;
            let mut last: Vec<u8> = Vec::new();
            for (kept, added) in kept.into_iter().zip(added) {
                if kept > last.len() {
                    return Err("a value shares more with the one before than that has".to_owned());
                }
                last.truncate(kept);
                last.extend_from_slice(take(&mut bytes, added)?);
                all.push(to_json(Raw::Bytes(&last))?);
            }
        }
        (BYTE_STREAM_SPLIT, physical) => {
            let width = match physical {
                Physical::Int32 | Physical::Float => 4,
                Physical::Int64 | Physical::Double => 8,
                Physical::Fixed(n) => n,
                _ => return Err("split streams of values without a fixed size".to_owned()),
            };
            if bytes.len() / width < count {
                return Err("a page is cut off".to_owned());
            }
            let streams = bytes.len() / width;
            for i in 0..count {
                let one: Vec<u8> = (0..width).map(|k| bytes[k * streams + i]).collect();
                all.push(to_json(plain(physical, &mut &one[..], 0)?)?);
            }
        }
        (encoding, physical) => return Err(format!("{physical:?} in encoding {encoding}")),
    }
    match all.len() == count {
        true => Ok(all),
        false => Err(format!("{} values, not {count}", all.len())),
    }
}

/// Lengths or shared lengths of byte arrays.
fn lengths(bytes: &mut &[u8], count: usize) -> Read<Vec<usize>> {
    let below = |n: i64| usize::try_from(n).map_err(|_| format!("a length of {n}"));
    deltas(bytes, count)?.into_iter().map(below).collect()
}

/// Takes the value number `i`, which matters for bits alone.
fn plain<'b>(physical: Physical, bytes: &mut &'b [u8], i: usize) -> Read<Raw<'b>> {
    Ok(match physical {
        Physical::Boolean => {
            let bit = bytes.first().ok_or("a page is cut off")? >> (i % 8) & 1;
            if i % 8 == 7 {
                take(bytes, 1)?;
            }
            Raw::Bool(bit == 1)
        }
        Physical::Int32 => Raw::Int(i64::from(i32::from_le_bytes(array(bytes)?))),
        Physical::Int64 => Raw::Int(i64::from_le_bytes(array(bytes)?)),
        Physical::Float => Raw::Float(f32::from_le_bytes(array(bytes)?)),
        Physical::Double => Raw::Double(f64::from_le_bytes(array(bytes)?)),
        Physical::Int96 => Raw::Bytes(take(bytes, 12)?),
        Physical::Fixed(n) => Raw::Bytes(take(bytes, n)?),
        Physical::Bytes => {
            let length = size(bytes)?;
            Raw::Bytes(take(bytes, length)?)
        }
    })
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Read<[u8; N]> {
    take(bytes, N)?.try_into().map_err(|_| "a page is cut off".to_owned())
}
