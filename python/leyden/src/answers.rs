//! [`Pending`], a request under way, and [`Answer`], its result.

use crate::errors::of_library;
use leyden::{Answering, Canceller, Generation, StreamEvent, TokenLogprobs};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks for signals during a wait.
pub(crate) const SIGNALS: Duration = Duration::from_millis(100);

/// Request under way. Dropping it cancels it.
#[pyclass(frozen, module = "leyden._native")]
pub(crate) struct Pending {
    answering: Mutex<Answering>,
    canceller: Canceller,
}

impl From<Answering> for Pending {
    fn from(answering: Answering) -> Pending {
        Pending { canceller: answering.canceller(), answering: Mutex::new(answering) }
    }
}

impl Pending {
    /// Waits with `wait`, without Python's lock, until it gives a value. Ctrl-C cancels the request.
    fn until<T: Send>(
        &self,
        py: Python<'_>,
        wait: impl Fn(&Answering) -> Result<Option<T>, leyden::Error> + Sync,
    ) -> PyResult<T> {
        loop {
            let got = py.detach(|| wait(&self.answering.lock().unwrap_or_else(PoisonError::into_inner)));
            if let Some(value) = got.map_err(|error| of_library(py, &error))? {
                return Ok(value);
            }
            if let Err(signal) = py.check_signals() {
                self.canceller.cancel();
                return Err(signal);
            }
        }
    }
}

#[pymethods]
impl Pending {
    /// Waits for the finished answer.
    fn wait(&self, py: Python<'_>) -> PyResult<Answer> {
        self.until(py, |answering| {
            Ok(answering.next_within(SIGNALS)?.and_then(|event| match event {
                StreamEvent::Done(generation) => Some(Answer { generation }),
                _ => None,
            }))
        })
    }

    /// Waits for the next piece of text, or else the finished answer.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let event = self.until(py, |answering| {
            Ok(answering.next_within(SIGNALS)?.filter(|event| !matches!(event, StreamEvent::Prompt(..))))
        })?;
        match event {
            StreamEvent::Text(text) => Ok(text.into_pyobject(py)?.into_any()),
            StreamEvent::Done(generation) => Ok(Bound::new(py, Answer { generation })?.into_any()),
            _ => Ok(py.None().into_bound(py)),
        }
    }

    /// Waits for the scores of a text: token ids, log probabilities, and the most probable tokens at each place.
    fn scores(&self, py: Python<'_>) -> PyResult<Scores> {
        let scores = self.until(py, |answering| answering.scores_within(SIGNALS))?;
        Ok(arrays(py, &scores))
    }

    /// Cancels the request before the engine's next step.
    fn cancel(&self) {
        self.canceller.cancel();
    }
}

/// Token ids, their log probabilities, and the most probable tokens at each place.
type Scores = (Py<PyArray1<u32>>, Py<PyArray1<f32>>, Vec<Vec<(u32, f32)>>);

fn arrays(py: Python<'_>, scores: &[TokenLogprobs]) -> Scores {
    let tokens = PyArray1::from_vec(py, scores.iter().map(|score| score.token).collect());
    let logprobs = PyArray1::from_vec(py, scores.iter().map(|score| score.logprob).collect());
    let top = scores.iter().map(|score| score.top.clone()).filter(|top| !top.is_empty()).collect();
    (tokens.unbind(), logprobs.unbind(), top)
}

/// Finished answer.
#[pyclass(frozen, module = "leyden._native")]
pub(crate) struct Answer {
    generation: Generation,
}

#[pymethods]
impl Answer {
    /// The text.
    #[getter]
    fn text(&self) -> &str {
        &self.generation.text
    }

    /// The token ids, `uint32[n]`.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> Py<PyArray1<u32>> {
        PyArray1::from_slice(py, &self.generation.tokens).unbind()
    }

    /// The scores of the tokens, as of `Pending.scores`.
    #[getter]
    fn scores(&self, py: Python<'_>) -> Scores {
        arrays(py, &self.generation.logprobs)
    }

    /// The reason of the end: `stop`, `length` or `cancelled`.
    #[getter]
    fn finish(&self) -> &'static str {
        self.generation.finish.name()
    }

    /// The number of tokens of the prompt.
    #[getter]
    fn prompt_tokens(&self) -> usize {
        self.generation.prompt_tokens
    }

    /// The number of prompt tokens that were in the cache.
    #[getter]
    fn cached_tokens(&self) -> usize {
        self.generation.cached_tokens
    }

    /// The number of generated tokens.
    #[getter]
    fn completion_tokens(&self) -> usize {
        self.generation.tokens.len()
    }

    /// The seconds from the request to the first token.
    #[getter]
    fn first_token_seconds(&self) -> f64 {
        self.generation.first_token.as_secs_f64()
    }

    /// The seconds for the tokens after the first.
    #[getter]
    fn decode_seconds(&self) -> f64 {
        self.generation.decode.as_secs_f64()
    }
}
