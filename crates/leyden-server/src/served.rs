//! [`Served`]: a loaded model with its engines.

use crate::about::{About, capabilities};
use crate::adapters::Adapters;
use crate::calibrated::Calibrated;
use crate::defaults::Defaults;
use crate::failure::Error;
use crate::grammar_cache::Grammars;
use crate::log::Log;
use crate::metrics::ModelMetrics;
use crate::model::{Model, ModelInfo};
use crate::replicas::Replicas;
use crate::service::{Loaded, Service};
use leyden_engine::Pooling;
use leyden_engine::sample::SamplingParams;
use leyden_engine::schedule::Promise;
use leyden_kernels::Tier;
use leyden_models::Prompts;
use leyden_tasks::Samplers;
use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, FillInMiddle, Tokenizer, generic_tools};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A loaded model with its engines.
pub(crate) struct Served {
    pub(crate) name: String,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) template: Option<Arc<ChatTemplate>>,
    /// True if the text of a special token in a message is encoded as that token.
    pub(crate) special_in_content: bool,
    /// True if a whole answer in the form of calls without their markers is parsed as calls.
    pub(crate) bare_calls: bool,
    pub(crate) sampling: SamplingParams,
    pub(crate) defaults: Defaults,
    pub(crate) sequence_breakers: Vec<String>,
    pub(crate) samplers: Samplers,
    pub(crate) grammars: Grammars,
    /// The markers of reasoning and calls.
    pub(crate) format: OutputFormat,
    /// True if its template has no tools, so that their descriptions and calls are written for it.
    pub(crate) generic_tools: bool,
    /// True if its template renders calls of earlier turns without having tools.
    pub(crate) shows_calls: bool,
    /// Special tokens that the markers consist of, ascending.
    pub(crate) visible: Arc<[u32]>,
    pub(crate) replicas: Replicas,
    /// Service level objective under which requests are admitted.
    pub(crate) promise: Option<Promise>,
    pub(crate) kv_type: leyden_kernels::attention::KvType,
    pub(crate) context: usize,
    /// Size of the KV cache in tokens.
    pub(crate) kv_tokens: usize,
    pub(crate) vocabulary: usize,
    pub(crate) tier: Tier,
    pub(crate) width: usize,
    /// Width of a text's vector.
    pub(crate) vector_width: usize,
    pub(crate) pooling: Pooling,
    pub(crate) info: ModelInfo,
    /// True if it computes logits; an encoder only computes hidden states.
    pub(crate) generates: bool,
    /// Bytes of memory of weights, caches and workspaces.
    pub(crate) bytes: u64,
    pub(crate) network: Arc<dyn leyden_models::Network>,
    pub(crate) adapters: Adapters,
    pub(crate) prompts: Prompts,
    pub(crate) calibrated: Option<Calibrated>,
    /// The tokens for fill-in-the-middle, computed at the first use: that reads the whole vocabulary.
    fim: OnceLock<Option<FillInMiddle>>,
}

impl From<Model> for Loaded {
    fn from(model: Model) -> Loaded {
        Loaded::new(|log| Served::start(model, log))
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Served {
    /// Returns the tokens for fill-in-the-middle prompts, if the model was trained for them.
    pub(crate) fn fill_in_middle(&self) -> Option<FillInMiddle> {
        *self.fim.get_or_init(|| FillInMiddle::of(self.tokenizer.as_ref()))
    }

    /// Starts its engines.
    ///
    /// # Errors
    /// Memory or threads are short.
    pub(crate) fn start(model: Model, log: &Arc<Log>) -> Result<Served, Error> {
        let replicas = Replicas::start(&model, log)?;
        let config = model.network.config();
        let mut format = model.template.as_deref().map_or_else(OutputFormat::plain, OutputFormat::detect);
        let generic_tools = format.calls().is_none() && !format.is_harmony();
        let shows_calls = generic_tools && model.template.as_deref().is_some_and(generic_tools::shows_calls);
        if generic_tools {
            format = format.with_generic_calls();
        }
        let visible = format.visible_tokens(model.tokenizer.as_ref()).into();
        let blocks = leyden_kernels::attention::BLOCK_TOKENS;
        let bytes = model.bytes();
        Ok(Served {
            bytes,
            fim: OnceLock::new(),
            replicas,
            promise: model.worker.promise,
            kv_type: model.worker.kv_type,
            context: model.worker.context,
            kv_tokens: model.worker.kv_tokens.div_ceil(blocks) * blocks,
            vocabulary: model.network.vocabulary(),
            tier: model.cpus[0].tier(),
            width: config.width,
            vector_width: config.vector_width(),
            pooling: model.pooling,
            info: model.info,
            generates: config.generates(),
            network: Arc::clone(&model.network),
            adapters: Adapters::new(model.adapters),
            prompts: model.prompts,
            calibrated: model.calibrated,
            name: model.name,
            tokenizer: model.tokenizer,
            template: model.template,
            special_in_content: model.special_in_content,
            bare_calls: model.bare_calls,
            sampling: model.sampling,
            defaults: model.defaults,
            sequence_breakers: model.sequence_breakers,
            samplers: Samplers::default(),
            grammars: Grammars::default(),
            format,
            generic_tools,
            shows_calls,
            visible,
        })
    }
}

impl Served {
    /// Returns the model's description, as `/api/show` has it.
    pub(crate) fn about(&self) -> About {
        let fills = self.generates && self.fill_in_middle().is_some();
        About {
            template: self
                .template
                .as_ref()
                .map_or_else(String::new, |template| template.source().to_owned()),
            capabilities: capabilities(self.network.config(), self.pooling, fills, &self.format),
            width: self.width,
            vocabulary: self.vocabulary,
            defaults: self.defaults.clone(),
        }
    }
}

impl Service for Served {
    fn reserved_bytes(&self) -> u64 {
        self.bytes
    }

    fn context(&self) -> usize {
        self.context
    }

    fn metrics(&self) -> Vec<Arc<ModelMetrics>> {
        self.replicas.metrics().map(Arc::clone).collect()
    }

    fn is_alive(&self) -> bool {
        self.replicas.are_alive()
    }

    fn end_requests(&self) {
        self.replicas.close();
    }

    /// Returns the bytes of weights, adapters, the blocks of the KV caches with tokens in them, and states of recurrent
    /// layers.
    fn used_bytes(&self) -> u64 {
        let blocks: u64 =
            self.replicas.metrics().map(|m| m.kv_blocks_used.get() + m.kv_blocks_cached.get()).sum();
        let states: u64 = self.replicas.metrics().map(|m| m.running.get() + m.state_checkpoints.get()).sum();
        let shape = self.network.kv_shape(self.kv_type).ok();
        let (token, state) = shape.map_or((0, 0), |shape| (shape.token_bytes(), shape.state_bytes()));
        let block = (token * leyden_kernels::attention::BLOCK_TOKENS) as u64;
        let weights = self.network.weight_bytes() as u64 + self.adapters.bytes();
        let cache = blocks.saturating_mul(block).saturating_add(states.saturating_mul(state as u64));
        weights.saturating_add(cache).min(self.bytes)
    }
}
