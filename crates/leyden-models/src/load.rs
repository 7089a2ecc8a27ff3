//! From a weight source to a decoder: finds, checks and packs the tensors.

use crate::arch::config_of;
use crate::config::DecoderConfig;
use crate::decoder::Decoder;
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::layers::{Attention, FeedForward, GatedFeedForward, Layer, Linear, Mixture, Parts};
use crate::packs::{PackCache, PackReport, Packs};
use leyden_kernels::Cpu;
use leyden_kernels::matmul::PackedMatrix;
use leyden_tensor::{TensorView, WeightSource, quant};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Loads the model in `source` and packs its weights for `cpu`. `progress` is called with the bytes of weights
/// packed so far and in all.
///
/// # Errors
/// The architecture is not supported; a size or tensor is missing, has the wrong shape or an unsupported type;
/// the file has tensors that the architecture does not use; or memory is short.
pub fn load(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Decoder, Error> {
    Ok(load_with(source, cpu, &PackCache::Off, progress)?.0)
}

/// As [`load`], with packed weights from a cache or kept in one.
///
/// # Errors
/// As [`load`]. What is wrong with the cache is no error, and is told in the report.
pub fn load_with(
    source: Arc<dyn WeightSource>,
    cpu: &Cpu,
    cache: &PackCache,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Decoder, PackReport), Error> {
    let config = config_of(source.as_ref())?;
    let total = source.tensor_info().iter().map(|t| t.bytes as u64).sum();
    let loader = Loader {
        source: source.as_ref(),
        cpu,
        used: RefCell::default(),
        packs: RefCell::new(Packs::new(cache, source.as_ref())),
        progress: RefCell::new((0, total, progress)),
    };
    let parts = loader.parts(&config)?;
    loader.check_all_used(&config)?;
    if source.truncated() {
        return Err(Error::truncated(&source.path().display().to_string()));
    }
    let packs = loader.packs.into_inner();
    let (report, pack) = packs.finish(cpu, source.as_ref(), &parts.matrices());
    Ok((Decoder::new(config, source, pack, parts), report))
}

/// Bytes done, bytes in all, and whom to tell.
type Progress<'a> = (u64, u64, &'a mut dyn FnMut(u64, u64));

struct Loader<'a> {
    source: &'a dyn WeightSource,
    cpu: &'a Cpu,
    used: RefCell<HashSet<String>>,
    packs: RefCell<Packs<'a>>,
    progress: RefCell<Progress<'a>>,
}

impl Loader<'_> {
    /// The error of a tensor, by its name in the file.
    fn invalid(&self, name: &str, what: String) -> Error {
        let info = self.source.tensor_info().iter().find(|t| t.name == name);
        let paths = self.source.paths();
        let path = info.and_then(|t| paths.get(t.file).copied()).unwrap_or(self.source.path());
        Error::invalid(&path.display().to_string(), name, what)
    }

    fn parts(&self, c: &DecoderConfig) -> Result<Parts, Error> {
        let embeddings = self.source.require("token_embd.weight")?;
        self.used.borrow_mut().insert(embeddings.name().to_owned());
        if embeddings.shape().len() != 2 || embeddings.cols() != c.width {
            let found =
                format!("shape {:?} does not match the model's width {}", embeddings.shape(), c.width);
            return Err(self.invalid(embeddings.name(), found));
        }
        let vocabulary = embeddings.rows();
        let divisors = self.vector("rope_freqs.weight", c.rope.dims / 2)?;
        if let Some(bad) = divisors.iter().flatten().find(|d| !(d.is_finite() && **d > 0.0)) {
            let what = format!("{bad} is not a positive number");
            return Err(self.invalid("rope_freqs.weight", what));
        }
        let layers = (0..c.layers).map(|i| self.layer(c, i)).collect::<Result<_, _>>()?;
        let norm = self.required_vector("output_norm.weight", c.width)?;
        // Without a matrix of its own the output shares the embedding's.
        let head = match self.source.optional("output.weight")? {
            Some(_) => self.matrix("output.weight", vocabulary, c.width)?,
            None => self.matrix("token_embd.weight", vocabulary, c.width)?,
        };
        let frequencies = Frequencies::new(&c.rope, divisors.as_deref());
        Ok(Parts { vocabulary, frequencies, layers, norm, head })
    }

    fn layer(&self, c: &DecoderConfig, i: usize) -> Result<Layer, Error> {
        let name = |part: &str| format!("blk.{i}.{part}");
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let linear = |part: &str, rows, k| self.linear(&name(part), rows, k);
        Ok(Layer {
            attention_norm: self.required_vector(&name("attn_norm.weight"), c.width)?,
            attention: Attention {
                query: linear("attn_q", q, c.width)?,
                key: linear("attn_k", kv, c.width)?,
                value: linear("attn_v", kv, c.width)?,
                head_norm: if c.head_norm {
                    Some([
                        self.required_vector(&name("attn_q_norm.weight"), c.head_dim)?,
                        self.required_vector(&name("attn_k_norm.weight"), c.head_dim)?,
                    ])
                } else {
                    None
                },
                output: linear("attn_output", c.width, q)?,
            },
            ffn_norm: self.required_vector(&name("ffn_norm.weight"), c.width)?,
            ffn: match c.experts {
                None => FeedForward::Gated(GatedFeedForward {
                    gate: linear("ffn_gate", c.ffn, c.width)?,
                    up: linear("ffn_up", c.ffn, c.width)?,
                    down: linear("ffn_down", c.width, c.ffn)?,
                }),
                Some(config) => {
                    let stack = |part, rows, k| self.packed(&name(part), &[config.count, rows, k]);
                    FeedForward::Mixture(Mixture {
                        config,
                        router: self.matrix(&name("ffn_gate_inp.weight"), config.count, c.width)?,
                        gate: stack("ffn_gate_exps.weight", c.ffn, c.width)?,
                        up: stack("ffn_up_exps.weight", c.ffn, c.width)?,
                        down: stack("ffn_down_exps.weight", c.width, c.ffn)?,
                    })
                }
            },
        })
    }

    /// A matrix with its bias, if it has one.
    fn linear(&self, name: &str, rows: usize, k: usize) -> Result<Linear, Error> {
        let weights = self.matrix(&format!("{name}.weight"), rows, k)?;
        let bias = self.vector(&format!("{name}.bias"), rows)?;
        Ok(Linear { weights, bias })
    }

    fn checked<'s>(&self, t: TensorView<'s>, shape: &[usize]) -> Result<TensorView<'s>, Error> {
        self.used.borrow_mut().insert(t.name().to_owned());
        if t.shape() == shape {
            return Ok(t);
        }
        let what = format!("shape {:?} does not match the model's {shape:?}", t.shape());
        Err(self.invalid(t.name(), what))
    }

    fn matrix(&self, name: &str, rows: usize, k: usize) -> Result<PackedMatrix, Error> {
        self.packed(name, &[rows, k])
    }

    /// A matrix, or a stack of them.
    fn packed(&self, name: &str, shape: &[usize]) -> Result<PackedMatrix, Error> {
        let view = self.checked(self.source.require(name)?, shape)?;
        let short = |e| Error::resources(&self.source.path().display().to_string(), e);
        let packed = match self.packs.borrow_mut().take(self.cpu, &view).map_err(short)? {
            Some(packed) => packed,
            None => {
                self.source.advise_willneed(name);
                let mut release = |bytes| self.source.advise_dontneed(name, bytes);
                PackedMatrix::pack_in_slices(self.cpu, &view, &mut release).map_err(short)?
            }
        };
        let mut progress = self.progress.borrow_mut();
        progress.0 += view.bytes().len() as u64;
        let (done, total, tell) = &mut *progress;
        tell((*done).min(*total), *total);
        Ok(packed)
    }

    fn vector(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>, Error> {
        self.source.optional(name)?.map(|view| self.decoded(view, n)).transpose()
    }

    fn required_vector(&self, name: &str, n: usize) -> Result<Vec<f32>, Error> {
        self.decoded(self.source.require(name)?, n)
    }

    fn decoded(&self, view: TensorView<'_>, n: usize) -> Result<Vec<f32>, Error> {
        let view = self.checked(view, &[n])?;
        let mut out = vec![0.0; n];
        quant::decode_row(view.dtype(), view.bytes(), &mut out);
        Ok(out)
    }

    /// A tensor nobody asked for means that the file computes something we do not.
    fn check_all_used(&self, c: &DecoderConfig) -> Result<(), Error> {
        let used = self.used.borrow();
        // Old files have the rotary frequencies, which follow from the configuration.
        let frequencies = |n: &str| n.ends_with("attn_rot_embd") || n.ends_with("rotary_emb.inv_freq");
        let unused = |n: &&str| !used.contains(*n) && !frequencies(n);
        match self.source.tensor_names().into_iter().find(unused) {
            Some(name) => {
                let what = format!("architecture `{}` has no use for this tensor", c.architecture);
                Err(self.invalid(name, what))
            }
            None => Ok(()),
        }
    }
}
