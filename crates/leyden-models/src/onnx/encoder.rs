//! Match of a traced graph against the encoder that a configuration describes, from the output back to the embeddings.
//! It identifies the tensor of each weight.

use super::eval::{Eval, Refused};
use super::nums::Nums;
use super::texts::near;
use super::value::{Binary, Function, Op, Text};
use super::weight::Weight;
use crate::config::{
    ClassifierConfig, DenseActivation, HeadConfig, Labelled, LayerConfig, ModelConfig, NormKind,
    NormPlacement, PositionBias,
};
use crate::layers::bucket;
use crate::pooling::Pooling;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::Activation;

/// Absolute tolerance of a norm's epsilon: half precision rounds small values to multiples of 6e-8.
const EPS: f64 = 2e-7;

/// Sample texts to trace a graph with.
pub(super) struct Probe {
    /// Number of texts, and of tokens of each.
    pub(super) size: [usize; 2],
    /// Token ids `[texts, tokens]`.
    pub(super) ids: Vec<usize>,
    /// Token types `[texts, tokens]`.
    pub(super) types: Vec<usize>,
}

/// Match of a traced graph. Its methods take the result of an operation and return the operation's input.
pub(super) struct Matcher<'e, 'a> {
    pub(super) eval: &'e Eval<'a>,
    pub(super) config: &'e ModelConfig,
    pub(super) probe: &'e Probe,
    /// Weights found so far, by their names in GGUF.
    pub(super) found: Vec<(String, Weight)>,
    /// Name of the output, which errors name if there is no node.
    pub(super) output: &'e str,
}

/// Checks that a configuration describes an encoder whose graphs are supported: post-norm, ungated, with learned
/// positions.
pub(super) fn check(c: &ModelConfig) -> Result<(), String> {
    let plain = |layer: &LayerConfig| {
        matches!(layer.mask, Mask::Full)
            && layer.norms == NormPlacement::Post
            && !layer.gated
            && layer.rope.is_none()
            && layer.heads == layer.kv_heads
            && layer.head_dim == layer.value_dim
            && matches!(layer.position_bias, None | Some(PositionBias::Buckets { .. }))
    };
    let norm = c.norm.kind == NormKind::Layer && c.embedding_norm && c.learned_positions.is_some();
    match norm && c.layers.iter().all(plain) && c.sparse.is_none() {
        true => Ok(()),
        false => {
            Err("the graphs of this architecture are not read: export its weights as safetensors".into())
        }
    }
}

impl Matcher<'_, '_> {
    fn refused<T>(&self, at: &Text, what: impl Into<String>) -> Result<T, Refused> {
        let nodes = &self.eval.onnx.graph().nodes;
        let node = self.eval.atoms.get(at.atom).and_then(|atom| nodes.get(atom.node));
        let name = node.map_or(self.output, |node| &node.name);
        Err((name.to_owned(), what.into()))
    }

    fn op(&self, text: &Text) -> &Op {
        self.eval.op(text)
    }

    fn keep(&mut self, name: String, weight: Weight) {
        self.found.push((name, weight));
    }

    /// Matches the graph's output: hidden states of all tokens, or logits of labels.
    pub(super) fn output(&mut self, out: &Text) -> Result<(), Refused> {
        let config = self.config;
        let states = match &config.head {
            HeadConfig::Classifier(classifier) => self.classifier(classifier, out)?,
            HeadConfig::States | HeadConfig::Logits => out.clone(),
        };
        self.states(&states)
    }

    /// Matches a classification head, and returns the hidden states that are its input.
    fn classifier(&mut self, classifier: &ClassifierConfig, out: &Text) -> Result<Text, Refused> {
        let [texts, tokens] = self.probe.size;
        let (labels, width) = (classifier.labels.len(), self.config.width);
        let name = if classifier.of == Labelled::Tokens { "cls.tokens" } else { "cls.output" };
        let mut x = self.linear(out, name, [width, labels])?;
        if let Some(dense) = classifier.dense {
            let function = match dense.activation {
                DenseActivation::Tanh => Function::Tanh,
                DenseActivation::Relu => Function::Relu,
                DenseActivation::Gelu => Function::Gelu,
            };
            x = match self.op(&x) {
                Op::Function(found, inner) if *found == function && x.is_plain() => inner.clone(),
                _ => return self.refused(&x, format!("the head has no {function:?} here, as the class has")),
            };
            x = self.linear(&x, "cls", [width, width])?;
        }
        let first = |i: usize| (i / width * tokens * width + i % width) as u32;
        let fits = match classifier.of {
            Labelled::Tokens => x.is_plain(),
            Labelled::Text(Pooling::Cls) => self.is_ordered(&x, texts * width, first),
            Labelled::Text(_) => false,
        };
        if !fits {
            return self.refused(&x, "the head takes other hidden states than that of the class");
        }
        let shape = vec![texts, tokens, width];
        Ok(Text { order: None, shape, ..x })
    }

    /// Returns true if `x` is unscaled and has `n` values, value `i` of which is value `place(i)` of its operation's
    /// result.
    fn is_ordered(&self, x: &Text, n: usize, place: impl Fn(usize) -> u32) -> bool {
        x.factor == 1.0
            && match &x.order {
                Some(order) => order.len() == n && order.iter().enumerate().all(|(i, &at)| at == place(i)),
                None => x.all == n && (0..n).all(|i| place(i) as usize == i),
            }
    }

    fn states(&mut self, out: &Text) -> Result<(), Refused> {
        let [texts, tokens] = self.probe.size;
        if out.shape.iter().product::<usize>() != texts * tokens * self.config.width {
            return self.refused(out, format!("gives values of shape {:?}, not states", out.shape));
        }
        let mut states = out.clone();
        for (i, layer) in self.config.layers.iter().enumerate().rev() {
            states = self.layer(i, layer, &states)?;
        }
        self.embeddings(&states)
    }

    /// Matches layer `i` by its output, and returns its input.
    fn layer(&mut self, i: usize, layer: &LayerConfig, out: &Text) -> Result<Text, Refused> {
        let (name, width) = (|part: &str| format!("blk.{i}.{part}"), self.config.width);
        let sum = self.norm(out, &name("layer_output_norm"), width)?;
        let (branch, middle) = self.residual(&sum, i)?;
        let inner = self.linear(&branch, &name("ffn_down"), [layer.ffn, width])?;
        let wanted = match layer.activation {
            Activation::GeluTanh => Function::GeluTanh,
            _ => Function::Gelu,
        };
        let inner = match self.op(&inner) {
            Op::Function(found, x) if *found == wanted && near(inner.factor, 1.0) && inner.is_whole() => {
                x.clone()
            }
            Op::Function(found, _) => {
                let what = format!("layer {i} has the function {found:?}, the configuration {wanted:?}");
                return self.refused(&inner, what);
            }
            _ => return self.refused(&inner, format!("layer {i} has no function here that is known")),
        };
        let up = self.linear(&inner, &name("ffn_up"), [width, layer.ffn])?;
        if !up.same(&middle) {
            return self
                .refused(&up, format!("the input of feed-forward layer {i} is not its residual stream"));
        }
        let sum = self.norm(&middle, &name("attn_output_norm"), width)?;
        let (branch, input) = self.residual(&sum, i)?;
        self.attention(i, layer, &branch, &input)?;
        Ok(input)
    }

    /// Matches a residual addition, and returns the sublayer's result and the residual stream.
    fn residual(&self, sum: &Text, i: usize) -> Result<(Text, Text), Refused> {
        let (a, b) = match self.op(sum) {
            Op::Binary(Binary::Add, a, b) if sum.is_plain() => (a.clone(), b.clone()),
            _ => return self.refused(sum, format!("layer {i} adds nothing to the residual stream here")),
        };
        // Embeddings that are projected to the width of the layers are the result of a matrix too.
        let is_branch = |x: &Text| match self.op(x) {
            Op::Linear { x, .. } => matches!(self.op(x), Op::Function(..) | Op::Product(..)),
            _ => false,
        };
        match (is_branch(&a), is_branch(&b)) {
            (true, false) => Ok((a, b)),
            (false, true) => Ok((b, a)),
            _ => {
                self.refused(sum, format!("layer {i} does not add a matrix's results to the residual stream"))
            }
        }
    }

    fn attention(&mut self, i: usize, layer: &LayerConfig, out: &Text, input: &Text) -> Result<(), Refused> {
        let [texts, tokens] = self.probe.size;
        let (heads, dim, width) = (layer.heads, layer.head_dim, self.config.width);
        let name = |part: &str| format!("blk.{i}.{part}");
        let mixed = self.linear(out, &name("attn_output"), [heads * dim, width])?;
        let n = texts * tokens * heads * dim;
        // Transpositions between `[texts, tokens, heads, dim]` and `[texts, heads, tokens, dim]`.
        let at = |b: usize, s: usize, h: usize, d: usize| ((((b * tokens) + s) * heads + h) * dim + d) as u32;
        let by_head = |i: usize| {
            let (d, s, h) = (i % dim, i / dim % tokens, i / dim / tokens % heads);
            at(i / dim / tokens / heads, s, h, d)
        };
        let by_key = |i: usize| {
            let (s, d, h) = (i % tokens, i / tokens % dim, i / dim / tokens % heads);
            at(i / dim / tokens / heads, s, h, d)
        };
        let by_token = |i: usize| {
            let (d, h, s) = (i % dim, i / dim % heads, i / dim / heads % tokens);
            ((((i / dim / heads / tokens) * heads + h) * tokens + s) * dim + d) as u32
        };
        let (shares, values) = match self.op(&mixed) {
            Op::Product(a, b) if self.is_ordered(&mixed, n, by_token) => (a.clone(), b.clone()),
            _ => return self.refused(&mixed, format!("layer {i} has no attention here that is known")),
        };
        let scores = match self.op(&shares) {
            Op::Softmax(x) if shares.is_plain() && shares.shape.ends_with(&[tokens, tokens]) => x.clone(),
            _ => return self.refused(&shares, format!("attention {i} has no softmax of scores")),
        };
        let scores = self.position_bias(i, layer, &scores)?;
        let (queries, keys) = match self.op(&scores) {
            Op::Product(a, b) if scores.is_whole() => (a.clone(), b.clone()),
            _ => return self.refused(&scores, format!("attention {i} has scores that are not known")),
        };
        if !near(scores.factor, f64::from(layer.attention_scale)) {
            let what =
                format!("scores are multiplied by {}, not by {}", scores.factor, layer.attention_scale);
            return self.refused(&scores, what);
        }
        let fits = queries.shape.ends_with(&[tokens, dim])
            && keys.shape.ends_with(&[dim, tokens])
            && values.shape.ends_with(&[tokens, dim])
            && self.is_ordered(&queries, n, by_head)
            && self.is_ordered(&keys, n, by_key)
            && self.is_ordered(&values, n, by_head);
        if !fits {
            return self
                .refused(&scores, format!("attention {i} has its heads in an order that is not known"));
        }
        for (part, x) in [("attn_q", &queries), ("attn_k", &keys), ("attn_v", &values)] {
            let whole = Text { order: None, ..x.clone() };
            let from = self.linear(&whole, &name(part), [width, heads * dim])?;
            if !from.same(input) {
                return self.refused(&whole, format!("the input of {part} of layer {i} is not the layer's"));
            }
        }
        Ok(())
    }

    /// Matches the position bias, if the configuration has one, and returns the scores without it.
    fn position_bias(&mut self, i: usize, layer: &LayerConfig, scores: &Text) -> Result<Text, Refused> {
        let Some(PositionBias::Buckets { count, longest }) = layer.position_bias else {
            return Ok(scores.clone());
        };
        let none = || format!("attention {i} has no bias of distances");
        let (a, b) = match self.op(scores) {
            Op::Binary(Binary::Add, a, b) if scores.is_plain() => (a.clone(), b.clone()),
            _ => return self.refused(scores, none()),
        };
        let is_rows = |x: &Text| matches!(self.op(x), Op::Rows { .. });
        let (rest, rows) = if is_rows(&b) { (a, b) } else { (b, a) };
        let (table, ids) = match self.op(&rows) {
            Op::Rows { table, ids } => (table.clone(), ids.clone()),
            _ => return self.refused(&rows, none()),
        };
        let (tokens, heads) = (self.probe.size[1], layer.heads);
        let of = |place: usize| bucket((place % tokens) as i64 - (place / tokens) as i64, count, longest);
        let right = ids.data.len() == tokens * tokens
            && ids.data.iter().enumerate().all(|(place, id)| *id == of(place) as f64);
        // `[heads, queries, keys]`, the same for each text.
        let place = |j: usize| ((j % (tokens * tokens)) * heads + j / tokens / tokens % heads) as u32;
        let n = rows.shape.iter().product::<usize>();
        if !right || n % (heads * tokens * tokens) != 0 || !self.is_ordered(&rows, n, place) {
            return self.refused(&rows, format!("attention {i} has another bias of distances"));
        }
        if self.found.iter().all(|(name, _)| name != "rel_embd.weight") {
            self.table(&rows, "rel_embd", table, heads)?;
        }
        Ok(rest)
    }

    fn norm(&mut self, x: &Text, name: &str, width: usize) -> Result<Text, Refused> {
        let (input, weight, bias, eps) = match self.op(x) {
            Op::Norm { x: input, weight, bias, eps } if x.is_plain() => {
                (input.clone(), weight.clone(), bias.clone(), *eps)
            }
            _ => return self.refused(x, format!("there is no layer normalisation for `{name}` here")),
        };
        let wanted = f64::from(self.config.norm.eps);
        let fits = (eps - wanted).abs() <= EPS.max(wanted * 1e-3);
        if !fits {
            return self
                .refused(x, format!("adds {eps:e} to the variance, the configuration says {wanted:e}"));
        }
        let (true, Some(bias)) = (weight.stored == [width], bias) else {
            return self.refused(x, format!("the layer normalisation for `{name}` has other weights"));
        };
        self.keep(format!("{name}.weight"), weight);
        self.keep(format!("{name}.bias"), bias);
        Ok(input)
    }

    /// Matches a product with a matrix of shape `size`, and returns its input.
    fn linear(&mut self, x: &Text, name: &str, size: [usize; 2]) -> Result<Text, Refused> {
        let (input, weight, bias) = match self.op(x) {
            Op::Linear { x: input, weight, bias } if x.is_plain() => {
                (input.clone(), weight.clone(), bias.clone())
            }
            _ => return self.refused(x, format!("there is no matrix for `{name}` here")),
        };
        if weight.shape() != size {
            let what =
                format!("`{name}` is a matrix of {:?}, the configuration says {size:?}", weight.shape());
            return self.refused(x, what);
        }
        self.keep(format!("{name}.weight"), weight.transpose());
        if let Some(bias) = bias {
            self.keep(format!("{name}.bias"), bias);
        }
        Ok(input)
    }

    fn table(&mut self, x: &Text, name: &str, table: Weight, columns: usize) -> Result<(), Refused> {
        if table.shape().get(1) != Some(&columns) || !table.is_floats() {
            return self.refused(x, format!("`{name}` is a table of shape {:?}", table.shape()));
        }
        self.keep(format!("{name}.weight"), table);
        Ok(())
    }

    fn embeddings(&mut self, states: &Text) -> Result<(), Refused> {
        let c = self.config;
        let width = c.embedding_width.unwrap_or(c.width);
        let mut states = states.clone();
        if c.embedding_width.is_some() {
            states = self.linear(&states, "token_embd_proj", [width, c.width])?;
        }
        let sum = self.norm(&states, "token_embd_norm", width)?;
        let mut terms = Vec::new();
        let mut waiting = vec![sum];
        while let Some(x) = waiting.pop() {
            match self.op(&x) {
                Op::Binary(Binary::Add, a, b) if x.is_plain() && terms.len() + waiting.len() < 8 => {
                    waiting.extend([a.clone(), b.clone()]);
                }
                Op::Rows { table, ids } if x.is_plain() => {
                    terms.push((x.clone(), table.clone(), ids.clone()))
                }
                _ => return self.refused(&x, "adds a value to the embeddings that is no embedding"),
            }
        }
        let first = c.learned_positions.unwrap_or(0);
        for (x, table, ids) in terms {
            let name = match self.kind_of(&ids, first) {
                Some(name) => name,
                None => {
                    return self.refused(
                        &x,
                        "takes rows of a table by values that are no token ids, types or positions",
                    );
                }
            };
            if self.found.iter().any(|(found, _)| found.strip_suffix(".weight") == Some(name)) {
                return self.refused(&x, format!("has `{name}` twice"));
            }
            // A graph without token types uses the first text's type for all tokens.
            let ones = ids.data.iter().zip(&self.probe.types).any(|(id, wanted)| *id != *wanted as f64);
            let table = match name == "token_types" && ones {
                true => match table.first_row(self.eval.onnx) {
                    Ok(row) => row,
                    Err(what) => return self.refused(&x, what),
                },
                false => table,
            };
            self.table(&x, name, table, width)?;
        }
        for wanted in ["token_embd.weight", "position_embd.weight"] {
            if self.found.iter().all(|(name, _)| name != wanted) {
                return self.refused(&states, format!("the embeddings lack `{wanted}`"));
            }
        }
        Ok(())
    }

    /// Returns the name of the embedding table whose rows have these ids.
    fn kind_of(&self, ids: &Nums, first: usize) -> Option<&'static str> {
        let [texts, tokens] = self.probe.size;
        let is = |wanted: &dyn Fn(usize) -> usize| {
            ids.data.iter().enumerate().all(|(i, id)| *id == wanted(i) as f64)
        };
        let whole = ids.data.len() == texts * tokens;
        let (all, probe) = (&self.probe.ids, self.probe);
        if whole && is(&|i| all[i]) {
            Some("token_embd")
        } else if ids.shape.last() == Some(&tokens) && is(&|i| first + i % tokens) {
            Some("position_embd")
        } else if whole && is(&|i| probe.types[i]) || is(&|_| 0) {
            Some("token_types")
        } else {
            None
        }
    }
}
