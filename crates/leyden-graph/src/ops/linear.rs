//! Classical machine learning (ai.onnx.ml): linear models, labels, scalers and encoders.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs, one};
use crate::inputs::Inputs;
use crate::ops::binary::Number;
use crate::shape::{Shape, product};
use crate::tensor::{Data, Tensor, each_number, same_type};
use crate::value::{Key, Value};
use std::sync::Arc;

/// Function of a row of scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostTransform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl PostTransform {
    pub(crate) fn read(a: &Attributes<'_, '_>) -> Result<PostTransform, Error> {
        let names = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"];
        PostTransform::numbered(a.choice("post_transform", &names)? as i64)
    }

    pub(crate) fn numbered(number: i64) -> Result<PostTransform, Error> {
        Ok(match number {
            0 => PostTransform::None,
            1 => PostTransform::Softmax,
            2 => PostTransform::Logistic,
            3 => PostTransform::SoftmaxZero,
            4 => PostTransform::Probit,
            other => return Err(format!("attribute `post_transform` is {other}").into()),
        })
    }

    /// Replaces a row of scores.
    pub(crate) fn apply(self, row: &mut [f32]) {
        match self {
            PostTransform::None => {}
            PostTransform::Logistic => {
                row.iter_mut().for_each(|v| *v = crate::ops::unary::sigmoid(f64::from(*v)) as f32);
            }
            PostTransform::Softmax | PostTransform::SoftmaxZero => {
                let most = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                // Scores of zero stay, and add to the sum as they are.
                let keep = |v: f32| self == PostTransform::SoftmaxZero && v.abs() <= 1e-7;
                let mut sum = 0.0_f64;
                for v in row.iter_mut() {
                    if !keep(*v) {
                        *v = libm::exp(f64::from(*v - most)) as f32;
                        sum += f64::from(*v);
                    } else {
                        *v *= libm::exp(f64::from(-most)) as f32;
                    }
                }
                row.iter_mut().for_each(|v| *v = (f64::from(*v) / sum) as f32);
            }
            PostTransform::Probit => row.iter_mut().for_each(|v| *v = probit(f64::from(*v)) as f32),
        }
    }
}

/// Inverse of the normal distribution: Winitzki's approximation of the inverse error function, as onnxruntime has it.
fn probit(p: f64) -> f64 {
    let x = 2.0 * p - 1.0;
    let log = libm::log((1.0 - x) * (1.0 + x));
    let v = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let inverse = x.signum() * ((v * v - log / 0.147).sqrt() - v).sqrt();
    std::f64::consts::SQRT_2 * inverse
}

/// Labels of classes.
#[derive(Clone, Debug)]
pub(crate) enum Labels {
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    pub(crate) fn read(a: &Attributes<'_, '_>, ints: &str, texts: &str) -> Result<Labels, Error> {
        let (i, t) = (a.ints(ints)?.unwrap_or_default(), a.texts(texts)?.unwrap_or_default());
        match (i.is_empty(), t.is_empty()) {
            (false, _) => Ok(Labels::Ints(i)),
            (true, false) => Ok(Labels::Texts(t)),
            _ => Err(format!("neither `{ints}` nor `{texts}` has labels").into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Labels::Ints(v) => v.len(),
            Labels::Texts(v) => v.len(),
        }
    }

    fn pick(&self, places: &[usize]) -> Tensor {
        let shape: Shape = [places.len()].into_iter().collect();
        match self {
            Labels::Ints(v) => Tensor::of(shape, places.iter().map(|i| v[*i]).collect()),
            Labels::Texts(v) => Tensor::texts(shape, places.iter().map(|i| v[*i].clone()).collect()),
        }
    }

    /// Returns the labels of the greatest scores, and the scores after their function. `binary`: there is one score for
    /// two labels.
    pub(crate) fn classified(
        &self,
        mut scores: Vec<f32>,
        rows: usize,
        n: usize,
        binary: bool,
        positive: bool,
        post: PostTransform,
    ) -> Result<Outputs, Error> {
        let mut places = Vec::with_capacity(rows);
        if binary {
            let mut both = Vec::with_capacity(2 * rows);
            for score in &scores {
                let logistic = post == PostTransform::Logistic;
                // Positive weights are probabilities, others log odds.
                let threshold = if positive && !logistic { 0.5 } else { 0.0 };
                places.push(usize::from(*score > threshold));
                let mut pair = match post {
                    PostTransform::None | PostTransform::Probit if positive => [1.0 - score, *score],
                    _ => [-score, *score],
                };
                post.apply(&mut pair);
                both.extend(pair);
            }
            scores = both;
        } else {
            for row in scores.chunks_exact_mut(n.max(1)) {
                let mut best = 0;
                for i in 1..row.len() {
                    if row[i] > row[best] {
                        best = i;
                    }
                }
                places.push(best);
                post.apply(row);
            }
        }
        let width = if binary { 2 } else { n };
        let shape: Shape = [rows, width].into_iter().collect();
        Ok([self.pick(&places).into(), Tensor::of(shape, scores).into()].into_iter().collect())
    }
}

/// Rows and their width.
fn rows(x: &Tensor) -> Result<(usize, usize), Error> {
    match x.shape() {
        [] => Err("input 0 has no dimensions".into()),
        [n] => Ok((1, *n)),
        [rows, rest @ ..] => Ok((*rows, product(rest))),
    }
}

/// Scores `[rows, n]` of a linear model.
fn linear(
    x: &Tensor,
    coefficients: &[f32],
    intercepts: &[f32],
    n: usize,
) -> Result<(Vec<f32>, usize), Error> {
    let (rows, width) = rows(x)?;
    if coefficients.len() != n * width || !intercepts.is_empty() && intercepts.len() != n {
        let (c, i) = (coefficients.len(), intercepts.len());
        return Err(format!("{c} coefficients and {i} intercepts for {n} results of {width} values").into());
    }
    let values = x.to_f32()?;
    let mut out = Vec::with_capacity(rows * n);
    for row in values.chunks_exact(width.max(1)) {
        for j in 0..n {
            let w = &coefficients[j * width..(j + 1) * width];
            let sum: f32 = row.iter().zip(w).fold(0.0, |sum, (x, w)| sum + x * w);
            out.push(sum + intercepts.get(j).copied().unwrap_or(0.0));
        }
    }
    Ok((out, rows))
}

#[derive(Debug)]
struct LinearRegressor {
    coefficients: Vec<f32>,
    intercepts: Vec<f32>,
    targets: usize,
    post: PostTransform,
}

impl Operator for LinearRegressor {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (mut out, rows) = linear(inputs.tensor(0)?, &self.coefficients, &self.intercepts, self.targets)?;
        out.chunks_exact_mut(self.targets.max(1)).for_each(|row| self.post.apply(row));
        one(Tensor::of([rows, self.targets].into_iter().collect::<Shape>(), out))
    }
}

pub(crate) fn linear_regressor(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(LinearRegressor {
        coefficients: a.floats("coefficients")?.unwrap_or_default(),
        intercepts: a.floats("intercepts")?.unwrap_or_default(),
        targets: crate::shape::size(a.int_or("targets", 1)?)?.clamp(1, 1 << 20),
        post: PostTransform::read(a)?,
    }))
}

#[derive(Debug)]
struct LinearClassifier {
    coefficients: Vec<f32>,
    intercepts: Vec<f32>,
    labels: Labels,
    scores: usize,
    post: PostTransform,
}

impl Operator for LinearClassifier {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (scores, rows) = linear(inputs.tensor(0)?, &self.coefficients, &self.intercepts, self.scores)?;
        let binary = self.scores == 1 && self.labels.len() == 2;
        self.labels.classified(scores, rows, self.scores, binary, false, self.post)
    }
}

pub(crate) fn linear_classifier(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["multi_class"]);
    let labels = Labels::read(a, "classlabels_ints", "classlabels_strings")?;
    let intercepts = a.floats("intercepts")?.unwrap_or_default();
    let scores = if intercepts.is_empty() { labels.len() } else { intercepts.len() };
    if scores > labels.len() {
        return Err(format!("{scores} intercepts for {} labels", labels.len()).into());
    }
    let coefficients = a.floats("coefficients")?.unwrap_or_default();
    Ok(Box::new(LinearClassifier { coefficients, intercepts, labels, scores, post: PostTransform::read(a)? }))
}

/// `(x - offset) * scale`, by column.
#[derive(Debug)]
struct Scaler {
    offset: Vec<f32>,
    scale: Vec<f32>,
}

impl Operator for Scaler {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (_, width) = rows(x)?;
        let fits = |v: &[f32]| v.len() == 1 || v.len() == width;
        if !fits(&self.offset) || !fits(&self.scale) {
            return Err(format!("{} offsets for {width} columns", self.offset.len()).into());
        }
        let pick = |v: &[f32], i: usize| v[if v.len() == 1 { 0 } else { i % width }];
        let scaled = |(i, x): (usize, &f32)| (x - pick(&self.offset, i)) * pick(&self.scale, i);
        one(Tensor::of(x.shape(), x.to_f32()?.iter().enumerate().map(scaled).collect()))
    }
}

pub(crate) fn scaler(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let offset = a.floats("offset")?.unwrap_or_else(|| vec![0.0]);
    Ok(Box::new(Scaler { offset, scale: a.floats("scale")?.unwrap_or_else(|| vec![1.0]) }))
}

/// Division of each row by its norm.
#[derive(Debug)]
struct Normalizer(usize);

impl Operator for Normalizer {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (_, width) = rows(x)?;
        let mut values = x.to_f32()?;
        for row in values.chunks_exact_mut(width.max(1)) {
            let norm = match self.0 {
                0 => row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)),
                1 => row.iter().map(|v| v.abs()).sum(),
                _ => row.iter().map(|v| v * v).sum::<f32>().sqrt(),
            };
            if norm != 0.0 {
                row.iter_mut().for_each(|v| *v /= norm);
            }
        }
        one(Tensor::of(x.shape(), values))
    }
}

pub(crate) fn normalizer(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Normalizer(a.choice("norm", &["MAX", "L1", "L2"])?)))
}

/// Ones for values above a threshold.
#[derive(Debug)]
struct Binarizer(f32);

impl Operator for Binarizer {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let values = x.to_f32()?.iter().map(|v| f32::from(u8::from(*v > self.0))).collect();
        one(Tensor::of(x.shape(), values))
    }
}

pub(crate) fn binarizer(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Binarizer(a.float_or("threshold", 0.0)?)))
}

/// Maps from sequences of scores to maps by label.
#[derive(Debug)]
struct ZipMap(Labels);

impl Operator for ZipMap {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (_, width) = rows(x)?;
        if width != self.0.len() {
            return Err(format!("rows of {width} scores for {} labels", self.0.len()).into());
        }
        let keys: Vec<Key> = match &self.0 {
            Labels::Ints(v) => v.iter().map(|v| Key::Int(*v)).collect(),
            Labels::Texts(v) => v.iter().map(|v| Key::Text(v.clone())).collect(),
        };
        let values = x.to_f32()?;
        let map = |row: &[f32]| Value::Map(Arc::new(keys.iter().cloned().zip(row.iter().copied()).collect()));
        one(Value::Sequence(Arc::new(values.chunks_exact(width).map(map).collect())))
    }
}

pub(crate) fn zip_map(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ZipMap(Labels::read(a, "classlabels_int64s", "classlabels_strings")?)))
}

/// Chosen columns of a matrix.
#[derive(Debug)]
struct ArrayFeatureExtractor;

impl Operator for ArrayFeatureExtractor {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let (x, columns) = (inputs.tensor(0)?, inputs.ints(1)?);
        let Some(&width) = x.shape().last() else { return Err("input 0 has no dimensions".into()) };
        let columns = columns.into_iter().map(|c| {
            let found = usize::try_from(c).ok().filter(|c| *c < width);
            found.ok_or_else(|| Error::invalid(format!("column {c} is outside {width}")))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let mut shape = Shape::from_slice(x.shape());
        let last = shape.len() - 1;
        shape[last] = columns.len();
        if shape.len() == 1 {
            shape.insert(0, 1);
        }
        ctx.elements(&shape, x.ty().bytes())?;
        let data = same_type!(x.data(), v => {
            v.chunks_exact(width.max(1)).flat_map(|row| columns.iter().map(|c| row[*c].clone())).collect()
        });
        one(Tensor::with(shape, data))
    }

    fn moves_halves(&self) -> bool {
        true
    }
}

pub(crate) fn array_feature_extractor(_: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(ArrayFeatureExtractor))
}

/// Values or texts replaced by others.
#[derive(Debug)]
struct LabelEncoder {
    keys: Tensor,
    values: Tensor,
    default: Tensor,
}

impl Operator for LabelEncoder {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        if x.ty() != self.keys.ty() {
            return Err(format!("has keys of type {}, not {}", self.keys.ty().name(), x.ty().name()).into());
        }
        fn places<T: PartialEq>(x: &[T], keys: &[T]) -> Vec<Option<usize>> {
            #[allow(clippy::eq_op, reason = "only NaN differs from itself, and matches NaN here")]
            let same = |a: &T, b: &T| a == b || a != a && b != b;
            x.iter().map(|v| keys.iter().position(|k| same(k, v))).collect()
        }
        let found = match (x.data(), self.keys.data()) {
            (Data::Text(x), Data::Text(keys)) => places(x, keys),
            (Data::I64(x), Data::I64(keys)) => places(x, keys),
            (Data::I32(x), Data::I32(keys)) => places(x, keys),
            (Data::I16(x), Data::I16(keys)) => places(x, keys),
            (Data::F32(x), Data::F32(keys)) => places(x, keys),
            (Data::F64(x), Data::F64(keys)) => places(x, keys),
            _ => return Err(format!("does not take values of type {}", x.ty().name()).into()),
        };
        let data = crate::tensor::both_types!(self.values.data(), self.default.data(), (v, d) => {
            found.iter().map(|i| i.map_or_else(|| d[0].clone(), |i| v[i].clone())).collect()
        }, return Err("values and default differ in type".into()));
        one(Tensor::with(x.shape(), data))
    }
}

pub(crate) fn label_encoder(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let texts = |v: Vec<String>| Tensor::texts([v.len()].into_iter().collect::<Shape>(), v);
    if a.opset < 2 {
        // Texts become their places, and back.
        let classes = a.texts("classes_strings")?.unwrap_or_default();
        let places = Tensor::vector((0..classes.len() as i64).collect());
        let default = Tensor::vector(vec![a.int_or("default_int64", -1)?]);
        a.ignore(&["default_string"]);
        return Ok(Box::new(LabelEncoder { keys: texts(classes), values: places, default }));
    }
    let side = |name: &str| -> Result<Tensor, Error> {
        if let Some(t) = a.tensor(&format!("{name}_tensor"))? {
            return Ok(t);
        }
        if let Some(v) = a.texts(&format!("{name}_strings"))?.filter(|v| !v.is_empty()) {
            return Ok(texts(v));
        }
        if let Some(v) = a.ints(&format!("{name}_int64s"))?.filter(|v| !v.is_empty()) {
            return Ok(Tensor::vector(v));
        }
        let floats = a.floats(&format!("{name}_floats"))?.filter(|v| !v.is_empty());
        floats.map(Tensor::vector).ok_or_else(|| format!("attribute `{name}_...` is missing").into())
    };
    let (keys, values) = (side("keys")?, side("values")?);
    let own = a.tensor("default_tensor")?;
    let (text, int, float) =
        (a.text("default_string")?, a.int_or("default_int64", -1)?, a.float_or("default_float", -0.0)?);
    let default = match (own, values.data()) {
        (Some(own), _) => own,
        (None, Data::Text(_)) => texts(vec![text.unwrap_or_else(|| "_Unused".to_owned())]),
        (None, Data::I64(_)) => Tensor::vector(vec![int]),
        (None, Data::F32(_)) => Tensor::vector(vec![float]),
        (None, other) => return Err(format!("values of type {} need a default", other.ty().name()).into()),
    };
    if keys.len() != values.len() || default.len() != 1 {
        return Err(format!("{} keys and {} values", keys.len(), values.len()).into());
    }
    Ok(Box::new(LabelEncoder { keys, values, default }))
}

/// A value in place of another, mostly of NaN, by column.
#[derive(Debug)]
struct Imputer {
    floats: Vec<f32>,
    ints: Vec<i64>,
    replaced: f32,
    replaced_int: i64,
}

impl Operator for Imputer {
    fn run(&self, _ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let (_, width) = rows(x)?;
        fn filled<T: Copy>(
            v: &[T],
            with: &[T],
            width: usize,
            is: impl Fn(T) -> bool,
        ) -> Result<Vec<T>, Error> {
            if with.len() != 1 && with.len() != width {
                return Err(format!("{} values for {width} columns", with.len()).into());
            }
            let pick = |i: usize| with[if with.len() == 1 { 0 } else { i % width }];
            Ok(v.iter().enumerate().map(|(i, v)| if is(*v) { pick(i) } else { *v }).collect())
        }
        let nan = self.replaced.is_nan();
        one(match x.data() {
            Data::F32(v) => {
                let is = |v: f32| if nan { v.is_nan() } else { v == self.replaced };
                Tensor::of(x.shape(), filled(v, &self.floats, width, is)?)
            }
            Data::I64(v) => Tensor::of(x.shape(), filled(v, &self.ints, width, |v| v == self.replaced_int)?),
            other => return Err(format!("does not take values of type {}", other.ty().name()).into()),
        })
    }
}

pub(crate) fn imputer(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    Ok(Box::new(Imputer {
        floats: a.floats("imputed_value_floats")?.unwrap_or_default(),
        ints: a.ints("imputed_value_int64s")?.unwrap_or_default(),
        replaced: a.float_or("replaced_value_float", 0.0)?,
        replaced_int: a.int_or("replaced_value_int64", 0)?,
    }))
}

/// Columns of several tensors beside each other, as floats.
#[derive(Debug)]
struct FeatureVectorizer;

impl Operator for FeatureVectorizer {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let mut parts = Vec::new();
        for i in 0..inputs.len() {
            let x = inputs.tensor(i)?;
            let (n, width) = rows(x)?;
            parts.push(Tensor::of([n, width].into_iter().collect::<Shape>(), x.to_f32()?));
        }
        one(crate::ops::concat::joined(ctx, &parts.iter().collect::<Vec<_>>(), 1)?)
    }
}

pub(crate) fn feature_vectorizer(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    a.ignore(&["inputdimensions"]);
    Ok(Box::new(FeatureVectorizer))
}

/// One column for each category.
#[derive(Debug)]
struct OneHotEncoder {
    categories: Labels,
    zeros: bool,
}

impl Operator for OneHotEncoder {
    fn run(&self, ctx: &Context<'_>, inputs: Inputs) -> Result<Outputs, Error> {
        let x = inputs.tensor(0)?;
        let n = self.categories.len();
        let mut shape = Shape::from_slice(x.shape());
        shape.push(n);
        let mut out = ctx.zeros::<f32>(&shape)?;
        let places: Vec<Option<usize>> = match (&self.categories, x.data()) {
            (Labels::Texts(list), Data::Text(v)) => {
                v.iter().map(|v| list.iter().position(|c| c == v)).collect()
            }
            (Labels::Ints(list), data) => each_number!(data, v => {
                v.iter().map(|v| list.iter().position(|c| *c == v.to_f64() as i64)).collect()
            }, return Err("input 0 has no numbers".into())),
            _ => return Err(format!("does not take values of type {}", x.ty().name()).into()),
        };
        for (row, place) in out.chunks_exact_mut(n.max(1)).zip(places) {
            match place {
                Some(place) => row[place] = 1.0,
                None if self.zeros => {}
                None => return Err("a value is no category".into()),
            }
        }
        one(Tensor::of(shape, out))
    }
}

pub(crate) fn one_hot_encoder(a: &Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error> {
    let categories = Labels::read(a, "cats_int64s", "cats_strings")?;
    Ok(Box::new(OneHotEncoder { categories, zeros: a.int_or("zeros", 1)? != 0 }))
}
