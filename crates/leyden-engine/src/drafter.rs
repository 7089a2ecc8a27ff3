//! [`Drafter`]: a draft model with the texts of the requests that it drafts for.
//!
//! Its sequences follow those of the model: before a draft it reads the tokens that were generated since its last one,
//! and forgets its own that were rejected. All drafts of a step are made together, one token of each in every step of
//! the draft model.

use crate::engine::{Engine, Outputs, StepEntry, StepPlan};
use crate::error::{Error, ErrorKind};
use crate::prefix::Scope;
use crate::sample::Proposal;
use crate::schedule::{Draft, DraftCost, Progress, Request, RequestId, StepLoad, Wish};
use crate::tables::SequenceId;
use leyden_kernels::attention::KvType;
use leyden_models::{AdapterSet, Network};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Number of tokens at the beginning of a text that are read when those after them are skipped: attention needs some
/// tokens that it can rest on (Xiao et al., "Efficient Streaming Language Models with Attention Sinks", 2023).
const SINKS: usize = 4;

/// Text of a request in the draft model.
#[derive(Debug)]
struct Text {
    sequence: SequenceId,
    /// Tokens in the draft model's cache: some of the text, then drafted ones.
    tokens: Vec<u32>,
    /// Number of the tokens that are certain, and of the tokens of the text that these stand for.
    certain: usize,
    upto: usize,
    /// Number of tokens of the text that were skipped.
    skipped: usize,
    /// Tokens of the beginning that are read first, if those after them are skipped.
    sinks: Vec<u32>,
    is_reading: bool,
}

/// Request with a wished draft.
#[derive(Debug)]
pub(crate) struct Wished<'a> {
    pub(crate) wish: &'a Wish,
    pub(crate) scope: Arc<Scope>,
    /// Its tokens.
    pub(crate) tokens: &'a [u32],
}

/// Draft model with a cache of its own.
#[derive(Debug)]
pub(crate) struct Drafter {
    engine: Engine,
    texts: HashMap<RequestId, Text>,
}

/// Drafts of a step.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) drafts: Vec<(RequestId, Draft)>,
    /// Number of rows with logits of each step of the draft model.
    pub(crate) steps: Vec<usize>,
    /// Sizes and times of its steps.
    pub(crate) times: Vec<(StepLoad, Duration)>,
}

/// Draft in the making.
struct Turn<'a> {
    wished: &'a Wished<'a>,
    /// Tokens to be read next, and how many of them are of the text.
    feed: Vec<u32>,
    of_text: usize,
    /// True if the text is read to its end with them, so that a token can be proposed.
    is_complete: bool,
    draft: Draft,
    /// Probability of all tokens of the draft.
    reach: f64,
}

impl Turn<'_> {
    /// Adds a proposal to the draft, and returns whether another token is to be drafted after it.
    fn take(&mut self, proposal: Proposal) -> bool {
        let wish = self.wished.wish;
        let mut most = wish.tokens;
        if let Some(probability) = proposal.probability {
            self.reach *= probability;
            if self.reach < wish.least {
                self.draft.doubt = Some(probability);
                return false;
            }
            most = wish.most;
        }
        self.draft.tokens.push(proposal.token);
        self.draft.tokens.len() < most
    }
}

/// Function that proposes the token at a position of a request's text from the draft model's logits; `None` ends the
/// draft.
pub(crate) type Propose<'a> = dyn FnMut(&[(RequestId, &[f32], usize)]) -> Vec<Option<Proposal>> + 'a;

impl Drafter {
    /// Creates a drafter for a model.
    ///
    /// # Errors
    /// The draft model does not generate, has another vocabulary, or cannot forget tokens.
    pub(crate) fn new(engine: Engine, target: &dyn Network) -> Result<Drafter, Error> {
        check_draft(target, engine.model())?;
        Ok(Drafter { engine, texts: HashMap::new() })
    }

    /// Returns the cost of the draft model relative to the model's.
    pub(crate) fn cost(&self, target: &dyn Network) -> DraftCost {
        let draft = self.engine.model();
        DraftCost {
            reading: draft.step_bytes(1) as f64 / target.step_bytes(1).max(1) as f64,
            computing: draft.step_macs(1, 1) as f64 / target.step_macs(1, 1).max(1) as f64,
        }
    }

    /// Returns the progress in the text of a request.
    pub(crate) fn progress(&self, request: &Request, tokens: &[u32]) -> Progress {
        match self.texts.get(&request.id) {
            Some(text) => {
                let same = text.right(tokens);
                Progress {
                    read: text.certain + same,
                    skipped: text.skipped,
                    behind: (tokens.len() - text.upto - same).max(1),
                    is_reading: text.is_reading,
                }
            }
            None => {
                let read =
                    self.engine.tables().fit(Some(&scope_of(request)), tokens, tokens.len()).cached_tokens;
                Progress { read, skipped: 0, behind: tokens.len() - read, is_reading: false }
            }
        }
    }

    /// Forgets a request.
    pub(crate) fn close(&mut self, request: RequestId) {
        if let Some(text) = self.texts.remove(&request) {
            self.engine.close(text.sequence);
        }
    }

    /// Makes drafts. `chunk` is the number of tokens that may be read in a step, and `clock` returns the time.
    ///
    /// # Errors
    /// The draft model failed; it has forgotten all texts.
    pub(crate) fn make(
        &mut self,
        wishes: &[Wished<'_>],
        chunk: usize,
        propose: &mut Propose<'_>,
        clock: &dyn Fn() -> Duration,
    ) -> Result<Made, Error> {
        let mut left = chunk.clamp(1, self.engine.options().step_tokens);
        let mut turns = Vec::new();
        for wished in wishes {
            turns.extend(self.begin(wished, &mut left));
        }
        let mut made = Made::default();
        if let Err(error) = self.run(&mut turns, propose, clock, &mut made) {
            self.texts.drain().for_each(|(_, text)| self.engine.close(text.sequence));
            return Err(error);
        }
        made.drafts = turns.into_iter().map(|turn| (turn.wished.wish.request, turn.draft)).collect();
        Ok(made)
    }

    /// Begins a draft: opens the text or forgets rejected tokens, and takes the next tokens to be read, at most `left`.
    /// Returns `None` if there is no room.
    fn begin<'a>(&mut self, wished: &'a Wished<'a>, left: &mut usize) -> Option<Turn<'a>> {
        let Wished { wish, tokens, .. } = *wished;
        if wish.anew {
            self.close(wish.request);
        }
        let behind = self.texts.get(&wish.request).map(|text| tokens.len() - text.upto);
        if behind.is_some_and(|behind| behind > wish.read + wish.most) {
            self.close(wish.request);
        }
        if !self.texts.contains_key(&wish.request) {
            self.open(wished);
        }
        let text = self.texts.get_mut(&wish.request)?;
        // The last token is always read again, as the logits after it are needed.
        let same = text.right(tokens).min((tokens.len() - text.upto).saturating_sub(1));
        let keep = text.certain + same;
        let is_kept = self.engine.truncate(text.sequence, keep).is_ok();
        text.tokens.truncate(keep);
        (text.certain, text.upto) = (keep, text.upto + same);
        // Certain tokens alone: they are never truncated.
        let _ = self.engine.tables_mut().publish(text.sequence, &text.tokens);
        let rest = &tokens[text.upto..];
        let of_text = rest.len().min(*left);
        let feed = [&text.sinks[..], &rest[..of_text]].concat();
        let end = keep + feed.len() + wish.most;
        let is_usable = is_kept
            && of_text > 0
            && end <= self.engine.options().context
            && feed.iter().all(|token| (*token as usize) < self.engine.model().vocabulary());
        if !is_usable || !self.engine.tables_mut().reserve(text.sequence, end) {
            // Other requests may use its blocks.
            self.close(wish.request);
            return None;
        }
        *left -= of_text;
        text.sinks.clear();
        // Reading a few tokens is a part of the draft's first step.
        let read = if of_text > 2 * wish.most { of_text } else { 0 };
        let draft = Draft { read, ..Draft::default() };
        Some(Turn { wished, feed, of_text, is_complete: of_text == rest.len(), draft, reach: 1.0 })
    }

    /// Opens a text whose last `wish.read` tokens are to be read, besides those in the prefix cache.
    fn open(&mut self, wished: &Wished<'_>) {
        let Wished { wish, tokens, .. } = *wished;
        let (sinks, is_reading) = (Vec::new(), false);
        let scope = Arc::clone(&wished.scope);
        let cached = self.engine.tables().fit(Some(&scope), tokens, tokens.len()).cached_tokens;
        let from = tokens.len().saturating_sub(wish.read);
        let tables = self.engine.tables_mut();
        let text = if from <= cached.max(SINKS) {
            let (sequence, cached) = tables.open_shared(scope, tokens);
            let tokens = tokens[..cached].to_vec();
            Text { sequence, tokens, certain: cached, upto: cached, skipped: 0, sinks, is_reading }
        } else {
            // Blocks with skipped tokens before them are of no use to others.
            let (sequence, sinks) = (tables.open(), tokens[..SINKS].to_vec());
            Text {
                sequence,
                tokens: Vec::new(),
                certain: 0,
                upto: from,
                skipped: from - SINKS,
                sinks,
                is_reading,
            }
        };
        self.texts.insert(wish.request, text);
    }

    /// Runs steps of the draft model until all drafts are made.
    fn run(
        &mut self,
        turns: &mut [Turn<'_>],
        propose: &mut Propose<'_>,
        clock: &dyn Fn() -> Duration,
        made: &mut Made,
    ) -> Result<(), Error> {
        loop {
            let mut open: Vec<&mut Turn<'_>> =
                turns.iter_mut().filter(|turn| !turn.feed.is_empty()).collect();
            if open.is_empty() {
                return Ok(());
            }
            let begun = clock();
            let (mut plan, mut load) = (StepPlan::default(), StepLoad::default());
            for turn in &mut open {
                let entry = self.entry(turn, &mut load);
                plan.entries.extend(entry);
            }
            let vocabulary = self.engine.model().vocabulary();
            let output = self.engine.step(&plan)?;
            let rows: Vec<_> = output.rows().collect();
            open.retain(|turn| turn.is_complete);
            let asked: Vec<(RequestId, &[f32], usize)> = open
                .iter()
                .zip(&rows)
                .map(|(turn, row)| {
                    let position = turn.wished.tokens.len() + turn.draft.tokens.len();
                    (turn.wished.wish.request, row.logits, position)
                })
                .collect();
            let proposals = propose(&asked);
            for (turn, proposal) in open.into_iter().zip(proposals) {
                let proposal = proposal.filter(|p| (p.token as usize) < vocabulary);
                if let Some(proposal) = proposal.filter(|_| turn.wished.wish.tokens > 0)
                    && turn.take(proposal)
                {
                    turn.feed.push(proposal.token);
                }
            }
            made.steps.push(rows.len());
            made.times.push((load, clock().saturating_sub(begun)));
        }
    }

    /// Takes a turn's next tokens as an entry of a step.
    fn entry(&mut self, turn: &mut Turn<'_>, load: &mut StepLoad) -> Option<StepEntry> {
        let tokens = std::mem::take(&mut turn.feed);
        let text = self.texts.get_mut(&turn.wished.wish.request)?;
        let (from, n) = (text.tokens.len() as f64, tokens.len() as f64);
        let samples = f64::from(u8::from(turn.is_complete));
        load.samples += samples;
        load.others += n - samples;
        load.positions += n * (from + n / 2.0);
        text.tokens.extend_from_slice(&tokens);
        let of_text = std::mem::take(&mut turn.of_text);
        if of_text > 0 {
            text.upto += of_text;
            text.certain = text.tokens.len();
            text.is_reading = !turn.is_complete;
        }
        let outputs = if turn.is_complete { Outputs::Last } else { Outputs::None };
        Some(StepEntry { sequence: text.sequence, tokens, outputs })
    }
}

impl Text {
    /// Returns the number of drafted tokens that are right: the text has the same.
    fn right(&self, tokens: &[u32]) -> usize {
        self.tokens[self.certain..].iter().zip(&tokens[self.upto..]).take_while(|(a, b)| a == b).count()
    }
}

/// Returns the scope in which a request's text shares blocks of the draft model, which computes without adapters.
pub(crate) fn scope_of(request: &Request) -> Arc<Scope> {
    let own = || Scope {
        model: "draft".to_owned(),
        kv_type: KvType::F16,
        owner: String::new(),
        adapters: AdapterSet::default(),
        // Sessions share with themselves, other requests without a scope with none.
        salt: request.held.map_or_else(|| request.id.0.to_string(), |held| format!("{:?}", held.sequence)),
    };
    match &request.scope {
        Some(scope) if scope.adapters == AdapterSet::default() => Arc::clone(scope),
        Some(scope) => Arc::new(Scope { adapters: AdapterSet::default(), ..Scope::clone(scope) }),
        None => Arc::new(own()),
    }
}

/// Checks that a model can draft for another: it generates, has the same number of tokens up to unused rows, and can
/// forget rejected tokens. That the tokens are the same is for the tokenizers' owner to check.
///
/// # Errors
/// It cannot; the error says why.
pub fn check_draft(target: &dyn Network, draft: &dyn Network) -> Result<(), Error> {
    let refuse = |what: String| Err(ErrorKind::Draft { what }.into());
    if !draft.config().generates() || !target.config().generates() {
        return refuse("an encoder generates no text".to_owned());
    }
    let is_recurrent =
        |model: &dyn Network| model.kv_shape(KvType::F16).is_ok_and(|shape| shape.state_bytes() > 0);
    if is_recurrent(draft) {
        return refuse("its recurrent layers cannot go back to before a rejected token".to_owned());
    }
    Ok(())
}
