//! NumPy's files (format 1.0 to 3.0): a header that is a Python dictionary, then the values.

use crate::error::Error;
use crate::shape::{Shape, elements};
use crate::tensor::{Buffer, Data, Tensor};

/// Returns the text after `'key':` in the header.
fn field<'h>(header: &'h str, key: &str) -> Result<&'h str, Error> {
    let at = header.find(&format!("'{key}'")).ok_or_else(|| format!("the header has no `{key}`"))?;
    let rest = &header[at + key.len() + 2..];
    let colon = rest.find(':').ok_or_else(|| format!("the header has no value of `{key}`"))?;
    Ok(rest[colon + 1..].trim_start())
}

/// Reads a tensor.
pub(super) fn read(bytes: &[u8]) -> Result<Tensor, Error> {
    let not = || Error::invalid("is no NumPy file");
    let rest = bytes.strip_prefix(b"\x93NUMPY").ok_or_else(not)?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(not)?;
    let (length, rest) = if major == 1 {
        let (n, rest) = rest.split_first_chunk::<2>().ok_or_else(not)?;
        (usize::from(u16::from_le_bytes(*n)), rest)
    } else {
        let (n, rest) = rest.split_first_chunk::<4>().ok_or_else(not)?;
        (u32::from_le_bytes(*n) as usize, rest)
    };
    let (header, values) = rest.split_at_checked(length).ok_or("ends within its header")?;
    let header = std::str::from_utf8(header).map_err(|_| not())?;
    if !field(header, "fortran_order")?.starts_with("False") {
        return Err("is in Fortran order; write it with numpy.ascontiguousarray".into());
    }
    let descr = field(header, "descr")?;
    let kind = descr.trim_start_matches(['\'', '"']).split(['\'', '"']).next().unwrap_or_default();
    let shape = field(header, "shape")?;
    let inside = shape.strip_prefix('(').and_then(|s| s.split(')').next()).ok_or_else(not)?;
    let dims = inside.split(',').map(str::trim).filter(|d| !d.is_empty());
    let dims = dims.map(|d| d.parse::<usize>().map_err(|_| Error::invalid(format!("has the size `{d}`"))));
    let shape = dims.collect::<Result<Shape, _>>()?;
    let n = elements(&shape)?;
    fn numbers<T: bytemuck::AnyBitPattern>(values: &[u8], n: usize) -> Result<Buffer<T>, Error> {
        let size = size_of::<T>();
        if Some(values.len()) != n.checked_mul(size) {
            return Err(format!("has {} bytes of values, not {n} of {size}", values.len()).into());
        }
        Ok(Buffer::new(values.chunks_exact(size).map(bytemuck::pod_read_unaligned).collect()))
    }
    let data = match kind {
        "<f4" => Data::F32(numbers(values, n)?),
        "<f8" => Data::F64(numbers(values, n)?),
        "<f2" => Data::F16(numbers(values, n)?),
        "<i8" => Data::I64(numbers(values, n)?),
        "<i4" => Data::I32(numbers(values, n)?),
        "<i2" => Data::I16(numbers(values, n)?),
        "|i1" => Data::I8(numbers(values, n)?),
        "<u8" => Data::U64(numbers(values, n)?),
        "<u4" => Data::U32(numbers(values, n)?),
        "<u2" => Data::U16(numbers(values, n)?),
        "|u1" => Data::U8(numbers(values, n)?),
        "|b1" => {
            Data::Bool(Buffer::new(numbers::<u8>(values, n)?.iter().map(|v| u8::from(*v != 0)).collect()))
        }
        other => return Err(format!("has values of kind `{other}`, which is not read").into()),
    };
    Tensor::new(&shape, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(values);
        bytes
    }

    #[test]
    fn values_and_shapes_are_read() {
        let x = read(&file("<f4", "(1, 2)", &[0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
        assert_eq!((x.shape(), x.f32s().unwrap()), (&[1, 2][..], &[1.0, 2.0][..]));
        assert_eq!(read(&file("<i8", "()", &7_i64.to_le_bytes())).unwrap().ints().unwrap(), [7]);
        assert_eq!(read(&file("|u1", "(3,)", &[1, 2, 3])).unwrap().shape(), [3]);
    }

    #[test]
    fn damaged_files_are_errors() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert_eq!(error(b"PK"), "is no NumPy file");
        assert_eq!(error(&file("<f4", "(3,)", &[0; 8])), "has 8 bytes of values, not 3 of 4");
        assert_eq!(error(&file(">f4", "(2,)", &[0; 8])), "has values of kind `>f4`, which is not read");
        assert_eq!(error(&file("<f4", "(-1,)", &[0; 8])), "has the size `-1`");
        assert_eq!(
            error(&file("<f4", "(99999999, 99999999)", &[])),
            "shape [99999999, 99999999] is too large"
        );
        let whole = file("<f4", "(2,)", &[0; 8]);
        for end in 0..whole.len() {
            read(&whole[..end]).unwrap_err();
        }
    }
}
