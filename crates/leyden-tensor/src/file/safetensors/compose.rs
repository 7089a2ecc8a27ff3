//! Stacks of matrices as one tensor `[matrices, rows, k]`, from the layouts in which checkpoints store the experts of
//! a mixture.

use super::Safetensors;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::file::{TensorInfo, WeightSource};
use crate::view::OwnedTensor;

/// Layout of a stack's matrices in the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stacked {
    /// One tensor `[rows, k]` per matrix, of these names.
    Each(Vec<String>),
    /// One tensor `[matrices, rows, k]`, or `[matrices, rows]` for vectors.
    Rows(String),
    /// One transposed tensor `[matrices, k, rows]`.
    Columns(String),
    /// MXFP4: `NAME_blocks`, `[matrices, rows, k / 32, 16]`, with two neighbouring values in each byte, and
    /// `NAME_scales`, `[matrices, rows, k / 32]`.
    Mxfp4(String),
}

/// Rows to take of every matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackRows {
    /// All rows.
    All,
    /// Rows 0, 2, 4 and so on.
    Even,
    /// Rows 1, 3, 5 and so on.
    Odd,
    /// The first half.
    First,
    /// The second half.
    Second,
}

impl StackRows {
    /// Returns the number of selected rows of `rows`; `None` if `rows` cannot be split like this.
    fn count(self, rows: usize) -> Option<usize> {
        match self {
            StackRows::All => Some(rows),
            _ if rows.is_multiple_of(2) => Some(rows / 2),
            _ => None,
        }
    }

    /// Selects rows of a matrix.
    fn pick<T>(self, count: usize, rows: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        let (first, step) = match self {
            StackRows::All | StackRows::First => (0, 1),
            StackRows::Even => (0, 2),
            StackRows::Odd => (1, 2),
            StackRows::Second => (count, 1),
        };
        rows.skip(first).step_by(step).take(count)
    }
}

const EVEN: &str = "an even number of rows";
const BLOCK_VALUES: usize = 32;
const BLOCK_CODES: usize = BLOCK_VALUES / 2;

impl Safetensors {
    /// Makes one tensor from a stack, called `name` in messages.
    ///
    /// # Errors
    /// A part is missing, has another type or shape than the others, or an unsupported type. The error
    /// names it.
    pub fn compose(&self, name: &str, stacked: &Stacked, rows: StackRows) -> Result<OwnedTensor, Error> {
        match stacked {
            Stacked::Each(parts) => self.each(name, parts, rows),
            Stacked::Rows(part) => self.rows(name, part, rows),
            Stacked::Columns(part) => self.columns(name, part, rows),
            Stacked::Mxfp4(part) => self.mxfp4(name, part, rows),
        }
    }

    fn each(&self, name: &str, parts: &[String], choice: StackRows) -> Result<OwnedTensor, Error> {
        let mut all: Option<OwnedTensor> = None;
        // Each matrix is a separate tensor, so together they are no larger than the file.
        let views = parts.iter().map(|part| self.require(part)).collect::<Result<Vec<_>, _>>()?;
        let bytes = views.iter().fold(0_usize, |sum, view| sum.saturating_add(view.bytes().len()));
        if bytes > self.tensor_info().iter().fold(0_usize, |sum, tensor| sum.saturating_add(tensor.bytes)) {
            return Err(self.unfit(name, "a tensor of its own for each matrix"));
        }
        for (part, view) in parts.iter().zip(views) {
            let [rows, k] = *view.shape() else { return Err(self.unfit(part, "[rows, k]")) };
            let n = choice.count(rows).ok_or_else(|| self.unfit(part, EVEN))?;
            let shape = vec![parts.len(), n, k];
            let all = all.get_or_insert_with(|| OwnedTensor {
                name: name.to_owned(),
                dtype: view.dtype(),
                bytes: Vec::with_capacity(bytes),
                shape: shape.clone(),
                parts: parts.to_vec(),
                loss: 0.0,
            });
            if (view.dtype(), &shape) != (all.dtype, &all.shape) {
                return Err(self.unfit(part, "the type and shape of the stack's first matrix"));
            }
            choice.pick(n, 0..rows).for_each(|i| all.bytes.extend_from_slice(view.row(i)));
            self.advise_dontneed(part, 0..view.bytes().len());
        }
        all.ok_or_else(|| self.unfit(name, "at least one matrix"))
    }

    fn rows(&self, name: &str, part: &str, choice: StackRows) -> Result<OwnedTensor, Error> {
        let view = self.require(part)?;
        let (count, rows, k) = match *view.shape() {
            [count, rows, k] => (count, rows, Some(k)),
            [count, rows] => (count, rows, None),
            _ => return Err(self.unfit(part, "[matrices, rows, k]")),
        };
        let n = choice.count(rows).ok_or_else(|| self.unfit(part, EVEN))?;
        // A row of a vector is one value.
        let size = view.bytes().len().checked_div(count.saturating_mul(rows)).unwrap_or(0).max(1);
        let mut bytes = Vec::new();
        for matrix in view.bytes().chunks_exact(rows.saturating_mul(size).max(1)) {
            choice.pick(n, matrix.chunks_exact(size)).for_each(|row| bytes.extend_from_slice(row));
        }
        self.advise_dontneed(part, 0..view.bytes().len());
        let shape = [count, n].into_iter().chain(k).collect();
        let (name, parts) = (name.to_owned(), vec![part.to_owned()]);
        Ok(OwnedTensor { name, dtype: view.dtype(), shape, bytes, parts, loss: 0.0 })
    }

    fn columns(&self, name: &str, part: &str, choice: StackRows) -> Result<OwnedTensor, Error> {
        let view = self.require(part)?;
        let [count, k, rows] = *view.shape() else { return Err(self.unfit(part, "[matrices, k, rows]")) };
        let n = choice.count(rows).ok_or_else(|| self.unfit(part, EVEN))?;
        let line = view.row_bytes().max(1);
        let size = line.checked_div(rows).unwrap_or(0).max(1);
        let mut bytes = Vec::new();
        for matrix in view.bytes().chunks_exact(line.saturating_mul(k).max(1)) {
            for column in choice.pick(n, 0..rows) {
                let values = matrix.chunks_exact(line).filter_map(|line| line.chunks_exact(size).nth(column));
                values.for_each(|value| bytes.extend_from_slice(value));
            }
        }
        self.advise_dontneed(part, 0..view.bytes().len());
        let (name, parts) = (name.to_owned(), vec![part.to_owned()]);
        Ok(OwnedTensor { name, dtype: view.dtype(), shape: vec![count, n, k], bytes, parts, loss: 0.0 })
    }

    fn mxfp4(&self, name: &str, part: &str, choice: StackRows) -> Result<OwnedTensor, Error> {
        let [of_blocks, of_scales] = ["blocks", "scales"].map(|kind| format!("{part}_{kind}"));
        let (blocks, codes) = self.bytes_of(&of_blocks)?;
        let (scales, powers) = self.bytes_of(&of_scales)?;
        let [count, rows, groups, BLOCK_CODES] = *blocks.shape.as_slice() else {
            return Err(self.unfit(&of_blocks, "[matrices, rows, k / 32, 16]"));
        };
        if scales.shape != [count, rows, groups] {
            return Err(self.unfit(&of_scales, "a scale for each block"));
        }
        let n = choice.count(rows).ok_or_else(|| self.unfit(&of_blocks, EVEN))?;
        let groups = groups.max(1);
        let row_codes = groups.saturating_mul(BLOCK_CODES);
        let matrices = codes.chunks_exact(row_codes.saturating_mul(rows).max(1));
        let mut bytes = Vec::new();
        for (codes, powers) in matrices.zip(powers.chunks_exact(groups.saturating_mul(rows).max(1))) {
            let rows = codes.chunks_exact(row_codes).zip(powers.chunks_exact(groups));
            for (codes, powers) in choice.pick(n, rows) {
                for (block, &power) in codes.chunks_exact(BLOCK_CODES).zip(powers) {
                    let (low, high) = block.split_at(BLOCK_CODES / 2);
                    let pairs = low.iter().zip(high);
                    bytes.push(power);
                    bytes
                        .extend(pairs.flat_map(|(l, h)| [(l & 15) | ((h & 15) << 4), (l >> 4) | (h & 0xf0)]));
                }
            }
        }
        self.advise_dontneed(&of_blocks, 0..codes.len());
        let shape = vec![count, n, groups.saturating_mul(BLOCK_VALUES)];
        let (name, parts) = (name.to_owned(), vec![of_blocks, of_scales]);
        Ok(OwnedTensor { name, dtype: DType::MXFP4, shape, bytes, parts, loss: 0.0 })
    }

    /// Returns a tensor of bytes (type U8).
    fn bytes_of(&self, part: &str) -> Result<(&TensorInfo, &[u8]), Error> {
        match self.raw(part) {
            Some((info, bytes)) if info.type_name == "U8" => Ok((info, bytes)),
            Some(_) => Err(self.unfit(part, "type U8")),
            None => Err(Error::new(ErrorKind::MissingTensor).item(part).file(&self.place.label)),
        }
    }

    /// Returns the error of a part with a wrong type or shape.
    fn unfit(&self, part: &str, wanted: &'static str) -> Error {
        Error::new(ErrorKind::Unfit { wanted }).item(part).file(&self.place.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant;

    fn file(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Safetensors {
        let (mut header, mut data) = (Vec::new(), Vec::<u8>::new());
        for (name, dtype, shape, bytes) in tensors {
            let start = data.len();
            data.extend(bytes);
            let end = data.len();
            header.push(format!(
                r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
            ));
        }
        let header = format!("{{{}}}", header.join(","));
        let mut all = u64::try_from(header.len()).unwrap().to_le_bytes().to_vec();
        all.extend(header.as_bytes());
        all.extend(data);
        Safetensors::from_vec(all, "m.safetensors").unwrap()
    }

    fn floats(values: impl Iterator<Item = u8>) -> Vec<u8> {
        values.flat_map(|v| f32::from(v).to_le_bytes()).collect()
    }

    fn found(tensor: &OwnedTensor) -> (Vec<usize>, Vec<f32>) {
        let view = tensor.view().unwrap();
        let mut values = vec![0.0; view.shape().iter().product()];
        quant::decode_row(view.dtype(), view.bytes(), &mut values);
        (tensor.shape.clone(), values)
    }

    #[test]
    fn matrices_of_every_form_become_one_stack() {
        let f = file(&[
            ("e.0", "F32", &[2, 3], floats(0..6)),
            ("e.1", "F32", &[2, 3], floats(6..12)),
            ("rows", "F32", &[2, 4, 1], floats(0..8)),
            ("vectors", "F32", &[2, 4], floats(0..8)),
            ("columns", "F32", &[1, 2, 4], floats(0..8)),
        ]);
        let each = Stacked::Each(vec!["e.0".into(), "e.1".into()]);
        let compose = |stacked: &Stacked, rows| found(&f.compose("all", stacked, rows).unwrap());
        let wanted =
            |shape: &[usize], values: &[u8]| (shape.to_vec(), values.iter().map(|v| f32::from(*v)).collect());
        assert_eq!(
            compose(&each, StackRows::All),
            wanted(&[2, 2, 3], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
        );
        assert_eq!(compose(&Stacked::Rows("rows".into()), StackRows::Odd), wanted(&[2, 2, 1], &[1, 3, 5, 7]));
        assert_eq!(
            compose(&Stacked::Rows("rows".into()), StackRows::Second),
            wanted(&[2, 2, 1], &[2, 3, 6, 7])
        );
        assert_eq!(
            compose(&Stacked::Rows("vectors".into()), StackRows::Even),
            wanted(&[2, 2], &[0, 2, 4, 6])
        );
        let columns = Stacked::Columns("columns".into());
        assert_eq!(compose(&columns, StackRows::All), wanted(&[1, 4, 2], &[0, 4, 1, 5, 2, 6, 3, 7]));
        assert_eq!(compose(&columns, StackRows::First), wanted(&[1, 2, 2], &[0, 4, 1, 5]));
    }

    #[test]
    fn blocks_of_neighbours_are_those_of_gguf() {
        // Values 0 to 15 twice, by their codes; the second row is doubled.
        let codes: Vec<u8> = (0..16_u8).map(|i| ((2 * i) % 16) | (((2 * i + 1) % 16) << 4)).collect();
        let f = file(&[
            ("w_blocks", "U8", &[1, 2, 1, 16], [codes.clone(), codes].concat()),
            ("w_scales", "U8", &[1, 2, 1], vec![127, 128]),
        ]);
        let tensor = f.compose("w", &Stacked::Mxfp4("w".into()), StackRows::All).unwrap();
        let (shape, values) = found(&tensor);
        assert_eq!((tensor.dtype, shape), (DType::MXFP4, vec![1, 2, 32]));
        let halves = quant::MXFP4_VALUES.map(|v| f32::from(v) / 2.0);
        let all: Vec<&[f32]> = values.chunks(16).collect();
        let twice = halves.map(|v| 2.0 * v);
        assert_eq!(all, [halves, halves, twice, twice]);
    }

    #[test]
    fn what_does_not_fit_is_an_error_that_names_the_part() {
        let f = file(&[
            ("a", "F32", &[1, 2], floats(0..2)),
            ("b", "F32", &[1, 3], floats(0..3)),
            ("w_blocks", "U8", &[1, 1, 1, 16], vec![0; 16]),
            ("w_scales", "U8", &[1, 2, 1], vec![0; 2]),
        ]);
        for (stacked, rows, wanted) in [
            (Stacked::Each(vec!["a".into(), "b".into()]), StackRows::All, "b: "),
            (Stacked::Each(vec!["a".into(), "c".into()]), StackRows::All, "c: "),
            (Stacked::Each(vec!["a".into()]), StackRows::Even, "a: "),
            (Stacked::Columns("a".into()), StackRows::All, "a: "),
            (Stacked::Mxfp4("w".into()), StackRows::All, "w_scales: "),
            (Stacked::Mxfp4("v".into()), StackRows::All, "v_blocks: "),
        ] {
            let error = f.compose("all", &stacked, rows).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
