//! [`SpeechModel`] and [`Speech`]: a speech recogniser as a service.
//!
//! The model has a team of threads of its own, so one recording is computed at a time and the others wait in order. There
//! is no engine: a recording's work stops when its client disconnects, its deadline passes, or requests are ended.

use crate::error::ApiError;
use crate::failure::Error;
use crate::metrics::ModelMetrics;
use crate::model::ModelInfo;
use crate::service::{Loaded, Service};
use leyden_kernels::Cpu;
use leyden_speech::{Audio, Event, Options, Transcription, Whisper};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Largest number of recordings that wait, each in memory.
const MAX_WAITING: usize = 16;

/// Loaded speech recogniser with its team of threads.
#[derive(Debug)]
pub struct SpeechModel {
    /// Name for clients.
    pub name: String,
    /// Model.
    pub whisper: Whisper,
    /// Tier and threads.
    pub cpu: Cpu,
    /// Description for clients.
    pub info: ModelInfo,
}

/// Speech recogniser that answers requests.
pub(crate) struct Speech {
    pub(crate) name: String,
    pub(crate) whisper: Whisper,
    pub(crate) info: ModelInfo,
    cpu: Cpu,
    turn: Arc<Semaphore>,
    waiting: AtomicUsize,
    ended: AtomicBool,
    metrics: Arc<ModelMetrics>,
}

impl fmt::Debug for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speech").field("name", &self.name).finish_non_exhaustive()
    }
}

impl From<SpeechModel> for Loaded {
    fn from(model: SpeechModel) -> Loaded {
        Loaded::new(|_| {
            let SpeechModel { name, whisper, cpu, info } = model;
            Ok::<_, Error>(Speech {
                name,
                whisper,
                info,
                cpu,
                turn: Arc::new(Semaphore::new(1)),
                waiting: AtomicUsize::new(0),
                ended: AtomicBool::new(false),
                metrics: Arc::default(),
            })
        })
    }
}

/// Turn of a recording; dropping it lets the next one begin.
pub(crate) struct Turn {
    speech: Arc<Speech>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.speech.metrics.running.sub(1);
    }
}

/// Place in the queue.
struct Waiting<'a>(&'a Speech);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.metrics.waiting.sub(1);
    }
}

impl Speech {
    /// Waits for the turn of a recording.
    ///
    /// # Errors
    /// 503: too many wait, or the deadline has passed.
    pub(crate) async fn turn(self: &Arc<Self>, deadline: Instant) -> Result<Turn, ApiError> {
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            self.metrics.refused[0].add(1);
            let message = format!("{MAX_WAITING} recordings wait already");
            return Err(ApiError::unavailable("queue_full", message, Duration::from_secs(5)));
        }
        self.metrics.waiting.add(1);
        let place = Waiting(self);
        let begin = Instant::now();
        let permit = tokio::time::timeout_at(deadline.into(), Arc::clone(&self.turn).acquire_owned()).await;
        let permit = permit.map_err(|_| ApiError::deadline())?.map_err(|_| ApiError::closing())?;
        drop(place);
        self.metrics.queue.observe(begin.elapsed());
        self.metrics.running.add(1);
        Ok(Turn { speech: Arc::clone(self), _permit: permit })
    }
}

impl Turn {
    /// Transcribes a recording on this thread. `observer` is called for each event; the work stops if it returns false,
    /// at the deadline, and when requests are ended.
    pub(crate) fn transcribe(
        self,
        audio: &Audio,
        options: &Options,
        deadline: Instant,
        observer: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<Transcription, ApiError> {
        let speech = &self.speech;
        let begin = Instant::now();
        let late = || Instant::now() >= deadline;
        let result = speech.whisper.transcribe(&speech.cpu, audio, options, &mut |event| {
            observer(event) && !late() && !speech.ended.load(Ordering::Relaxed)
        });
        speech.metrics.end_to_end.observe(begin.elapsed());
        let finish = |name: &str| {
            let place = crate::metrics::FINISHES.iter().position(|known| *known == name);
            place.map(|i| speech.metrics.finished[i].add(1)).unwrap_or_default();
        };
        match result {
            Ok(transcription) => {
                finish("stop");
                speech.metrics.generated_tokens.add(transcription.n_tokens);
                Ok(transcription)
            }
            Err(error) => {
                let stopped = matches!(error.kind(), leyden_speech::ErrorKind::Stopped);
                finish(if !stopped {
                    "error"
                } else if late() {
                    "deadline"
                } else {
                    "abort"
                });
                Err(match error.kind() {
                    leyden_speech::ErrorKind::Stopped if late() => ApiError::deadline(),
                    leyden_speech::ErrorKind::Stopped => ApiError::closing(),
                    leyden_speech::ErrorKind::Option(_) => option_error(&error),
                    _ => ApiError::internal("the recording could not be transcribed"),
                })
            }
        }
    }
}

/// Returns the error of an option that does not fit the model.
fn option_error(error: &leyden_speech::Error) -> ApiError {
    // Translation is an endpoint, not a field.
    let field = error.field().filter(|field| *field != "translate").unwrap_or("model");
    ApiError::field(field, error.to_string())
}

impl Service for Speech {
    fn reserved_bytes(&self) -> u64 {
        let (weights, working) = self.whisper.memory();
        (weights + working) as u64
    }

    fn used_bytes(&self) -> u64 {
        let (weights, working) = self.whisper.memory();
        weights as u64 + self.metrics.running.get() * working as u64
    }

    fn context(&self) -> usize {
        self.whisper.network().config().text_context
    }

    fn metrics(&self) -> Vec<Arc<ModelMetrics>> {
        vec![Arc::clone(&self.metrics)]
    }

    fn is_alive(&self) -> bool {
        true
    }

    fn end_requests(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
