//! Heads: outputs that are computed from the hidden states of a text.
//!
//! A [`Head`] is plain data: the kind of output, and what it needs of the request. Each kind is a file with its
//! `HeadKind` and a row of the table below; its weights, if any, are a layer in `HeadWeights`. The engine pools the
//! hidden states of a prompt, and computes the heads of all prompts that a step completes together.

mod found_spans;
mod kind;
mod label_logits;
mod pooled_states;
mod span_logits;
mod sparse_vector;
mod text_vector;
mod token_states;
mod token_vectors;
mod weights;

pub use kind::{HeadError, HeadOutput};
pub(crate) use weights::HeadWeights;

use crate::config::ModelConfig;
use crate::pooling::Pooling;
use kind::HeadKind;
use leyden_kernels::Cpu;

/// Maximum number of rows that texts put together in one product; longer texts are computed alone, without a copy.
const GROUP_ROWS: usize = 1024;

/// Defines [`Head`] with a variant for each row: the module of a head, and its struct, which names the variant.
macro_rules! heads {
    ($($module:ident::$kind:ident,)*) => {
        $(pub use $module::$kind;)*

        /// Output that a request asks for of a text.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Head {
            $(#[doc = concat!("See [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        impl Head {
            fn kind(&self) -> &dyn HeadKind {
                match self {
                    $(Head::$kind(head) => head,)*
                }
            }
        }

        $(impl From<$kind> for Head {
            fn from(head: $kind) -> Head {
                Head::$kind(head)
            }
        })*
    };
}

heads! {
    token_states::TokenStates,
    pooled_states::PooledStates,
    text_vector::TextVector,
    sparse_vector::SparseVector,
    token_vectors::TokenVectors,
    label_logits::LabelLogits,
    span_logits::SpanLogits,
    found_spans::FoundSpans,
}

impl Head {
    /// Returns the pooling of the hidden states that the head reads; `None` if it reads those of all tokens.
    #[must_use]
    pub fn pooling(&self) -> Option<Pooling> {
        self.kind().pooling()
    }

    /// Returns true if hidden states before the last token's are read, so that those of all tokens are computed.
    #[must_use]
    pub fn needs_all(&self) -> bool {
        self.pooling().is_none_or(Pooling::needs_all)
    }

    /// Checks that a model has the head and that the request's data fits a text of `n_tokens` tokens.
    ///
    /// # Errors
    /// The model lacks the head, or words or labels are outside the text.
    pub fn check(&self, config: &ModelConfig, n_tokens: usize) -> Result<(), HeadError> {
        self.kind().check(config, n_tokens)
    }
}

/// Input of a head: a text's hidden states.
#[derive(Clone, Copy, Debug)]
pub struct HeadInput<'a> {
    /// Requested output.
    pub head: &'a Head,
    /// Token ids of the text `[n_tokens]`.
    pub tokens: &'a [u32],
    /// Hidden states `[n_tokens, hidden]`, or pooled ones `[1, hidden]` if the head has a pooling.
    pub states: &'a [f32],
}

impl HeadWeights {
    /// Computes the heads of texts; see [`Network::heads`](crate::Network::heads).
    pub(crate) fn compute(
        &self,
        cpu: &Cpu,
        texts: &[HeadInput<'_>],
        take: &mut dyn FnMut(usize, Option<HeadOutput>),
    ) {
        let rows = |text: &HeadInput<'_>| text.states.len() / self.width;
        let mut left: Vec<usize> = (0..texts.len()).collect();
        while let Some(&first) = left.first() {
            let (head, mut n_rows) = (texts[first].head, 0);
            let joins = |i: &usize| {
                let joined = *i == first
                    || head.kind().is_row_wise()
                        && texts[*i].head == head
                        && n_rows + rows(&texts[*i]) <= GROUP_ROWS;
                n_rows += if joined { rows(&texts[*i]) } else { 0 };
                joined
            };
            let (mut group, others): (Vec<usize>, Vec<usize>) = left.into_iter().partition(joins);
            left = others;
            group.retain(|&i| {
                let finite = texts[i].states.iter().all(|x| x.is_finite());
                if !finite {
                    take(i, None);
                }
                finite
            });
            let outputs = match group[..] {
                [] => Vec::new(),
                [one] => vec![head.kind().output(self, cpu, texts[one].tokens, texts[one].states)],
                _ => {
                    let states: Vec<f32> = group.iter().flat_map(|i| texts[*i].states).copied().collect();
                    let n_rows: Vec<usize> = group.iter().map(|i| rows(&texts[*i])).collect();
                    let all = head.kind().output(self, cpu, &[], &states);
                    all.into_iter().flat_map(|all| all.split(&n_rows)).map(Some).collect()
                }
            };
            for (i, output) in group.into_iter().zip(outputs) {
                take(i, output.filter(HeadOutput::is_finite));
            }
        }
    }
}
