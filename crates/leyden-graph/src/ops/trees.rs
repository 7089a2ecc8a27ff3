//! Ensembles of decision trees (ai.onnx.ml).
//!
//! Nodes of all trees are one array; a tree is walked from its root to a leaf, whose weights are added in the order of
//! the trees, in 32 bits as onnxruntime adds them.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs};
use crate::inputs::Inputs;
use crate::ops::linear::{Labels, PostTransform};
use crate::shape::Shape;
use crate::tensor::{Data, Tensor};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
    Leaf,
    /// One of a set of values; the threshold is the set's number.
    Member,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    rule: Rule,
    /// True if a missing value goes to the true branch.
    missing_true: bool,
    feature: u32,
    threshold: f32,
    /// Nodes after; of a leaf the range of its weights.
    yes: u32,
    no: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
}

/// The ensemble.
#[derive(Debug)]
struct Ensemble {
    nodes: Vec<Node>,
    roots: Vec<u32>,
    /// Target or class, and weight.
    weights: Vec<(u32, f32)>,
    sets: Vec<Vec<f32>>,
    targets: usize,
    base: Vec<f32>,
    aggregate: Aggregate,
    post: PostTransform,
    features: usize,
}

fn rule(name: &str) -> Result<Rule, Error> {
    Ok(match name {
        "BRANCH_LEQ" => Rule::LessOrEqual,
        "BRANCH_LT" => Rule::Less,
        "BRANCH_GTE" => Rule::GreaterOrEqual,
        "BRANCH_GT" => Rule::Greater,
        "BRANCH_EQ" => Rule::Equal,
        "BRANCH_NEQ" => Rule::NotEqual,
        "LEAF" => Rule::Leaf,
        other => return Err(format!("mode `{other}` of a node is not supported").into()),
    })
}

impl Ensemble {
    /// Reads the attributes of versions 1 and 3; `prefix` is that of the weights.
    fn read(a: &Attributes<'_, '_>, prefix: &str, ids: &str, targets: usize) -> Result<Ensemble, Error> {
        let ints = |name: &str| -> Result<Vec<i64>, Error> { Ok(a.ints(name)?.unwrap_or_default()) };
        let floats = |name: &str| -> Result<Vec<f32>, Error> {
            let more = a.tensor(&format!("{name}_as_tensor"))?;
            match (a.floats(name)?, more) {
                (Some(v), _) if !v.is_empty() => Ok(v),
                (_, Some(t)) => t.to_f32(),
                _ => Ok(Vec::new()),
            }
        };
        let (trees, nodes) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let modes = a.texts("nodes_modes")?.unwrap_or_default();
        let (features, thresholds) = (ints("nodes_featureids")?, floats("nodes_values")?);
        let (yes, no) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let missing = ints("nodes_missing_value_tracks_true")?;
        a.ignore(&["nodes_hitrates", "nodes_hitrates_as_tensor"]);
        let n = nodes.len();
        let lengths = [trees.len(), modes.len(), features.len(), thresholds.len(), yes.len(), no.len()];
        if lengths.iter().any(|l| *l != n) || !missing.is_empty() && missing.len() != n {
            return Err(format!("the attributes of {n} nodes have lengths {lengths:?}").into());
        }
        let places: HashMap<(i64, i64), usize> =
            trees.iter().zip(&nodes).enumerate().map(|(i, (t, n))| ((*t, *n), i)).collect();
        if places.len() != n {
            return Err("a node is there twice".into());
        }
        let mut all = Vec::with_capacity(n);
        let mut is_root = vec![true; n];
        for i in 0..n {
            let rule = rule(&modes[i])?;
            let mut next = |id: i64| -> Result<u32, Error> {
                let at = places.get(&(trees[i], id)).copied();
                let at =
                    at.ok_or_else(|| Error::invalid(format!("node {id} of tree {} is missing", trees[i])))?;
                is_root[at] = false;
                Ok(at as u32)
            };
            let (yes, no) = if rule == Rule::Leaf { (0, 0) } else { (next(yes[i])?, next(no[i])?) };
            let feature =
                u32::try_from(features[i]).map_err(|_| format!("feature {} is negative", features[i]))?;
            let missing_true = missing.get(i).is_some_and(|m| *m != 0);
            all.push(Node { rule, missing_true, feature, threshold: thresholds[i], yes, no });
        }
        // The first node of each tree is its root.
        let mut roots: Vec<u32> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for i in 0..n {
            if seen.insert(trees[i]) {
                if !is_root[i] {
                    return Err(format!("tree {} does not begin with its root", trees[i]).into());
                }
                roots.push(i as u32);
            }
        }
        let (wt, wn, wi, ww) = (
            ints(&format!("{prefix}_treeids"))?,
            ints(&format!("{prefix}_nodeids"))?,
            ints(&format!("{prefix}_{ids}"))?,
            floats(&format!("{prefix}_weights"))?,
        );
        if [wn.len(), wi.len(), ww.len()].iter().any(|l| *l != wt.len()) {
            return Err("the attributes of weights differ in length".into());
        }
        let mut of_leaf: Vec<Vec<(u32, f32)>> = vec![Vec::new(); n];
        for i in 0..wt.len() {
            let unknown =
                || Error::invalid(format!("node {} of tree {} has a weight and is missing", wn[i], wt[i]));
            let at = *places.get(&(wt[i], wn[i])).ok_or_else(unknown)?;
            let target = u32::try_from(wi[i]).ok().filter(|t| (*t as usize) < targets);
            of_leaf[at]
                .push((target.ok_or_else(|| format!("target {} is outside {targets}", wi[i]))?, ww[i]));
        }
        let mut weights = Vec::with_capacity(wt.len());
        for (node, own) in all.iter_mut().zip(of_leaf) {
            if node.rule == Rule::Leaf {
                node.yes = weights.len() as u32;
                weights.extend(own);
                node.no = weights.len() as u32;
            }
        }
        let base = floats("base_values")?;
        let aggregate = a.choice("aggregate_function", &["SUM", "AVERAGE", "MIN", "MAX"])?;
        let mut ensemble = Ensemble {
            nodes: all,
            roots,
            weights,
            sets: Vec::new(),
            targets,
            base,
            aggregate: [Aggregate::Sum, Aggregate::Average, Aggregate::Min, Aggregate::Max][aggregate],
            post: PostTransform::read(a)?,
            features: 0,
        };
        ensemble.finish()?;
        Ok(ensemble)
    }

    /// Reads the attributes of `TreeEnsemble` (version 5).
    fn read_5(a: &Attributes<'_, '_>) -> Result<Ensemble, Error> {
        let ints = |name: &str| -> Result<Vec<i64>, Error> { Ok(a.ints(name)?.unwrap_or_default()) };
        let tensor = |name: &str| -> Result<Option<Tensor>, Error> { a.tensor(name) };
        let targets = crate::shape::size(a.int_or("n_targets", 1)?)?.min(1 << 20);
        let (features, yes, no) =
            (ints("nodes_featureids")?, ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?);
        let (yes_leaf, no_leaf) = (ints("nodes_trueleafs")?, ints("nodes_falseleafs")?);
        let modes = tensor("nodes_modes")?.ok_or("attribute `nodes_modes` is missing")?;
        let Data::U8(modes) = modes.data() else {
            return Err("attribute `nodes_modes` is not of type U8".into());
        };
        let splits = tensor("nodes_splits")?.ok_or("attribute `nodes_splits` is missing")?.to_f32()?;
        let (leaf_targets, leaf_weights) = (ints("leaf_targetids")?, tensor("leaf_weights")?);
        let leaf_weights = leaf_weights.ok_or("attribute `leaf_weights` is missing")?.to_f32()?;
        let missing = ints("nodes_missing_value_tracks_true")?;
        a.ignore(&["nodes_hitrates"]);
        let n = features.len();
        let lengths = [yes.len(), no.len(), yes_leaf.len(), no_leaf.len(), modes.len(), splits.len()];
        if lengths.iter().any(|l| *l != n) || leaf_targets.len() != leaf_weights.len() {
            return Err(format!("the attributes of {n} nodes have lengths {lengths:?}").into());
        }
        let leaves = leaf_targets.len();
        let next = |at: i64, leaf: bool| -> Result<u32, Error> {
            let at = crate::shape::size(at)?;
            let most = if leaf { leaves } else { n };
            if at >= most {
                return Err(format!("node {at} is outside {most}").into());
            }
            Ok((if leaf { n + at } else { at }) as u32)
        };
        let rules = [
            Rule::LessOrEqual,
            Rule::Less,
            Rule::GreaterOrEqual,
            Rule::Greater,
            Rule::Equal,
            Rule::NotEqual,
            Rule::Member,
        ];
        let sets: Vec<Vec<f32>> = match tensor("membership_values")? {
            Some(values) => values.to_f32()?.split(|v| v.is_nan()).map(<[f32]>::to_vec).collect(),
            None => Vec::new(),
        };
        let mut used = 0;
        let mut nodes = Vec::with_capacity(n + leaves);
        for i in 0..n {
            let rule =
                *rules.get(usize::from(modes[i])).ok_or_else(|| format!("mode {} of a node", modes[i]))?;
            let mut threshold = splits[i];
            if rule == Rule::Member {
                threshold = used as f32;
                used += 1;
            }
            let feature =
                u32::try_from(features[i]).map_err(|_| format!("feature {} is negative", features[i]))?;
            let missing_true = missing.get(i).is_some_and(|m| *m != 0);
            let (yes, no) = (next(yes[i], yes_leaf[i] != 0)?, next(no[i], no_leaf[i] != 0)?);
            nodes.push(Node { rule, missing_true, feature, threshold, yes, no });
        }
        if used > sets.len() {
            return Err(format!("{used} nodes need sets of values, {} are there", sets.len()).into());
        }
        let mut weights = Vec::with_capacity(leaves);
        for (i, (target, weight)) in leaf_targets.iter().zip(leaf_weights).enumerate() {
            let target = u32::try_from(*target).ok().filter(|t| (*t as usize) < targets);
            weights.push((target.ok_or_else(|| format!("target of leaf {i} is outside {targets}"))?, weight));
            let (yes, no) = (i as u32, i as u32 + 1);
            nodes.push(Node { rule: Rule::Leaf, missing_true: false, feature: 0, threshold: 0.0, yes, no });
        }
        let roots = ints("tree_roots")?.into_iter().map(|r| next(r, false)).collect::<Result<_, _>>()?;
        let aggregate = [Aggregate::Average, Aggregate::Sum, Aggregate::Min, Aggregate::Max];
        let at = crate::shape::size(a.int_or("aggregate_function", 1)?)?;
        let mut ensemble = Ensemble {
            nodes,
            roots,
            weights,
            sets,
            targets,
            base: Vec::new(),
            aggregate: *aggregate.get(at).ok_or("attribute `aggregate_function` is out of range")?,
            post: PostTransform::numbered(a.int_or("post_transform", 0)?)?,
            features: 0,
        };
        ensemble.finish()?;
        Ok(ensemble)
    }

    /// Checks that no node follows itself, and finds the number of features.
    fn finish(&mut self) -> Result<(), Error> {
        let mut state = vec![0_u8; self.nodes.len()];
        for root in &self.roots {
            let mut stack = vec![(*root as usize, false)];
            while let Some((at, done)) = stack.pop() {
                if done {
                    state[at] = 2;
                    continue;
                }
                match state[at] {
                    1 => return Err("a node follows itself".into()),
                    2 => continue,
                    _ => {}
                }
                state[at] = 1;
                stack.push((at, true));
                let node = &self.nodes[at];
                if node.rule != Rule::Leaf {
                    for next in [node.yes as usize, node.no as usize] {
                        if state[next] == 1 {
                            return Err("a node follows itself".into());
                        }
                        stack.push((next, false));
                    }
                }
            }
        }
        let inner = self.nodes.iter().filter(|node| node.rule != Rule::Leaf);
        self.features = inner.map(|node| node.feature as usize + 1).max().unwrap_or(0);
        Ok(())
    }

    /// Returns the leaf that a row reaches.
    fn leaf(&self, root: u32, row: &[f32]) -> &Node {
        let mut node = &self.nodes[root as usize];
        while node.rule != Rule::Leaf {
            let x = row[node.feature as usize];
            let yes = match node.rule {
                Rule::LessOrEqual => x <= node.threshold,
                Rule::Less => x < node.threshold,
                Rule::GreaterOrEqual => x >= node.threshold,
                Rule::Greater => x > node.threshold,
                Rule::Equal => x == node.threshold,
                Rule::NotEqual => x != node.threshold,
                Rule::Member => self.sets[node.threshold as usize].contains(&x),
                Rule::Leaf => false,
            };
            let yes = yes || node.missing_true && x.is_nan();
            node = &self.nodes[if yes { node.yes } else { node.no } as usize];
        }
        node
    }

    /// Computes the scores of one row, and which targets got any.
    fn scores(&self, row: &[f32], scores: &mut [f32], has: &mut [bool]) {
        for root in &self.roots {
            let leaf = self.leaf(*root, row);
            for (target, weight) in &self.weights[leaf.yes as usize..leaf.no as usize] {
                let at = *target as usize;
                scores[at] = match self.aggregate {
                    Aggregate::Sum | Aggregate::Average => scores[at] + weight,
                    _ if !has[at] => *weight,
                    Aggregate::Min => scores[at].min(*weight),
                    Aggregate::Max => scores[at].max(*weight),
                };
                has[at] = true;
            }
        }
        if self.aggregate == Aggregate::Average {
            scores.iter_mut().for_each(|s| *s /= self.roots.len().max(1) as f32);
        }
        if self.base.len() == self.targets {
            scores.iter_mut().zip(&self.base).for_each(|(s, b)| *s += b);
        }
    }

    /// Computes the scores of all rows, `[rows, targets]`, and returns them with the number of rows.
    fn all(&self, ctx: &Context<'_>, x: &Tensor) -> Result<(Vec<f32>, usize), Error> {
        let (rows, width) = match x.shape() {
            [n] => (1, *n),
            [rows, rest @ ..] => (*rows, rest.iter().product()),
            [] => return Err("input 0 has no dimensions".into()),
        };
        if width < self.features {
            return Err(format!("rows of {width} values, where {} should be", self.features).into());
        }
        let values = x.to_f32()?;
        let n = self.targets;
        let mut scores = ctx.zeros::<f32>(&[rows, n])?;
        ctx.cpu.for_blocks(&mut scores, n.max(1), 16, |first, part| {
            let mut has = vec![false; n];
            for (i, scores) in part.chunks_exact_mut(n).enumerate() {
                has.fill(false);
                self.scores(&values[(first + i) * width..(first + i + 1) * width], scores, &mut has);
            }
        });
        Ok((scores, rows))
    }
}

#[derive(Debug)]
struct Regressor(Ensemble);

impl Operator for Regressor {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (mut scores, rows) = self.0.all(ctx, inputs.tensor(0)?)?;
        scores.chunks_exact_mut(self.0.targets.max(1)).for_each(|row| self.0.post.apply(row));
        let shape: Shape = [rows, self.0.targets].into_iter().collect();
        crate::graph::one(Tensor::of(shape, scores))
    }
}

pub(crate) fn regressor(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let targets = crate::shape::size(a.int_or("n_targets", 1)?)?.min(1 << 20);
    Ok(Box::new(Regressor(Ensemble::read(a, "target", "ids", targets)?)))
}

/// `TreeEnsemble` of version 5, whose results have the type of its input.
#[derive(Debug)]
struct TreeEnsemble(Ensemble);

impl Operator for TreeEnsemble {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (mut scores, rows) = self.0.all(ctx, x)?;
        scores.chunks_exact_mut(self.0.targets.max(1)).for_each(|row| self.0.post.apply(row));
        let shape: Shape = [rows, self.0.targets].into_iter().collect();
        crate::graph::one(crate::ops::cast::cast(Tensor::of(shape, scores), x.ty())?)
    }
}

pub(crate) fn tree_ensemble(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(TreeEnsemble(Ensemble::read_5(a)?)))
}

#[derive(Debug)]
struct Classifier {
    ensemble: Ensemble,
    labels: Labels,
    /// All weights are those of one class, so there is one score for two labels.
    binary: bool,
    positive: bool,
}

impl Operator for Classifier {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let e = &self.ensemble;
        let (scores, rows) = e.all(ctx, inputs.tensor(0)?)?;
        self.labels.classified(scores, rows, e.targets, self.binary, self.positive, e.post)
    }
}

pub(crate) fn classifier(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let labels = Labels::read(a, "classlabels_int64s", "classlabels_strings")?;
    let ids = a.ints("class_ids")?.unwrap_or_default();
    let weights = a.floats("class_weights")?.unwrap_or_default();
    let one_class = ids.windows(2).all(|w| w[0] == w[1]);
    let binary = labels.len() == 2 && one_class;
    let mut ensemble = Ensemble::read(a, "class", "ids", labels.len())?;
    if binary {
        // The score of the only class that has weights.
        ensemble.weights.iter_mut().for_each(|w| w.0 = 0);
        ensemble.targets = 1;
        if ensemble.base.len() == 2 {
            ensemble.base.remove(0);
        }
    }
    let positive = weights.iter().all(|w| *w >= 0.0);
    Ok(Box::new(Classifier { ensemble, labels, binary, positive }))
}
