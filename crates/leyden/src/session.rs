//! [`Session`]: one conversation or text, whose tokens stay in the cache, so that only new ones are computed.

use crate::error::Error;
use crate::generation::{Event, Finish, Generation, StreamEvent};
use crate::job::{Job, Text, named, sampler};
use crate::options::{GenerateOptions, SessionOptions};
use leyden_engine::schedule::{
    Decision, Held, KeyId, PromptRows, Request, RequestId, Scheduler, SchedulerOptions,
};
use leyden_engine::{AdapterSet, Engine, EngineOptions, Generator, SequenceId, usual_checkpoint_bytes};
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvType;
use leyden_models::Network;
use leyden_tasks::Samplers;
use leyden_text::output::OutputFormat;
use leyden_text::{ChatTemplate, Message, RenderOptions, Rendered, Tokenizer};
use std::collections::VecDeque;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of prompt tokens computed in one step.
pub(crate) const PROMPT_STEP: usize = 512;

/// Time that a prompt may take in a step: nobody waits for another answer.
const PROMPT_STALL: Duration = Duration::from_secs(60);

/// Default maximum of bytes for checkpoints of recurrent states.
const STATE_CACHE: usize = 256 << 20;

/// Returns the bytes for checkpoints of a model's recurrent states: `set`, or the default for `texts` texts at a time.
pub(crate) fn state_cache(
    network: &dyn Network,
    kv_type: KvType,
    set: Option<usize>,
    texts: usize,
) -> Result<usize, Error> {
    let state = network.kv_shape(kv_type)?.state_bytes();
    Ok(set.unwrap_or_else(|| usual_checkpoint_bytes(state, texts, STATE_CACHE)))
}

/// Parts of a model that sessions and batches use.
pub(crate) struct Parts {
    pub(crate) network: Arc<dyn Network>,
    pub(crate) cpu: Arc<Cpu>,
    pub(crate) tokenizer: Arc<dyn Tokenizer>,
    pub(crate) template: Option<Arc<ChatTemplate>>,
    /// Path of the model, for errors.
    pub(crate) file: String,
    /// Adapters of answers without their own.
    pub(crate) adapters: AdapterSet,
    pub(crate) draft: Option<Arc<dyn Network>>,
}

/// Conversation or text with a model.
pub struct Session {
    generator: Generator<Job>,
    tokenizer: Arc<dyn Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
    sequence: SequenceId,
    /// Adapters of the sequence, and of answers without their own.
    adapters: [AdapterSet; 2],
    file: String,
    /// Tokens whose keys and values are in the cache.
    cached: Vec<u32>,
    samplers: Samplers,
    messages: Vec<Message>,
    requests: u64,
    /// True if tokens are drafted.
    speculation: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("cached", &self.cached.len()).finish_non_exhaustive()
    }
}

/// Returns the context length: `asked`, checked against the model's, or else the model's.
pub(crate) fn context(network: &dyn Network, asked: Option<usize>) -> Result<usize, Error> {
    let made_for = network.config().context;
    let context = asked.unwrap_or(made_for);
    if context == 0 || context > made_for {
        let what = format!("{context} is not between 1 and {made_for}, the longest this model was made for");
        return Err(Error::Option { name: "ctx", what });
    }
    Ok(context)
}

/// Renders a conversation whose next message is the assistant's with the template, or joins the messages without one.
pub(crate) fn render(template: Option<&ChatTemplate>, messages: &[Message]) -> Result<Rendered, Error> {
    match template {
        Some(template) => {
            let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
            Ok(template.render(messages, &options)?)
        }
        None => Ok(leyden_text::join_messages(messages)),
    }
}

impl Session {
    pub(crate) fn new(parts: Parts, options: &SessionOptions) -> Result<Session, Error> {
        let Parts { network, cpu, tokenizer, template, file, adapters, draft } = parts;
        if !network.config().generates() {
            return Err(Error::NotGenerative { file });
        }
        let context = context(network.as_ref(), options.context)?;
        let vocabulary = network.vocabulary();
        let state_cache = state_cache(network.as_ref(), options.kv_type, options.state_cache, 1)?;
        let speculation = options.speculation;
        let options = EngineOptions {
            kv_type: options.kv_type,
            context,
            cache_tokens: context,
            step_tokens: PROMPT_STEP,
        };
        let of_draft = |draft: Arc<dyn Network>| {
            let context = context.min(draft.config().context);
            let options = EngineOptions { context, ..options };
            Engine::with_windows(draft, Arc::clone(&cpu), options, 1)
        };
        let draft = draft.filter(|_| speculation).map(of_draft).transpose()?;
        let mut engine = Engine::with_windows(network, cpu, options, 1)?.with_checkpoints(state_cache);
        let sequence = engine.open_adapted(adapters.clone());
        let options = SchedulerOptions {
            step_tokens: PROMPT_STEP,
            context,
            vocabulary,
            logit_rows: SchedulerOptions::logit_rows_for(vocabulary),
            ..SchedulerOptions::default()
        };
        let scheduler = Scheduler::new(options, engine.tables().total_blocks());
        let mut generator = Generator::new(engine, scheduler);
        if let Some(draft) = draft {
            generator = generator.with_draft(draft)?;
        }
        let (cached, messages, samplers) = (Vec::new(), Vec::new(), Samplers::default());
        Ok(Session {
            generator,
            tokenizer,
            template,
            sequence,
            adapters: [adapters.clone(), adapters],
            file,
            cached,
            samplers,
            messages,
            requests: 0,
            speculation,
        })
    }

    /// Returns the context length in tokens.
    #[must_use]
    pub fn context(&self) -> usize {
        self.generator.engine().options().context
    }

    /// Returns the messages of [`chat`](Self::chat), in order.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the messages to change them, for example to add a system message, or to clear them for a new
    /// conversation.
    pub fn messages_mut(&mut self) -> &mut Vec<Message> {
        &mut self.messages
    }

    /// Answers a user's message, with the model's chat template if it has one. `on_event` gets the text piece by piece
    /// and may stop generation. Message and answer are added to the conversation, unless it fails.
    ///
    /// Stop strings apply to the answer, not to the reasoning before it.
    ///
    /// # Errors
    /// As [`generate`](Self::generate), or the template refuses the conversation.
    ///
    /// ```
    /// use leyden::{GenerateOptions, LoadOptions, Model, SessionOptions};
    /// use std::ops::ControlFlow;
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let mut session = model.session(&SessionOptions::default())?;
    /// let options = GenerateOptions::new().max_tokens(8);
    /// let first = session.chat("Once upon a time", &options, &mut |_| ControlFlow::Continue(()))?;
    /// let second = session.chat("And then?", &options, &mut |_| ControlFlow::Continue(()))?;
    /// assert_eq!(session.messages().len(), 4);
    /// assert!(second.cached_tokens >= first.prompt_tokens);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn chat(
        &mut self,
        message: &str,
        options: &GenerateOptions,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation, Error> {
        self.messages.push(Message::new("user", message));
        let answer = self.answer(options, on_event);
        match &answer {
            Ok(answer) => self.messages.push(Message::new("assistant", &answer.text)),
            Err(_) => drop(self.messages.pop()),
        }
        answer
    }

    fn answer(
        &mut self,
        options: &GenerateOptions,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation, Error> {
        let prompt = render(self.template.as_deref(), &self.messages)?;
        let tokens = leyden_text::encode_rendered(self.tokenizer.as_ref(), &prompt)?;
        let format = self.template.as_ref().map(|template| OutputFormat::detect(template));
        let reasoning = format.as_ref().and_then(|format| {
            let (open, close) = format.reasoning()?;
            Some((open.to_owned(), close.to_owned(), format.begins_reasoning(prompt.text())))
        });
        let mut options = options.clone();
        options.reasoning = options.reasoning.or(reasoning);
        self.generate(&tokens, &options, on_event)
    }

    /// Continues `prompt`. `on_event` gets the text piece by piece and may stop generation.
    ///
    /// A common prefix with the session's previous tokens is taken from the cache; the answer is the same as without.
    ///
    /// # Errors
    /// The prompt is empty or too long, an option is out of range, or the model failed.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation, Error> {
        let mut stream = self.stream(prompt, options)?;
        loop {
            let told = match stream.next() {
                Some(Ok(StreamEvent::Prompt(done, all))) => on_event(Event::Prompt(done, all)),
                Some(Ok(StreamEvent::Text(text))) => on_event(Event::Text(&text)),
                Some(Ok(StreamEvent::Done(answer))) => return Ok(answer),
                Some(Err(error)) => return Err(error),
                None => return Ok(Generation::new(prompt.len())),
            };
            if told.is_break() {
                return Ok(stream.cancel());
            }
        }
    }

    /// Continues `prompt` like [`generate`](Self::generate), and returns an iterator, whose last item is the finished
    /// answer. Dropping it ends generation.
    ///
    /// # Errors
    /// As [`generate`](Self::generate); a failure of the model comes as an item.
    ///
    /// ```
    /// use leyden::{GenerateOptions, LoadOptions, Model, SessionOptions, StreamEvent};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let mut session = model.session(&SessionOptions::default())?;
    /// let prompt = model.tokenize("Once upon a time")?;
    /// let mut said = String::new();
    /// for event in session.stream(&prompt, &GenerateOptions::new().max_tokens(8))? {
    ///     match event? {
    ///         StreamEvent::Text(piece) => said += &piece,
    ///         StreamEvent::Done(answer) => assert_eq!(answer.text, said),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn stream(&mut self, prompt: &[u32], options: &GenerateOptions) -> Result<Stream<'_>, Error> {
        let start = Instant::now();
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > self.context() {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context: self.context() });
        }
        let (engine, tokenizer) = (self.generator.engine(), self.tokenizer.as_ref());
        let sampler = sampler(&self.samplers, engine, tokenizer, options, prompt)?;
        let adapters = options.adapters.as_ref().unwrap_or(&self.adapters[1]).clone();
        if adapters != self.adapters[0] {
            // Keys and values computed with other adapters cannot be reused.
            self.adapters[0] = adapters;
            let engine = self.generator.engine_mut();
            engine.close(self.sequence);
            self.sequence = engine.open_adapted(self.adapters[0].clone());
            self.cached.clear();
        }
        let text = Text::new(Arc::clone(&self.tokenizer), sampler, prompt, options);
        let same = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // Logits are not cached, so at least the last token is computed again.
        let same = same.min(prompt.len() - 1);
        let mut result = Generation::new(prompt.len());
        result.cached_tokens = self.generator.engine().tables().keepable(self.sequence, same);
        let id = RequestId(self.requests);
        self.requests += 1;
        let mut stream = Stream {
            session: self,
            id,
            prompt: prompt.to_vec(),
            result,
            start,
            events: VecDeque::new(),
            open: false,
        };
        match options.max_tokens {
            Some(0) => stream.events.push_back(StreamEvent::Done(stream.result.clone())),
            limit => stream.begin(text, same, limit.unwrap_or(usize::MAX))?,
        }
        Ok(stream)
    }
}

/// Iterator over the [`StreamEvent`]s of an answer during generation, from [`Session::stream`].
#[derive(Debug)]
pub struct Stream<'a> {
    session: &'a mut Session,
    id: RequestId,
    prompt: Vec<u32>,
    result: Generation,
    start: Instant,
    /// Events that the caller has not got yet.
    events: VecDeque<StreamEvent>,
    /// True while the engine has the request.
    open: bool,
}

impl Stream<'_> {
    fn begin(&mut self, text: Text, same: usize, max_tokens: usize) -> Result<(), Error> {
        let request = Request {
            id: self.id,
            key: KeyId(0),
            priority: 0,
            prompt: self.prompt.clone(),
            max_tokens,
            scope: None,
            adapters: self.session.adapters[0].clone(),
            deadline: None,
            speculate: self.session.speculation,
            rows: PromptRows::None,
            held: Some(Held { sequence: self.session.sequence, same }),
        };
        let submitted = self.session.generator.submit(request, Job::Text(Box::new(text)), Duration::ZERO);
        submitted.map_err(|(refusal, _)| Error::Refused(refusal))?;
        self.open = true;
        Ok(())
    }

    /// Ends generation, and returns the answer so far.
    #[must_use]
    pub fn cancel(mut self) -> Generation {
        let mut untold = 0;
        let mut done = None;
        for event in self.events.drain(..) {
            match event {
                StreamEvent::Text(text) => untold += text.len(),
                StreamEvent::Done(answer) => done = Some(answer),
                StreamEvent::Prompt(..) => {}
            }
        }
        let mut answer = match done {
            Some(answer) => answer,
            None => {
                let text = self.close();
                self.so_far(text)
            }
        };
        answer.text.truncate(answer.text.len() - untold);
        if answer.text.is_empty() {
            answer.tokens.clear();
            answer.logprobs.clear();
        }
        answer.finish = Finish::Cancelled;
        answer
    }

    /// Removes the request from the engine, whose cache keeps the computed tokens.
    fn close(&mut self) -> Option<Box<Text>> {
        if !std::mem::take(&mut self.open) {
            return None;
        }
        let taken = self.session.generator.take(self.id);
        let stored = self.session.generator.engine().tokens(self.session.sequence).unwrap_or(0);
        let text = taken.and_then(|(_, job)| match job {
            Job::Text(text) => Some(text),
            _ => None,
        });
        let answered = text.iter().flat_map(|text| &text.tokens);
        self.session.cached = self.prompt.iter().chain(answered).take(stored).copied().collect();
        text
    }

    /// Returns the answer so far.
    fn so_far(&self, text: Option<Box<Text>>) -> Generation {
        let mut result = self.result.clone();
        if let Some(text) = text {
            if let Some(first) = text.first {
                result.prefill = first - self.start;
                result.first_token = result.prefill;
                result.decode = first.elapsed();
            }
            (result.drafted_tokens, result.accepted_tokens) = text.drafts;
            (result.text, result.tokens, result.logprobs) = (text.text, text.tokens, text.scores);
        }
        result
    }

    /// Computes a step, and queues its events.
    fn advance(&mut self) -> Result<(), Error> {
        let generator = &mut self.session.generator;
        let mut step = generator.plan(Duration::ZERO)?;
        // A draft model that fails is not used any more.
        let _ = generator.draft(&mut step, &|| self.start.elapsed());
        let begun = Instant::now();
        let outcome = generator.compute(&step)?;
        if !step.scheduled.is_empty() {
            generator.observe(&step, begun.elapsed(), PROMPT_STALL);
        }
        if let Some(error) = outcome.failed {
            return Err(error.into());
        }
        let all = self.prompt.len();
        if let Some(s) = step.scheduled.first().filter(|s| s.position < all) {
            self.events.push_back(StreamEvent::Prompt((s.position + s.tokens).min(all), all));
        }
        let ended = |d: &Decision| matches!(d, Decision::Finished { request, .. } if *request == self.id);
        if step.decisions.iter().chain(&outcome.decisions).any(ended) {
            return self.end();
        }
        if let Some((_, Job::Text(text))) = self.session.generator.get_mut(self.id)
            && let Some(new) = text.new_text()
        {
            self.events.push_back(StreamEvent::Text(new));
        }
        Ok(())
    }

    /// Finishes the answer after the engine has ended the request.
    fn end(&mut self) -> Result<(), Error> {
        let mut text = self.close();
        let mut finish = Finish::Length;
        if let Some(text) = &mut text {
            if let Some(end) = text.end.take() {
                finish = end.map_err(|error| named(error, &self.session.file))?;
            }
            text.complete();
            self.events.extend(text.new_text().map(StreamEvent::Text));
        }
        let mut answer = self.so_far(text);
        answer.finish = finish;
        self.events.push_back(StreamEvent::Done(answer));
        Ok(())
    }
}

impl Iterator for Stream<'_> {
    type Item = Result<StreamEvent, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            if !self.open {
                return None;
            }
            if let Err(error) = self.advance() {
                self.close();
                return Some(Err(error));
            }
        }
    }
}

impl Drop for Stream<'_> {
    fn drop(&mut self) {
        self.close();
    }
}
