//! [`NativeModel`]: a loaded model with its engines, which are made when first used.

use crate::answers::Pending;
use crate::convert::{ids, matrix, tokens};
use crate::errors::{of_hub, of_library, of_loading, refused};
use crate::options::{self, ModelOptions};
use crate::tasks::Tasks;
use crate::turns::{self, NativeTurn};
use leyden::{Aggregation, EMBEDDED, EmbedOptions, Entity, Error, Model, Service, SpanOptions, Special};
use leyden_hub::Store;
use leyden_text::Detokenizer;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Context of answers in tokens, unless the model's is shorter or the caller names one.
const CONTEXT: usize = 8192;

/// Loaded model.
#[pyclass(frozen, name = "Model", module = "leyden._native")]
pub(crate) struct NativeModel {
    // Engines end before their model.
    service: Mutex<Option<Arc<Service>>>,
    tasks: Mutex<Option<Arc<Tasks>>>,
    batch: leyden::BatchOptions,
    model: Mutex<Option<Arc<Model>>>,
}

impl NativeModel {
    fn model(&self, py: Python<'_>) -> PyResult<Arc<Model>> {
        let model = self.model.lock().unwrap_or_else(PoisonError::into_inner).clone();
        model.ok_or_else(|| of_library(py, &Error::Closed))
    }

    /// Returns the engine of answers.
    fn service(&self, py: Python<'_>) -> PyResult<Arc<Service>> {
        let model = self.model(py)?;
        let made = py.detach(|| {
            let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(service) = &*service {
                return Ok(Arc::clone(service));
            }
            let made = Arc::new(model.service(&self.batch)?);
            *service = Some(Arc::clone(&made));
            Ok(made)
        });
        made.map_err(|error| of_library(py, &error))
    }

    /// Returns the engine of tasks.
    fn tasks(&self, py: Python<'_>) -> PyResult<Arc<Tasks>> {
        let model = self.model(py)?;
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tasks) = &*tasks {
            return Ok(Arc::clone(tasks));
        }
        let made = Arc::new(Tasks::start(model).map_err(|error| of_library(py, &error))?);
        *tasks = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// Returns the path of a model: a path, or a name of the store.
fn located(py: Python<'_>, name: &Path) -> PyResult<PathBuf> {
    py.detach(|| leyden_hub::resolve_with(name, Store::from_env)).map_err(|error| of_hub(py, &error))
}

#[pymethods]
impl NativeModel {
    /// Loads a model: a path, a name of the store, or the embedded model. `progress` gets the bytes of weights so far,
    /// and the total.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        name: PathBuf,
        given: &Bound<'_, PyDict>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<NativeModel> {
        let ModelOptions { load, mut batch } = options::of_model(given)?;
        let opened = if name.as_os_str() == EMBEDDED {
            py.detach(|| Model::embedded(&load))
        } else {
            let path = located(py, &name)?;
            let mut told = Ok(());
            let opened = py.detach(|| {
                Model::open_with(path, &load, &mut |done, all| {
                    if let (Some(progress), Ok(())) = (&progress, &told) {
                        told = Python::attach(|py| progress.call1(py, (done, all)).map(drop));
                    }
                })
            });
            told?;
            opened
        };
        let model = opened.map_err(|error| of_loading(py, &error))?;
        batch.context = batch.context.or(Some(model.config().context.min(CONTEXT)));
        py.check_signals()?;
        Ok(NativeModel {
            service: Mutex::default(),
            tasks: Mutex::default(),
            batch,
            model: Mutex::new(Some(Arc::new(model))),
        })
    }

    /// Frees the model; requests under way end with an error.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            drop(self.service.lock().unwrap_or_else(PoisonError::into_inner).take());
            drop(self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take());
            drop(self.model.lock().unwrap_or_else(PoisonError::into_inner).take());
        });
    }

    /// Returns facts about the model.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = self.model(py)?;
        let (config, tokenizer) = (model.config(), model.tokenizer());
        let info = PyDict::new(py);
        info.set_item("file", model.metadata().file())?;
        info.set_item("architecture", config.architecture)?;
        info.set_item("context", self.batch.context)?;
        info.set_item("model_context", config.context)?;
        info.set_item("generates", config.generates())?;
        info.set_item("dimensions", config.vector_width())?;
        info.set_item("vocabulary", tokenizer.vocab_size())?;
        info.set_item("bos", tokenizer.bos())?;
        info.set_item("eos", tokenizer.eos())?;
        info.set_item("add_bos", tokenizer.add_bos())?;
        info.set_item("chat_template", model.chat_template().map(|template| template.source().to_owned()))?;
        info.set_item("labels", config.classifier().map(|classifier| classifier.labels.clone()))?;
        info.set_item("load_seconds", model.load_time().as_secs_f64())?;
        Ok(info)
    }

    /// Returns token ids of a text; with `begin` as a prompt, after the token that begins one.
    fn tokenize(
        &self,
        py: Python<'_>,
        text: &str,
        begin: bool,
        special: bool,
    ) -> PyResult<Py<PyArray1<u32>>> {
        let model = self.model(py)?;
        let special = if special { Special::Parse } else { Special::AsText };
        let encoded = model.tokenizer().encode(text, special);
        let mut ids = encoded.map_err(|error| of_library(py, &error.into()))?;
        if let Some(bos) = model.tokenizer().bos().filter(|_| begin && model.tokenizer().add_bos()) {
            ids.insert(0, bos);
        }
        Ok(PyArray1::from_vec(py, ids).unbind())
    }

    /// Returns the text of token ids; special tokens are left out unless `special`.
    fn detokenize(&self, py: Python<'_>, given: &Bound<'_, PyAny>, special: bool) -> PyResult<String> {
        let model = self.model(py)?;
        let tokenizer = model.tokenizer();
        let (mut characters, mut text, mut previous) = (Detokenizer::new(), String::new(), None);
        for id in ids(given)? {
            if !special && tokenizer.is_special(id) {
                continue;
            }
            let Some(bytes) = tokenizer.bytes_after(previous, id) else {
                let size = tokenizer.vocab_size();
                return Err(refused(py, format!("token {id} is outside the vocabulary of {size}")));
            };
            text.push_str(&characters.push(&bytes));
            previous = Some(id);
        }
        text.push_str(&characters.finish());
        Ok(text)
    }

    /// Returns the prompt of a conversation as text.
    fn render(&self, py: Python<'_>, messages: &str, chat: &Bound<'_, PyDict>) -> PyResult<String> {
        let (model, messages, chat) =
            (self.model(py)?, turns::messages(py, messages)?, turns::chat_options(chat)?);
        let rendered = py.detach(|| model.render_turn(&messages, &chat));
        Ok(rendered.map_err(|error| of_library(py, &error))?.into_text())
    }

    /// Prepares the next answer of a conversation.
    fn turn(
        &self,
        py: Python<'_>,
        messages: &str,
        chat: &Bound<'_, PyDict>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<NativeTurn> {
        let (model, messages) = (self.model(py)?, turns::messages(py, messages)?);
        let (chat, answer) = (turns::chat_options(chat)?, options::of_answer(given)?);
        let turn = py.detach(|| model.turn(&messages, &chat, &answer));
        turn.map(NativeTurn::from).map_err(|error| of_library(py, &error))
    }

    /// Begins the answer of a turn.
    fn answer(&self, py: Python<'_>, turn: &NativeTurn, stream: bool) -> PyResult<Pending> {
        let service = self.service(py)?;
        let (prompt, answer) = (&turn.turn.prompt, &turn.turn.options);
        let begun = if stream { service.stream(prompt, answer) } else { service.generate(prompt, answer) };
        begun.map(Pending::from).map_err(|error| of_library(py, &error))
    }

    /// Begins to continue prompts, each a text or token ids.
    fn generate(
        &self,
        py: Python<'_>,
        prompts: Vec<Bound<'_, PyAny>>,
        given: &Bound<'_, PyDict>,
        constraint: Option<(String, String)>,
        stream: bool,
    ) -> PyResult<Vec<Pending>> {
        let (model, service) = (self.model(py)?, self.service(py)?);
        let mut answer = options::of_answer(given)?;
        if let Some(constraint) = constraint {
            let grammar = turns::grammar(py, constraint)?;
            let compiled = py.detach(|| model.compile(&grammar)).map_err(|error| of_library(py, &error))?;
            answer.constraint = Some(compiled.start());
        }
        let begin = |prompt: &Bound<'_, PyAny>| {
            let prompt = tokens(&model, prompt)?;
            let begun =
                if stream { service.stream(&prompt, &answer) } else { service.generate(&prompt, &answer) };
            begun.map(Pending::from).map_err(|error| of_library(py, &error))
        };
        prompts.iter().map(begin).collect()
    }

    /// Begins to score token ids after a position, with the most probable tokens at each place.
    fn score(&self, py: Python<'_>, given: &Bound<'_, PyAny>, from: usize, top: usize) -> PyResult<Pending> {
        let scoring = self.service(py)?.score(&ids(given)?, from, top);
        scoring.map(Pending::from).map_err(|error| of_library(py, &error))
    }

    /// Computes vectors of texts, `float32[n, dims]`.
    fn embed(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Py<PyArray2<f32>>> {
        let options = options::of_embedder(given)?;
        let width = options.dimensions.unwrap_or(self.model(py)?.config().vector_width());
        let rows = self.tasks(py)?.run(py, options, move |embedder| embedder.embed(&texts))?;
        matrix(py, &rows, width)
    }

    /// Computes a matrix of vectors for each text, one for each token.
    fn embed_tokens(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<Py<PyArray2<f32>>>> {
        let options = options::of_embedder(given)?;
        let width = self.model(py)?.config().vector_width();
        let all = self.tasks(py)?.run(py, options, move |embedder| embedder.token_vectors(&texts))?;
        all.iter().map(|rows| matrix(py, rows, width)).collect()
    }

    /// Computes sparse vectors of texts: token ids and their weights.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn embed_sparse(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<(Py<PyArray1<u32>>, Py<PyArray1<f32>>)>> {
        let options = options::of_embedder(given)?;
        let all = self.tasks(py)?.run(py, options, move |embedder| embedder.sparse(&texts))?;
        let arrays = |row: Vec<(u32, f32)>| {
            let (ids, weights): (Vec<u32>, Vec<f32>) = row.into_iter().unzip();
            (PyArray1::from_vec(py, ids).unbind(), PyArray1::from_vec(py, weights).unbind())
        };
        Ok(all.into_iter().map(arrays).collect())
    }

    /// Computes the labels of texts with their scores, best first.
    fn classify(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<Vec<(String, f32)>>> {
        let options = options::of_embedder(given)?;
        self.tasks(py)?.run(py, options, move |embedder| {
            let owned = |label: leyden::Label<'_>| (label.label.to_owned(), label.score);
            let all = embedder.classify(&texts)?;
            Ok(all.into_iter().map(|labels| labels.into_iter().map(owned).collect()).collect())
        })
    }

    /// Computes the relevance of documents for a question, `float32[n]`.
    fn rerank(
        &self,
        py: Python<'_>,
        query: String,
        documents: Vec<String>,
        given: &Bound<'_, PyDict>,
    ) -> PyResult<Py<PyArray1<f32>>> {
        let options = options::of_embedder(given)?;
        let scores = self.tasks(py)?.run(py, options, move |embedder| embedder.rerank(&query, &documents))?;
        Ok(PyArray1::from_vec(py, scores).unbind())
    }

    /// Finds entities in texts, of the model's labels or of `labels`.
    fn extract<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        labels: Option<Vec<String>>,
        threshold: f32,
        aggregation: &str,
    ) -> PyResult<Vec<Vec<Bound<'py, PyDict>>>> {
        let named = Aggregation::NAMES.iter().find(|(name, _)| *name == aggregation);
        let Some((_, aggregation)) = named.copied() else {
            return Err(refused(
                py,
                format!("aggregation: {aggregation} is not none, simple, first, average or max"),
            ));
        };
        let computed = self.tasks(py)?.run(py, EmbedOptions::default(), move |embedder| {
            let all = match &labels {
                Some(labels) => {
                    embedder.extract_labels(&texts, labels, SpanOptions::default().threshold(threshold))?
                }
                None => embedder.extract(&texts, aggregation)?,
            };
            Ok((texts, all))
        })?;
        let (texts, all) = computed;
        let found = |(text, entities): (String, Vec<Entity>)| {
            entities.into_iter().map(|entity| entity_of(py, &text, &entity)).collect::<PyResult<Vec<_>>>()
        };
        texts.into_iter().zip(all).map(found).collect()
    }
}

/// Returns an entity with its range in characters, as Python counts them.
fn entity_of<'py>(py: Python<'py>, text: &str, entity: &Entity) -> PyResult<Bound<'py, PyDict>> {
    let (before, within) = (text.get(..entity.range.start), text.get(entity.range.clone()));
    let (before, within) = (before.unwrap_or_default(), within.unwrap_or_default());
    let start = before.chars().count();
    let made = PyDict::new(py);
    made.set_item("label", &entity.label)?;
    made.set_item("text", within)?;
    made.set_item("score", entity.score)?;
    made.set_item("start", start)?;
    made.set_item("end", start + within.chars().count())?;
    Ok(made)
}
