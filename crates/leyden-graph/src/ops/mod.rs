//! The operators: a file for each family, and a row of [`OPERATORS`] for each name.
//!
//! A row gives domain, name, the first version of the operator set that it is for, and the function that makes the
//! operator from its attributes. Of several rows of a name the one with the highest version counts that is not above
//! the model's.

use crate::attributes::Attributes;
use crate::error::Error;
use crate::graph::{Context, Operator, Outputs};
use crate::inputs::Inputs;
use crate::tensor::Tensor;
use std::any::Any;

mod binary;
pub(crate) mod cast;
mod concat;
mod constant;
mod control;
mod conv;
mod elementwise;
mod functions;
mod gather;
mod gelu;
mod layout;
mod linear;
mod matmul;
mod norm;
mod pad;
mod pool;
mod quantize;
mod reduce;
mod resize;
mod rnn;
mod select;
mod sequence;
mod signal;
mod slice;
mod softmax;
mod trees;
mod unary;
mod window;

pub(crate) use conv::Conv;
pub(crate) use matmul::{Gemm, MatMul};
pub(crate) use unary::Function;

/// Returns the function of an operator that products and convolutions can compute with their results.
pub(crate) fn conv_activation(operator: &dyn Operator, constants: &[Option<Tensor>]) -> Option<Function> {
    let any = operator as &dyn Any;
    if let Some(unary) = any.downcast_ref::<unary::Unary>() {
        return Some(unary.0);
    }
    any.downcast_ref::<unary::Clip>().and_then(|clip| clip.function(constants))
}

/// Returns factor and offset of each channel of a batch normalisation with constant parameters.
pub(crate) fn batch_norm_affine(
    operator: &dyn Operator,
    constants: &[Option<Tensor>],
) -> Option<Vec<(f32, f32)>> {
    let norm = (operator as &dyn Any).downcast_ref::<norm::BatchNorm>()?;
    let get = |i: usize| constants.get(i)?.as_ref()?.f32s().ok();
    let (scale, bias, mean, var) = (get(1)?, get(2)?, get(3)?, get(4)?);
    let same = [bias.len(), mean.len(), var.len()].iter().all(|n| *n == scale.len());
    same.then(|| norm.affine(scale, bias, mean, var))
}

/// Returns true for the addition of two tensors.
pub(crate) fn is_add(operator: &dyn Operator) -> bool {
    let binary = (operator as &dyn Any).downcast_ref::<binary::Binary>();
    binary.is_some_and(binary::Binary::is_plain_add)
}

/// Makes an operator from the attributes of a node.
type Make = fn(&Attributes<'_, '_>) -> Result<Box<dyn Operator>, Error>;

/// ONNX's own domain, that of classical machine learning, and that of onnxruntime.
const ONNX: &str = "";
const ML: &str = "ai.onnx.ml";
const MICROSOFT: &str = "com.microsoft";

/// All operators: domain, name, first version, maker.
const OPERATORS: &[(&str, &str, i64, Make)] = &[
    (ONNX, "Add", 1, binary::add),
    (ONNX, "Sub", 1, binary::sub),
    (ONNX, "Mul", 1, binary::mul),
    (ONNX, "Div", 1, binary::div),
    (ONNX, "Mod", 1, binary::modulo),
    (ONNX, "Pow", 1, binary::pow),
    (ONNX, "PRelu", 1, binary::prelu),
    (ONNX, "Sum", 1, binary::sum),
    (ONNX, "Mean", 1, binary::mean),
    (ONNX, "Max", 1, binary::max),
    (ONNX, "Min", 1, binary::min),
    (ONNX, "Where", 1, binary::where_op),
    (ONNX, "Equal", 1, binary::equal),
    (ONNX, "Less", 1, binary::less),
    (ONNX, "LessOrEqual", 1, binary::less_or_equal),
    (ONNX, "Greater", 1, binary::greater),
    (ONNX, "GreaterOrEqual", 1, binary::greater_or_equal),
    (ONNX, "And", 1, binary::and),
    (ONNX, "Or", 1, binary::or),
    (ONNX, "Xor", 1, binary::xor),
    (ONNX, "BitwiseAnd", 1, binary::bitwise_and),
    (ONNX, "BitwiseOr", 1, binary::bitwise_or),
    (ONNX, "BitwiseXor", 1, binary::bitwise_xor),
    (ONNX, "BitShift", 1, binary::bit_shift),
    (ONNX, "Relu", 1, unary::relu),
    (ONNX, "LeakyRelu", 1, unary::leaky_relu),
    (ONNX, "Elu", 1, unary::elu),
    (ONNX, "Selu", 1, unary::selu),
    (ONNX, "Celu", 1, unary::celu),
    (ONNX, "ThresholdedRelu", 1, unary::thresholded_relu),
    (ONNX, "Sigmoid", 1, unary::sigmoid_op),
    (ONNX, "HardSigmoid", 1, unary::hard_sigmoid),
    (ONNX, "HardSwish", 1, unary::hard_swish),
    (ONNX, "Swish", 1, unary::swish),
    (ONNX, "Mish", 1, unary::mish),
    (ONNX, "Gelu", 1, unary::gelu),
    (ONNX, "Softplus", 1, unary::softplus_op),
    (ONNX, "Softsign", 1, unary::softsign),
    (ONNX, "Shrink", 1, unary::shrink),
    (ONNX, "Affine", 1, unary::affine),
    (ONNX, "ScaledTanh", 1, unary::scaled_tanh),
    (ONNX, "Tanh", 1, unary::tanh),
    (ONNX, "Exp", 1, unary::exp),
    (ONNX, "Log", 1, unary::log),
    (ONNX, "Sqrt", 1, unary::sqrt),
    (ONNX, "Reciprocal", 1, unary::reciprocal),
    (ONNX, "Erf", 1, unary::erf),
    (ONNX, "Floor", 1, unary::floor),
    (ONNX, "Ceil", 1, unary::ceil),
    (ONNX, "Round", 1, unary::round),
    (ONNX, "Sin", 1, unary::sin),
    (ONNX, "Cos", 1, unary::cos),
    (ONNX, "Tan", 1, unary::tan),
    (ONNX, "Asin", 1, unary::asin),
    (ONNX, "Acos", 1, unary::acos),
    (ONNX, "Atan", 1, unary::atan),
    (ONNX, "Sinh", 1, unary::sinh),
    (ONNX, "Cosh", 1, unary::cosh),
    (ONNX, "Asinh", 1, unary::asinh),
    (ONNX, "Acosh", 1, unary::acosh),
    (ONNX, "Atanh", 1, unary::atanh),
    (ONNX, "Neg", 1, unary::neg),
    (ONNX, "Abs", 1, unary::abs),
    (ONNX, "Sign", 1, unary::sign),
    (ONNX, "IsNaN", 1, unary::is_nan),
    (ONNX, "IsInf", 1, unary::is_inf),
    (ONNX, "Not", 1, unary::not),
    (ONNX, "BitwiseNot", 1, unary::bitwise_not),
    (ONNX, "Clip", 1, unary::clip_6),
    (ONNX, "Clip", 11, unary::clip),
    (ONNX, "Cast", 1, cast::cast_op),
    (ONNX, "CastLike", 1, cast::cast_like),
    (ONNX, "Constant", 1, constant::constant),
    (ONNX, "ConstantOfShape", 1, constant::constant_of_shape),
    (ONNX, "Range", 1, constant::range),
    (ONNX, "EyeLike", 1, constant::eye_like),
    (ONNX, "OneHot", 1, constant::one_hot),
    (ONNX, "RandomNormal", 1, constant::random_normal),
    (ONNX, "RandomNormalLike", 1, constant::random_normal),
    (ONNX, "RandomUniform", 1, constant::random_uniform),
    (ONNX, "RandomUniformLike", 1, constant::random_uniform),
    (ONNX, "Bernoulli", 1, constant::bernoulli),
    (ONNX, "Dropout", 1, constant::dropout),
    (ONNX, "Identity", 1, layout::identity),
    (ONNX, "Reshape", 1, layout::reshape_op),
    (ONNX, "Flatten", 1, layout::flatten),
    (ONNX, "Squeeze", 1, layout::squeeze),
    (ONNX, "Unsqueeze", 1, layout::unsqueeze),
    (ONNX, "Shape", 1, layout::shape_op),
    (ONNX, "Size", 1, layout::size_op),
    (ONNX, "Transpose", 1, layout::transpose),
    (ONNX, "Expand", 1, layout::expand),
    (ONNX, "Tile", 1, layout::tile),
    (ONNX, "DepthToSpace", 1, layout::depth_to_space),
    (ONNX, "SpaceToDepth", 1, layout::space_to_depth),
    (ONNX, "Concat", 1, concat::concat),
    (ONNX, "Split", 1, concat::split),
    (ONNX, "ReverseSequence", 1, concat::reverse_sequence),
    (ONNX, "Slice", 1, slice::slice_1),
    (ONNX, "Slice", 10, slice::slice),
    (ONNX, "Gather", 1, gather::gather),
    (ONNX, "GatherElements", 1, gather::gather_elements),
    (ONNX, "GatherND", 1, gather::gather_nd),
    (ONNX, "Scatter", 1, gather::scatter_elements),
    (ONNX, "ScatterElements", 1, gather::scatter_elements),
    (ONNX, "ScatterND", 1, gather::scatter_nd),
    (ONNX, "TensorScatter", 1, gather::tensor_scatter),
    (ONNX, "Pad", 1, pad::pad_1),
    (ONNX, "Pad", 11, pad::pad),
    (ONNX, "ReduceSum", 1, reduce::sum),
    (ONNX, "ReduceMean", 1, reduce::mean),
    (ONNX, "ReduceMax", 1, reduce::max),
    (ONNX, "ReduceMin", 1, reduce::min),
    (ONNX, "ReduceProd", 1, reduce::prod),
    (ONNX, "ReduceL1", 1, reduce::l1),
    (ONNX, "ReduceL2", 1, reduce::l2),
    (ONNX, "ReduceSumSquare", 1, reduce::sum_square),
    (ONNX, "ReduceLogSum", 1, reduce::log_sum),
    (ONNX, "ReduceLogSumExp", 1, reduce::log_sum_exp),
    (ONNX, "ArgMax", 1, reduce::arg_max),
    (ONNX, "ArgMin", 1, reduce::arg_min),
    (ONNX, "TopK", 1, select::top_k),
    (ONNX, "NonZero", 1, select::non_zero),
    (ONNX, "Compress", 1, select::compress),
    (ONNX, "Unique", 1, select::unique),
    (ONNX, "CumSum", 1, select::cum_sum),
    (ONNX, "CumProd", 1, select::cum_prod),
    (ONNX, "Trilu", 1, select::trilu),
    (ONNX, "Softmax", 1, softmax::softmax),
    (ONNX, "LogSoftmax", 1, softmax::log_softmax),
    (ONNX, "Hardmax", 1, softmax::hardmax),
    (ONNX, "BatchNormalization", 1, norm::batch_norm),
    (ONNX, "LayerNormalization", 1, norm::layer_norm),
    (ONNX, "RMSNormalization", 1, norm::rms_norm),
    (ONNX, "InstanceNormalization", 1, norm::instance_norm),
    (ONNX, "GroupNormalization", 1, norm::group_norm),
    (ONNX, "LpNormalization", 1, norm::lp_norm),
    (ONNX, "LRN", 1, norm::lrn),
    (ONNX, "MeanVarianceNormalization", 1, norm::mean_variance),
    (ONNX, "Conv", 1, conv::conv_op),
    (ONNX, "ConvTranspose", 1, conv::conv_transpose),
    (ONNX, "MaxPool", 1, pool::max_pool),
    (ONNX, "AveragePool", 1, pool::average_pool),
    (ONNX, "LpPool", 1, pool::lp_pool),
    (ONNX, "GlobalMaxPool", 1, pool::global_max),
    (ONNX, "GlobalAveragePool", 1, pool::global_average),
    (ONNX, "GlobalLpPool", 1, pool::global_lp),
    (ONNX, "MaxUnpool", 1, pool::max_unpool),
    (ONNX, "MatMul", 1, matmul::matmul),
    (ONNX, "Gemm", 1, matmul::gemm),
    (ONNX, "If", 1, control::if_op),
    (ONNX, "Loop", 1, control::loop_op),
    (ONNX, "Scan", 1, control::scan),
    (ONNX, "LSTM", 1, rnn::lstm),
    (ONNX, "GRU", 1, rnn::gru),
    (ONNX, "RNN", 1, rnn::rnn),
    (MICROSOFT, "DynamicQuantizeLSTM", 1, rnn::dynamic_quantize_lstm),
    (ONNX, "Resize", 10, resize::resize),
    (ONNX, "Upsample", 7, resize::upsample),
    (ONNX, "QuantizeLinear", 10, quantize::quantize),
    (ONNX, "DequantizeLinear", 10, quantize::dequantize),
    (MICROSOFT, "QuantizeLinear", 1, quantize::quantize),
    (MICROSOFT, "DequantizeLinear", 1, quantize::dequantize),
    (ONNX, "DynamicQuantizeLinear", 11, quantize::dynamic_quantize),
    (ONNX, "MatMulInteger", 10, quantize::matmul_integer),
    (ONNX, "QLinearMatMul", 10, quantize::qlinear_matmul),
    (ONNX, "ConvInteger", 10, quantize::conv_integer),
    (ONNX, "QLinearConv", 10, quantize::qlinear_conv),
    (MICROSOFT, "QGemm", 1, quantize::qgemm),
    (MICROSOFT, "QLinearAdd", 1, quantize::qlinear_add),
    (MICROSOFT, "QLinearMul", 1, quantize::qlinear_mul),
    (MICROSOFT, "QLinearSigmoid", 1, quantize::qlinear_sigmoid),
    (MICROSOFT, "QLinearLeakyRelu", 1, quantize::qlinear_leaky_relu),
    (MICROSOFT, "QLinearGlobalAveragePool", 1, quantize::qlinear_global_average),
    (MICROSOFT, "MatMulIntegerToFloat", 1, quantize::matmul_integer_to_float),
    (MICROSOFT, "DynamicQuantizeMatMul", 1, quantize::dynamic_quantize_matmul),
    (ONNX, "STFT", 17, signal::stft),
    (ONNX, "DFT", 17, signal::dft),
    (ONNX, "HannWindow", 17, signal::hann),
    (ONNX, "HammingWindow", 17, signal::hamming),
    (ONNX, "BlackmanWindow", 17, signal::blackman),
    (ONNX, "SequenceConstruct", 11, sequence::construct),
    (ONNX, "SequenceEmpty", 11, sequence::empty),
    (ONNX, "SequenceAt", 11, sequence::at),
    (ONNX, "SequenceErase", 11, sequence::erase),
    (ONNX, "SequenceInsert", 11, sequence::insert),
    (ONNX, "SequenceLength", 11, sequence::length),
    (ONNX, "ConcatFromSequence", 11, sequence::join),
    (ONNX, "SplitToSequence", 11, sequence::split),
    (ONNX, "Optional", 15, sequence::optional),
    (ONNX, "OptionalHasElement", 15, sequence::has_element),
    (ONNX, "OptionalGetElement", 15, sequence::get_element),
    (MICROSOFT, "FastGelu", 1, gelu::fast),
    (MICROSOFT, "BiasGelu", 1, gelu::bias),
    (ML, "TreeEnsembleRegressor", 1, trees::regressor),
    (ML, "TreeEnsembleClassifier", 1, trees::classifier),
    (ML, "TreeEnsemble", 5, trees::tree_ensemble),
    (ML, "LinearRegressor", 1, linear::linear_regressor),
    (ML, "LinearClassifier", 1, linear::linear_classifier),
    (ML, "Scaler", 1, linear::scaler),
    (ML, "Normalizer", 1, linear::normalizer),
    (ML, "Binarizer", 1, linear::binarizer),
    (ML, "ZipMap", 1, linear::zip_map),
    (ML, "ArrayFeatureExtractor", 1, linear::array_feature_extractor),
    (ML, "LabelEncoder", 1, linear::label_encoder),
    (ML, "Imputer", 1, linear::imputer),
    (ML, "FeatureVectorizer", 1, linear::feature_vectorizer),
    (ML, "OneHotEncoder", 1, linear::one_hot_encoder),
    (MICROSOFT, "Gelu", 1, unary::microsoft_gelu),
    (MICROSOFT, "QuickGelu", 1, unary::quick_gelu),
    (MICROSOFT, "FusedMatMul", 1, matmul::fused_matmul),
    (MICROSOFT, "SkipLayerNormalization", 1, norm::skip_layer_norm),
    (MICROSOFT, "SkipSimplifiedLayerNormalization", 1, norm::skip_rms_norm),
    (ONNX, "SimplifiedLayerNormalization", 1, norm::rms_norm),
];

/// Returns the maker of an operator for a version of the operator set.
pub(crate) fn find(domain: &str, name: &str, opset: i64) -> Option<Make> {
    let rows = OPERATORS.iter().filter(|row| row.0 == domain && row.1 == name && row.2 <= opset);
    rows.max_by_key(|row| row.2).map(|row| row.3)
}

/// Returns the operators: domain (empty for ONNX's own) and name.
pub fn supported_operators() -> Vec<(&'static str, &'static str)> {
    let mut names: Vec<_> = OPERATORS.iter().map(|row| (row.0, row.1)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Place of an operator that is missing, while the others are looked up.
#[derive(Debug)]
pub(crate) struct Unsupported;

impl Operator for Unsupported {
    fn run(&self, _ctx: &Context<'_>, _inputs: Inputs) -> Result<Outputs, Error> {
        Err("is not supported".into())
    }

    fn is_pure(&self) -> bool {
        false
    }
}
