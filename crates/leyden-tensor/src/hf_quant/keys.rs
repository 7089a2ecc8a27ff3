//! The keys of `quantization_config`, with a rule for each: [`check`].
//!
//! Which tensors are quantised, and in groups of which size, shows in the files, so keys that say this again change nothing. A
//! key without a row is refused, unless its value says nothing.

use crate::error::{Error, ErrorKind};
use crate::file::{Json, KnownKeys, choice_key, empty_key, harmless_key, read_key};

/// Keys of GPTQ's programs: AutoGPTQ, GPTQModel, Optimum.
const GPTQ: KnownKeys = KnownKeys(&[
    read_key("quant_method"),
    read_key("bits"),
    read_key("checkpoint_format"),
    read_key("format"),
    read_key("pack_dtype"),
    read_key("dynamic"),
    empty_key("is_marlin_format", "another order of the words"),
    empty_key("adapter", "an adapter beside the quantised matrices"),
    empty_key("rotation", "a rotation of weights"),
    choice_key("method", &["gptq"], "another method"),
    // The files say it.
    harmless_key("desc_act"),
    harmless_key("group_size"),
    harmless_key("lm_head"),
    harmless_key("modules_in_block_to_quantize"),
    harmless_key("static_groups"),
    harmless_key("sym"),
    // Options of the search for the integers.
    harmless_key("act_group_aware"),
    harmless_key("block_name_to_quantize"),
    harmless_key("cache_block_outputs"),
    harmless_key("damp_auto_increment"),
    harmless_key("damp_percent"),
    harmless_key("dataset"),
    harmless_key("hyb_act"),
    harmless_key("mse"),
    harmless_key("module_name_preceding_first_block"),
    harmless_key("true_sequential"),
    // Options of programs that run them, and remarks.
    harmless_key("backend"),
    harmless_key("batch_size"),
    harmless_key("desc"),
    harmless_key("device"),
    harmless_key("disable_exllama"),
    harmless_key("exllama_config"),
    harmless_key("max_input_length"),
    harmless_key("meta"),
    harmless_key("model_file_base_name"),
    harmless_key("model_name_or_path"),
    harmless_key("model_seqlen"),
    harmless_key("offload_to_disk"),
    harmless_key("offload_to_disk_path"),
    harmless_key("pack_impl"),
    harmless_key("pad_token_id"),
    harmless_key("parallel_packing"),
    harmless_key("quantizer"),
    harmless_key("tokenizer"),
    harmless_key("use_cuda_fp16"),
    harmless_key("use_exllama"),
    harmless_key("version"),
]);

/// Keys of AWQ's programs.
const AWQ: KnownKeys = KnownKeys(&[
    read_key("quant_method"),
    read_key("bits"),
    read_key("version"),
    choice_key("checkpoint_format", &["gemm"], "another order of the words"),
    choice_key("format", &["gemm"], "another order of the words"),
    choice_key("method", &["awq"], "another method"),
    choice_key("w_bit", &["4"], "another number of bits"),
    empty_key("dynamic", "other settings for some matrices"),
    // The files say it.
    harmless_key("desc_act"),
    harmless_key("group_size"),
    harmless_key("lm_head"),
    harmless_key("modules_to_not_convert"),
    harmless_key("pack_dtype"),
    harmless_key("q_group_size"),
    harmless_key("sym"),
    harmless_key("zero_point"),
    // Options of programs that run them, and remarks.
    harmless_key("backend"),
    harmless_key("do_fuse"),
    harmless_key("exllama_config"),
    harmless_key("fuse_max_seq_len"),
    harmless_key("meta"),
    harmless_key("modules_to_fuse"),
]);

/// Keys of compressed-tensors.
const COMPRESSED: KnownKeys = KnownKeys(&[
    read_key("quant_method"),
    read_key("format"),
    read_key("config_groups"),
    read_key("sparsity_config"),
    read_key("transform_config"),
    // The files say it.
    harmless_key("ignore"),
    harmless_key("quantization_status"),
    // Caches have the type that their user chooses.
    harmless_key("kv_cache_scheme"),
    // Remarks.
    harmless_key("global_compression_ratio"),
    harmless_key("run_compressed"),
    harmless_key("version"),
]);

/// Keys of a group of matrices of compressed-tensors.
const GROUP: KnownKeys = KnownKeys(&[
    read_key("weights"),
    read_key("format"),
    harmless_key("targets"),
    // Activations are rounded as for GGUF's types.
    harmless_key("input_activations"),
    harmless_key("output_activations"),
]);

/// Keys of a group's weights.
const WEIGHTS: KnownKeys = KnownKeys(&[
    read_key("num_bits"),
    read_key("block_structure"),
    choice_key("type", &["int", "float"], "another kind of numbers"),
    choice_key("strategy", &["tensor", "channel", "group", "block"], "scales of another kind"),
    empty_key("dynamic", "weights that are quantised when they are read"),
    // The files say it.
    harmless_key("actorder"),
    harmless_key("group_size"),
    harmless_key("scale_dtype"),
    harmless_key("symmetric"),
    harmless_key("zp_dtype"),
    // Options of the search for the scales.
    harmless_key("observer"),
    harmless_key("observer_kwargs"),
]);

/// Keys of FP8 with scales of blocks.
const FP8: KnownKeys = KnownKeys(&[
    read_key("quant_method"),
    read_key("fmt"),
    read_key("weight_block_size"),
    // The files say it.
    harmless_key("ignored_layers"),
    harmless_key("is_checkpoint_fp8_serialized"),
    harmless_key("modules_to_not_convert"),
    harmless_key("scale_fmt"),
    // Activations are rounded as for GGUF's types, and caches have the type that their user chooses.
    harmless_key("activation_scheme"),
    harmless_key("kv_cache_scheme"),
    harmless_key("dequantize"),
]);

/// Keys of leyden's sparse layout.
const SPARSE: KnownKeys = KnownKeys(&[read_key("quant_method"), read_key("version")]);

/// Keys of compressed-tensors' `sparsity_config`.
const SPARSITY: KnownKeys = KnownKeys(&[
    read_key("format"),
    // The files say it.
    harmless_key("global_sparsity"),
    harmless_key("ignore"),
    harmless_key("sparsity_structure"),
    harmless_key("targets"),
    harmless_key("registry_requires_subclass"),
]);

/// The methods with their keys.
const METHODS: [(&str, KnownKeys); 5] = [
    ("gptq", GPTQ),
    ("awq", AWQ),
    ("compressed-tensors", COMPRESSED),
    ("fp8", FP8),
    ("leyden-sparse", SPARSE),
];

/// Refuses what a method's description asks for and is not computed. `root` is the key of the description.
///
/// # Errors
/// A key has a value that is not supported, or is not known. The error names it with those around it.
pub(super) fn check(config: &Json, root: &str, method: &str) -> Result<(), Error> {
    let Some((_, known)) = METHODS.iter().find(|row| row.0 == method) else { return Ok(()) };
    one(config, root, *known)?;
    if method == "compressed-tensors" {
        one(config, &format!("{root}.sparsity_config"), SPARSITY)?;
    }
    let groups = format!("{root}.config_groups");
    let names = config.nested(&groups)?.filter(|_| method == "compressed-tensors");
    for name in names.iter().flat_map(|groups| groups.object().keys()) {
        let group = format!("{groups}.{name}");
        // A name with a dot in it is no path of keys either.
        if config.nested(&group)?.is_none() {
            return Err(config.wrong_type(&group, "object"));
        }
        one(config, &group, GROUP)?;
        one(config, &format!("{group}.weights"), WEIGHTS)?;
    }
    Ok(())
}

/// Checks the keys of one object.
fn one(config: &Json, at: &str, known: KnownKeys) -> Result<(), Error> {
    let Some(object) = config.nested(at)? else { return Ok(()) };
    known.check_all(&object).map_err(|refused| {
        let kind = ErrorKind::RefusedKey { what: refused.what };
        Error::new(kind).item(&format!("{at}.{}", refused.key)).file(&config.file().into())
    })
}
