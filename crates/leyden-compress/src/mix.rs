//! Types chosen tensor by tensor, so that a model of a given size loses the least precision.
//!
//! The cost of quantising a tensor is modelled as the squared error of its matrix product, estimated with the
//! importances of its columns, times a factor of the tensor: how strongly that error affects the predictions. The
//! factor is measured with one type ([`probe`]) and used for all; costs of tensors add up, as KL divergences of small
//! changes do. Then each tensor gets the type that minimises cost plus price times bytes, at the price at which the
//! size fits (Everett, 1963).

use crate::error::Error;
use crate::plan::{Choice, Options, Plan};
use crate::quantize::{Job, cpu, experts};
use crate::target::narrower_blocks;
use crate::weights;
use leyden_tensor::{DType, Gguf, GgufWriter, WeightSource};
use std::ops::ControlFlow;

/// Candidate types, the smallest first.
const TYPES: [DType; 7] =
    [DType::Q2K, DType::Q3K, DType::IQ4XS, DType::Q4K, DType::Q5K, DType::Q6K, DType::Q8_0];

/// Type that factors are measured with: its errors are large relative to the noise of a measurement, and still small.
const PROBE: DType = DType::Q3K;

/// Candidate types of a tensor.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// Index of the tensor in the plan.
    pub tensor: usize,
    /// Types with bytes and errors, the smallest first.
    pub types: Vec<Candidate>,
}

/// A tensor in one type.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Type.
    pub dtype: DType,
    /// Bytes of the tensor in this type.
    pub bytes: usize,
    /// Sum of squared errors, each weighted by the importance of its column.
    pub error: f64,
}

impl Candidates {
    /// Returns the candidate that [`probe`] measures with.
    #[must_use]
    pub fn probe(&self) -> Candidate {
        let wanted = self.types.iter().find(|c| c.dtype == PROBE);
        // Rows that are not whole super-blocks do not have this type; their smallest one replaces it.
        wanted.or(self.types.first()).copied().unwrap_or(Candidate { dtype: PROBE, bytes: 0, error: 0.0 })
    }
}

/// Estimates the errors of every matrix of a plan in every type, from a sample of its rows.
///
/// # Errors
/// A weight is NaN or infinite, the importance matrix belongs to another model, or `progress` asked to stop.
pub fn candidates(
    source: &dyn WeightSource,
    plan: &Plan,
    options: &Options<'_>,
    progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Vec<Candidates>, Error> {
    let (cpu, mut all) = (cpu(options.threads)?, Vec::new());
    for (tensor, choice) in plan.tensors.iter().enumerate().filter(|(_, choice)| choice.is_matrix()) {
        let view = source.require(&choice.name)?;
        let means = match options.imatrix {
            Some(imatrix) => imatrix.of(&choice.name, experts(&view), view.cols())?,
            None => None,
        };
        let softened = means.map(weights::soften);
        let mut types: Vec<Candidate> = Vec::new();
        for dtype in TYPES {
            let mut to = dtype;
            while to.row_bytes(view.cols()).is_none() {
                to = narrower_blocks(to);
            }
            if types.iter().any(|c| c.dtype == to) {
                continue;
            }
            let job = Job::new(&cpu, source.path(), view, to, softened.as_deref());
            let error = job.sampled(means)?;
            let bytes = to.row_bytes(view.cols()).unwrap_or(0) * view.rows();
            types.push(Candidate { dtype: to, bytes, error });
        }
        source.advise_dontneed(&choice.name, 0..view.bytes().len());
        types.sort_by_key(|c| c.bytes);
        // A larger type that is no better is never chosen.
        let mut least = f64::INFINITY;
        types.retain(|c| {
            c.error < least && {
                least = c.error;
                true
            }
        });
        all.push(Candidates { tensor, types });
        if progress(tensor + 1, plan.tensors.len()).is_break() {
            return Err(Error::Stopped);
        }
    }
    Ok(all)
}

/// Returns the model with one tensor in another type, as the bytes of a GGUF file.
///
/// # Errors
/// As [`quantize`](crate::quantize()).
pub fn probe(source: &Gguf, options: &Options<'_>, name: &str, dtype: DType) -> Result<Vec<u8>, Error> {
    let mut writer = GgufWriter::new();
    for (key, value) in source.metadata().iter().filter(|(key, _)| !key.starts_with("split.")) {
        writer.set(key, value.clone());
    }
    for info in source.tensor_info() {
        let view = source.require(&info.name)?;
        if info.name != name {
            writer.add_tensor(&info.name, view.dtype(), &info.shape, view.bytes())?;
            continue;
        }
        let importance = match options.imatrix {
            Some(imatrix) => imatrix.of(name, experts(&view), view.cols())?.map(weights::soften),
            None => None,
        };
        let cpu = cpu(options.threads)?;
        let job = Job::new(&cpu, source.path(), view, dtype, importance.as_deref());
        let mut bytes = Vec::new();
        job.run(&mut bytes, &mut |_| Ok(()))?;
        writer.add_tensor(name, dtype, &info.shape, bytes)?;
    }
    Ok(writer.to_vec()?)
}

/// Gives every tensor of the plan a type, so that all of them have at most `budget` bytes and the least cost. `costs`
/// are factors of the errors, in the order of the candidates.
///
/// # Errors
/// Even the smallest types are too large.
pub fn choose(plan: &mut Plan, all: &[Candidates], costs: &[f64], budget: usize) -> Result<(), Error> {
    let other: usize = plan.bytes() - all.iter().map(|c| plan.tensors[c.tensor].bytes).sum::<usize>();
    let size = |chosen: &[Candidate]| other + chosen.iter().map(|c| c.bytes).sum::<usize>();
    let at = |price: f64| -> Vec<Candidate> {
        let cheapest = |(of, cost): (&Candidates, &f64)| {
            let total = |c: &Candidate| cost * c.error + price * c.bytes as f64;
            let first = of.types.iter().copied().min_by(|a, b| total(a).total_cmp(&total(b)));
            first.unwrap_or_else(|| of.probe())
        };
        all.iter().zip(costs).map(cheapest).collect()
    };
    let smallest: usize = other + all.iter().filter_map(|c| c.types.first()).map(|c| c.bytes).sum::<usize>();
    if smallest > budget {
        let what = format!("{budget} bytes: the smallest types need {smallest}");
        return Err(Error::Model { file: "size".to_owned(), what });
    }
    // Bisection of the price per byte, between one that is too low and one at which the size fits.
    let (mut low, mut high) = (0.0, 1e-300);
    while size(&at(high)) > budget {
        (low, high) = (high, high * 16.0);
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if size(&at(middle)) > budget { low = middle } else { high = middle }
    }
    let mut chosen = at(high);
    // The remaining budget goes to the types with the largest gain per byte.
    loop {
        let left = budget - size(&chosen);
        let mut best: Option<(f64, usize, Candidate)> = None;
        for (i, ((of, cost), now)) in all.iter().zip(costs).zip(&chosen).enumerate() {
            for c in of.types.iter().filter(|c| c.bytes > now.bytes && c.bytes - now.bytes <= left) {
                let gain = cost * (now.error - c.error) / (c.bytes - now.bytes) as f64;
                if gain > 0.0 && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, i, *c));
                }
            }
        }
        let Some((_, i, c)) = best else { break };
        chosen[i] = c;
    }
    for (of, c) in all.iter().zip(chosen) {
        let choice: &mut Choice = &mut plan.tensors[of.tensor];
        (choice.to, choice.bytes, choice.fallback) = (c.dtype, c.bytes, false);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sizes: &[usize]) -> (Plan, Vec<Candidates>) {
        let choice = |(i, n): (usize, &usize)| Choice {
            name: format!("blk.{i}.ffn_up.weight"),
            shape: vec![*n / 256, 256],
            from: DType::F16,
            to: DType::F16,
            bytes: 2 * n,
            fallback: false,
        };
        let tensors = sizes.iter().enumerate().map(choice).collect();
        // Errors fall by a factor of four with each bit.
        let of = |(tensor, n): (usize, &usize)| {
            let bits = [(DType::Q2K, 2), (DType::Q4K, 4), (DType::Q8_0, 8)];
            let types = bits.map(|(dtype, bits)| Candidate {
                dtype,
                bytes: n * bits / 8,
                error: *n as f64 * 0.25_f64.powi(bits as i32),
            });
            Candidates { tensor, types: types.to_vec() }
        };
        (Plan { tensors }, sizes.iter().enumerate().map(of).collect())
    }

    #[test]
    fn bytes_go_where_they_gain_most() {
        let (mut chosen, all) = plan(&[1024, 1024, 4096]);
        // The second tensor costs a thousand times what the others do.
        choose(&mut chosen, &all, &[1.0, 1000.0, 1.0], 256 + 1024 + 1024).unwrap();
        assert!(chosen.bytes() <= 2304);
        assert_eq!(
            chosen.tensors.iter().map(|t| t.to).collect::<Vec<_>>(),
            [DType::Q2K, DType::Q8_0, DType::Q2K]
        );
        let (mut chosen, all) = plan(&[1024, 1024]);
        choose(&mut chosen, &all, &[1.0, 1.0], 1024).unwrap();
        assert_eq!(chosen.tensors.iter().map(|t| t.to).collect::<Vec<_>>(), [DType::Q4K, DType::Q4K]);
        choose(&mut chosen, &all, &[0.0, 0.0], 600).unwrap();
        assert!(chosen.bytes() <= 600);
        let told = choose(&mut chosen, &all, &[1.0, 1.0], 500).unwrap_err().to_string();
        assert!(told.contains("the smallest types need 512"), "{told}");
    }
}
