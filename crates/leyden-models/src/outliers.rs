//! Outlier channels of the inputs of INT8 rows, found by running an encoder on random tokens when it is loaded.
//!
//! A few channels of an encoder's hidden states are large, the same ones for any text (Dettmers et al., LLM.int8(),
//! 2022; Kovaleva et al., BERT Busters, 2021), so random tokens do: on 200 questions of banking77, vectors of MiniLM are as
//! accurate with channels found on random tokens as with channels found on the questions. The tokens are the same at
//! each load, and so are the channels, since results are the same on every machine.

use crate::activation_sums::ActivationSums;
use crate::batch::{Batch, Span};
use crate::error::Error;
use crate::lora::AdapterSet;
use crate::network::Network;
use crate::workspace::Workspace;
use leyden_kernels::attention::{KvCache, KvType};
use leyden_kernels::{Cpu, OutlierChannels};

/// Number of texts.
const TEXTS: usize = 4;
/// Maximum number of tokens of a text.
const TOKENS: usize = 32;

impl ActivationSums {
    /// Returns the outlier channels of a matrix's input; the last channels if the matrix was not used.
    pub(crate) fn outliers(&self, name: &str) -> OutlierChannels {
        let sums = self.iter().find(|(own, _)| *own == name);
        sums.map_or(OutlierChannels::LAST, |(_, sums)| OutlierChannels::of(&sums.squares))
    }
}

/// Runs an encoder on random tokens, and returns the sums of squares of its matrices' inputs.
///
/// # Errors
/// Memory is short, or the model cannot be run.
pub(crate) fn sums_of_random_tokens(cpu: &Cpu, network: &dyn Network) -> Result<ActivationSums, Error> {
    let (vocabulary, n) = (network.vocabulary().max(1) as u64, TOKENS.min(network.config().context));
    // Multiples of the golden ratio are spread evenly (Fibonacci hashing; Knuth, The Art of Computer Programming, 6.4).
    let token = |i: u64| (((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * vocabulary) >> 32) as u32;
    let tokens: Vec<u32> = (1..=(TEXTS * n) as u64).map(token).collect();
    let states: Vec<usize> = (0..tokens.len()).collect();
    let (blocks, adapters) = ([[0], [1], [2], [3]], AdapterSet::default());
    let span = |i: usize| Span {
        tokens: n,
        position: 0,
        blocks: &blocks[i],
        state: i,
        checkpoints: &[],
        second: None,
        adapters: &adapters,
    };
    let spans: [Span<'_>; TEXTS] = std::array::from_fn(span);
    let batch = Batch { tokens: &tokens, spans: &spans, outputs: &[], states: &states, context: n };
    let short = |e| Error::resources("the key-value cache", e);
    let mut cache = KvCache::new(network.kv_shape(KvType::F32)?, TEXTS).map_err(short)?;
    let mut work = Workspace::default();
    work.record(ActivationSums::default());
    network.forward(cpu, &batch, &mut cache, &mut work)?;
    Ok(work.recorded())
}
