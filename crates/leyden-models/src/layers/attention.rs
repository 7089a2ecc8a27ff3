//! Self-attention.

use super::linear::{Linear, OutputOf, apply_adapted};
use super::norm::Norm;
use super::position_bias::{AttentionInput, Bias};
use super::residual::Residual;
use super::rope::Ropes;
use crate::batch::Rows;
use crate::config::{
    LayerConfig, ModelConfig, NormConfig, NormKind, QkNorm, RopeConfig, Temperature, Values,
};
use crate::error::Error;
use crate::int8::Int8Finish;
use crate::loader::{Loader, Part};
use crate::stored::QkvRows;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{AttentionOptions, KvCache, Mask, WholeTexts, attention, attention_of_texts};
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{RopePairs, Rotation, ln, rope, sigmoid};

/// Self-attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention {
    /// Index of its keys and values in the cache.
    layer: usize,
    query: Linear,
    /// Gate of the results.
    gate: Option<Linear>,
    /// Projections to keys and values, unless it shares those of another layer.
    own: Option<KeysValues>,
    /// Norm of queries, applied to as many values at a time as it has weights.
    query_norm: Option<Norm>,
    temperature: Option<Temperature>,
    output: Linear,
    head_dim: usize,
    /// Pairs of values that are rotated, and the index of the rotation in [`Ropes`].
    rope: Option<(RopePairs, usize)>,
    scale: f32,
    mask: Mask,
    soft_cap: Option<f32>,
    /// Attention sinks `[heads]`.
    sinks: Option<Vec<f32>>,
    /// Position bias, and the layer's configuration.
    bias: Option<(Bias, LayerConfig)>,
    /// Number of query heads and of key-value heads, for an encoder in 8-bit integers: its attention is computed over
    /// whole texts in 8-bit integers, without the cache.
    texts: Option<[usize; 2]>,
}

/// Projections to keys and values, and their norms.
#[derive(Debug)]
struct KeysValues {
    key: Linear,
    /// Value projection; without one, values are the keys before their norm.
    value: Option<Linear>,
    key_norm: Option<Norm>,
    value_norm: Option<Norm>,
}

impl KeysValues {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        [&self.key].into_iter().chain(&self.value)
    }
}

impl Attention {
    pub(crate) fn load(
        loader: &Loader<'_>,
        c: &ModelConfig,
        i: usize,
        ropes: &mut Ropes,
    ) -> Result<Attention, Error> {
        let layer = &c.layers[i];
        let mixed = layer.heads * layer.value_dim;
        let qk_norm = NormConfig { kind: NormKind::Rms, ..c.norm };
        let norm = |part: &str, n| Norm::load(loader, qk_norm, &format!("blk.{i}.{part}"), n);
        let rope = |rope: &RopeConfig| Ok::<_, Error>((rope.pairs, ropes.index(loader, rope)?));
        let ((query, [key, value]), gate) = match layer.output_gate {
            true => gated_queries(loader, layer, c.width, i)?,
            false => (queries_keys_values(loader, layer, c.width, i)?, None),
        };
        let bias = match &key {
            Some(key) => Bias::load(loader, c, i, [&query, key])?,
            None => None,
        };
        // Disentangled attention multiplies relative positions with the matrices of queries and keys too, which
        // adapters do not change.
        let changes = !matches!(bias, Some(Bias::Disentangled(_)));
        let adaptable = |linear: Linear| if changes { linear.adaptable(loader) } else { linear };
        let (query, gate) = (adaptable(query), gate.map(adaptable));
        let [key, value] = [key, value].map(|linear| linear.map(adaptable));
        let plain = layer.attention_soft_cap.is_none() && !layer.sinks && layer.mask.is_bidirectional();
        let texts = loader.int8_encoder() && plain && !matches!(bias, Some(Bias::Disentangled(_)));
        let (heads, kv_heads, dim) = (layer.heads, layer.kv_heads, layer.head_dim);
        let sizes = match layer.qk_norm {
            QkNorm::None => None,
            QkNorm::HeadIfThere if !loader.has(&format!("blk.{i}.attn_q_norm.weight"))? => None,
            QkNorm::Head | QkNorm::HeadIfThere => Some((dim, dim)),
            QkNorm::Whole => Some((heads * dim, kv_heads * dim)),
        };
        let own = |key: Linear| {
            Ok::<_, Error>(KeysValues {
                key,
                value,
                key_norm: sizes.map(|(_, k)| norm("attn_k_norm", k)).transpose()?,
                value_norm: match layer.values {
                    Values::Own => None,
                    Values::Normalised | Values::Keys => Some(Norm::plain_rms(layer.value_dim, c.norm.eps)),
                },
            })
        };
        Ok(Attention {
            texts: texts.then_some([layer.heads, layer.kv_heads]),
            bias: bias.map(|bias| (bias, layer.clone())),
            // If texts are computed whole, keys and values are read in their own layer only, so all layers share one
            // place.
            layer: if c.needs_whole_texts() { 0 } else { layer.kv_of.unwrap_or(i) },
            query,
            gate,
            own: key.map(own).transpose()?,
            query_norm: sizes.map(|(q, _)| norm("attn_q_norm", q)).transpose()?,
            temperature: layer.temperature,
            output: Linear::load(loader, &format!("blk.{i}.attn_output"), c.width, mixed)?.adaptable(loader),
            head_dim: layer.head_dim,
            rope: layer.rope.as_ref().map(rope).transpose()?,
            scale: layer.attention_scale,
            mask: layer.mask,
            soft_cap: layer.attention_soft_cap,
            sinks: match layer.sinks {
                true => Some(loader.required_vector(&format!("blk.{i}.attn_sinks.weight"), layer.heads)?),
                false => None,
            },
        })
    }

    /// Returns its matrices, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let own = self.own.iter().flat_map(KeysValues::linears);
        let all = [&self.query].into_iter().chain(own).chain([&self.output]).chain(&self.gate);
        all.map(|l| &l.weights).collect()
    }

    /// Finishes its matrices of INT8 rows.
    pub(crate) fn finish_int8(&mut self, finish: &mut Int8Finish<'_>) -> Result<(), leyden_kernels::Error> {
        let input = self.query.name.clone();
        let own = self.own.iter_mut().flat_map(|own| [&mut own.key].into_iter().chain(&mut own.value));
        let mut of_input = [&mut self.query].into_iter().chain(own).chain(&mut self.gate);
        of_input.try_for_each(|linear| linear.finish_int8(finish, &input))?;
        let output = self.output.name.clone();
        self.output.finish_int8(finish, &output)
    }

    /// Returns the matrices whose products go into the cache.
    pub(crate) fn stored(&self) -> Vec<&PackedWeights> {
        self.own.iter().flat_map(KeysValues::linears).map(|l| &l.weights).collect()
    }

    /// Stores keys and values of all rows of `work.normed` in the cache. The stream then holds `rows` alone, whose
    /// queries are in `work.attention.queries`. If the layer has no keys and values of its own, the stream may hold
    /// `rows` alone before.
    pub(crate) fn store(&self, cpu: &Cpu, rows: &[usize], cache: &mut KvCache, work: &mut Workspace) {
        let width = self.query.weights.k();
        let n = work.normed.len() / width;
        if let Some(sums) = &mut work.sums {
            let own = self.own.iter().flat_map(KeysValues::linears);
            let names: Vec<&str> = [&self.query].into_iter().chain(own).map(|l| &l.name[..]).collect();
            sums.add_all(&names, &work.normed, width);
        }
        work.attention.queries.resize(rows.len() * self.query.weights.rows());
        let mut products = Vec::new();
        if let Some(own) = &self.own {
            work.attention.keys.resize(n * own.key.weights.rows());
            products.push((&own.key, &mut work.attention.keys[..]));
            if let Some(value) = &own.value {
                work.attention.values.resize(n * value.weights.rows());
                products.push((value, &mut work.attention.values[..]));
            }
        }
        if rows.len() == n {
            products.push((&self.query, &mut work.attention.queries[..]));
            apply_adapted(cpu, &mut work.adapters, &mut work.activations, &work.normed, Write::Set, products);
        } else {
            apply_adapted(cpu, &mut work.adapters, &mut work.activations, &work.normed, Write::Set, products);
            keep(rows, width, &mut work.normed);
            keep(rows, width, &mut work.stream);
            let query = (&self.query, &mut work.attention.queries[..]);
            apply_adapted(cpu, &mut work.adapters, &mut work.activations, &work.normed, Write::Set, [query]);
        }
        if let Some(own) = &self.own {
            if own.value.is_none() {
                work.attention.values.resize(work.attention.keys.len());
                work.attention.values.copy_from_slice(&work.attention.keys);
            }
            if let Some(norm) = &own.value_norm {
                norm.in_place(cpu, &mut work.attention.values);
            }
        }
        if let Some(gate) = &self.gate {
            work.attention.gates.resize(rows.len() * gate.weights.rows());
            apply_adapted(
                cpu,
                &mut work.adapters,
                &mut work.activations,
                &work.normed,
                Write::Set,
                [(gate, &mut work.attention.gates[..])],
            );
        }
        let rotations = self.rope.map(|(_, number)| &work.step.rotations[number]);
        let queries = (self.query.weights.rows(), self.query_norm.as_ref());
        self.normalise_and_rotate(cpu, &mut work.attention.queries, queries, |i| {
            rotations.map(|all| &all[rows[i]])
        });
        if let Some(own) = &self.own {
            let keys = (own.key.weights.rows(), own.key_norm.as_ref());
            self.normalise_and_rotate(cpu, &mut work.attention.keys, keys, |i| rotations.map(|all| &all[i]));
        }
        if let Some(temperature) = self.temperature {
            let positions = &work.step.positions;
            cpu.for_rows(&mut work.attention.queries, self.query.weights.rows(), |i, row| {
                let factor = temperature.at(positions[rows[i]]);
                row.iter_mut().for_each(|q| *q *= factor);
            });
        }
        if self.bias.is_none() && self.texts.is_none() && self.own.is_some() {
            cache.append(cpu, self.layer, &work.step.slots, &work.attention.keys, &work.attention.values);
        }
    }

    /// Normalises and rotates the heads of every row of `vectors` `[rows, width]`, if there is a norm and a rotation.
    fn normalise_and_rotate<'r>(
        &self,
        cpu: &Cpu,
        vectors: &mut [f32],
        (width, norm): (usize, Option<&Norm>),
        rotation: impl Fn(usize) -> Option<&'r Rotation> + Sync,
    ) {
        if norm.is_none() && self.rope.is_none() {
            return;
        }
        cpu.for_rows(vectors, width, |i, row| {
            if let Some(norm) = norm {
                norm.heads(cpu.tier(), row);
            }
            if let (Some((pairs, _)), Some(rotation)) = (self.rope, rotation(i)) {
                rope(cpu.tier(), row, self.head_dim, pairs, rotation);
            }
        });
    }

    /// Returns the output projection, unless the results are gated before it.
    pub(crate) fn plain_output(&self) -> Option<&Linear> {
        self.gate.is_none().then_some(&self.output)
    }

    /// Computes attention for `rows`, the rows in the stream, and adds the results to it.
    pub(crate) fn attend(
        &self,
        cpu: &Cpu,
        rows: &Rows<'_>,
        cache: &KvCache,
        to: Residual<'_>,
        work: &mut Workspace,
    ) {
        self.mix(cpu, rows, cache, work);
        to.write(cpu, work, |work, out, write| {
            work.project_out(cpu, OutputOf::Attention, &self.output, out, write)
        });
    }

    /// Computes the input of the output projection, into `work.attention.mixed`.
    pub(crate) fn mix(&self, cpu: &Cpu, rows: &Rows<'_>, cache: &KvCache, work: &mut Workspace) {
        let (spans, starts) = (&rows.spans[..], &rows.text_starts[..]);
        let &Attention { layer, scale, mask, soft_cap, .. } = self;
        let options = AttentionOptions { scale, mask, soft_cap, sinks: self.sinks.as_deref() };
        let n = work.attention.queries.len() / self.query.weights.rows();
        work.attention.mixed.resize(n * self.output.weights.k());
        match &self.bias {
            bias if let Some(heads) = self.texts => {
                let longest = spans.iter().map(|span| span.stored).max().unwrap_or(1);
                let numbers = bias.as_ref().and_then(|(bias, _)| bias.by_distance(heads[0], longest));
                let value_dim = self.output.weights.k() / heads[0];
                let texts = WholeTexts {
                    spans,
                    starts,
                    queries: &work.attention.queries,
                    keys: &work.attention.keys,
                    values: &work.attention.values,
                    heads,
                    dims: [self.head_dim, value_dim],
                    scale,
                    mask,
                    by_distance: numbers.as_deref().map(|numbers| (numbers, longest)),
                };
                attention_of_texts(cpu, &texts, &mut work.attention.mixed);
            }
            None => attention(
                cpu,
                cache,
                layer,
                spans,
                &work.attention.queries,
                &options,
                &mut work.attention.mixed,
            ),
            Some((bias, layer)) => {
                let (queries, keys, values) =
                    (&work.attention.queries[..], &work.attention.keys[..], &work.attention.values[..]);
                let input = AttentionInput { layer, spans, starts, queries, keys, values };
                bias.attend(cpu, &input, &mut work.attention.mixed);
            }
        }
        if self.gate.is_some() {
            let width = self.output.weights.k();
            cpu.for_rows(&mut work.attention.gates, width, |_, row| sigmoid(cpu.tier(), row));
            let gates = &work.attention.gates;
            cpu.for_rows(&mut work.attention.mixed, width, |i, row| {
                row.iter_mut().zip(&gates[i * width..(i + 1) * width]).for_each(|(x, g)| *x *= g);
            });
        }
    }
}

impl Temperature {
    /// Returns the factor of the query at a position.
    fn at(self, position: usize) -> f32 {
        let whole = (position / self.length) as f64;
        (1.0 + f64::from(self.scale) * ln(1.0 + whole)) as f32
    }
}

/// Projection to queries, and those to keys and values if there are any.
type QueriesKeysValues = (Linear, [Option<Linear>; 2]);

/// Loads the matrices of queries, keys and values, and of the gate, whose rows follow those of each head's query.
fn gated_queries(
    loader: &Loader<'_>,
    layer: &LayerConfig,
    width: usize,
    i: usize,
) -> Result<(QueriesKeysValues, Option<Linear>), Error> {
    let (heads, dim) = (layer.heads, layer.head_dim);
    let name = |part: &str| format!("blk.{i}.attn_{part}");
    let part = |label, from: usize| {
        let rows = (0..heads).map(|h| (2 * h + from) * dim..(2 * h + from + 1) * dim).collect();
        Linear::load_part(loader, &name("q"), 2 * heads * dim, width, &Part { label, rows })
    };
    let linear = |part: &str, dim| Linear::load(loader, &name(part), layer.kv_heads * dim, width);
    let all = (part("q", 0)?, [linear("k", dim)?, linear("v", layer.value_dim)?].map(Some));
    Ok((all, Some(part("gate", 1)?)))
}

/// Loads the matrices of queries, keys and values, which the file may store as one. A layer that shares another layer's
/// keys and values has neither matrix; a layer whose values are its keys has no matrix of values.
fn queries_keys_values(
    loader: &Loader<'_>,
    layer: &LayerConfig,
    width: usize,
    i: usize,
) -> Result<QueriesKeysValues, Error> {
    let (heads, kv_heads) = (layer.heads, layer.kv_heads);
    let [q, k, v] = [heads * layer.head_dim, kv_heads * layer.head_dim, kv_heads * layer.value_dim];
    let name = |part: &str| format!("blk.{i}.attn_{part}");
    if loader.has(&name("q.weight"))? {
        let linear = |part: &str, rows| Linear::load(loader, &name(part), rows, width);
        if layer.kv_of.is_some() {
            // Some files keep unused ones from training.
            for part in ["k.weight", "v.weight", "k.bias", "v.bias", "k_norm.weight"] {
                loader.ignore(&name(part))?;
            }
            return Ok((linear("q", q)?, [None, None]));
        }
        let value = match layer.values {
            Values::Keys if !loader.has(&name("v.weight"))? => None,
            _ => Some(linear("v", v)?),
        };
        return Ok((linear("q", q)?, [Some(linear("k", k)?), value]));
    }
    let each = [q, k, v];
    // The rows are stored in groups, each with its rows of queries, keys and values.
    let groups = match loader.qkv_rows() {
        QkvRows::Stacked => 1,
        QkvRows::Grouped => kv_heads,
    };
    let group = (q + k + v) / groups;
    let part = |label, which: usize| {
        let before: usize = each[..which].iter().sum::<usize>() / groups;
        let rows = |g| g * group + before..g * group + before + each[which] / groups;
        let part = Part { label, rows: (0..groups).map(rows).collect() };
        Linear::load_part(loader, &name("qkv"), q + k + v, width, &part)
    };
    let query = part("q", 0)?;
    if layer.kv_of.is_some() {
        return Ok((query, [None, None]));
    }
    Ok((query, [Some(part("k", 1)?), Some(part("v", 2)?)]))
}

/// Keeps only `rows` of `values` `[n, width]`; `rows` ascend.
pub(crate) fn keep(rows: &[usize], width: usize, values: &mut Aligned<f32>) {
    // Since rows ascend, each moves to its own place or an earlier one.
    for (to, &from) in rows.iter().enumerate() {
        values.copy_within(from * width..(from + 1) * width, to * width);
    }
    values.resize(rows.len() * width);
}
