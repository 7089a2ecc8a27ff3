//! NumPy's format 1.0: vectors as one array of `float32`, `[rows, dimensions]`. A row with an error has NaN.

use super::Rows;
use crate::Error;
use serde_json::Value;
use std::io::Write;
use std::path::Path;

/// Field with the vector.
const FIELD: &str = "embedding";
/// Alignment of the data in bytes.
const ALIGNMENT: usize = 64;

/// Writes all vectors.
pub(super) fn write(path: &Path, rows: &mut Rows<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let (mut count, mut dimensions) = (0_u64, None);
    rows.each(|row| {
        count += 1;
        if let Some(Value::Array(vector)) = row.get(FIELD) {
            match dimensions {
                None => dimensions = Some(vector.len()),
                Some(n) if n == vector.len() => {}
                Some(n) => {
                    return Err(Error::of(path, format!("vectors of {n} and of {} numbers", vector.len())));
                }
            }
        }
        Ok(())
    })?;
    let dimensions = dimensions.unwrap_or(0);
    let dictionary =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {dimensions}), }}");
    let length = (10 + dictionary.len() + 1).next_multiple_of(ALIGNMENT) - 10;
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    // The dictionary has fewer than 120 characters.
    head.extend_from_slice(&(length as u16).to_le_bytes());
    head.extend_from_slice(format!("{dictionary:<width$}\n", width = length - 1).as_bytes());
    let failed = |error: std::io::Error| Error::write(path, &error);
    out.write_all(&head).map_err(failed)?;
    rows.each(|row| {
        let vector: Vec<f32> = match row.get(FIELD) {
            Some(Value::Array(vector)) => {
                vector.iter().map(|x| x.as_f64().unwrap_or(f64::NAN) as f32).collect()
            }
            _ => vec![f32::NAN; dimensions],
        };
        let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
        out.write_all(&bytes).map_err(failed)
    })
}
