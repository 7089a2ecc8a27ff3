//! `/v1/audio/transcriptions` and `/v1/audio/translations`: speech to text, as OpenAI has them.

use super::files::{Arriving, refused};
use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::body::{Piece, Reply};
use crate::call::{Call, Upload};
use crate::error::ApiError;
use crate::models::Lease;
use crate::operation::operation;
use crate::published::{self, Outcome};
use crate::replies::{document, plain};
use crate::speech::{Speech, Turn};
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use leyden_audit::ModelFacts;
use leyden_speech::{Audio, AudioLimits, Cues, Event, Format, Options, Timestamps, Transcription};
use multer::{Constraints, Multipart, SizeLimit};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{self, Sender};

/// Largest size of an audio file in bytes; OpenAI takes a quarter of it.
const MAX_AUDIO_BYTES: u64 = 100 << 20;
/// Longest recording in seconds.
const MAX_SECONDS: u64 = 2 * 3600;
/// Largest size of a field other than the file in bytes.
const FIELD_BYTES: u64 = 16 << 10;
/// Largest number of parts of a body.
const MAX_PARTS: usize = 64;
/// Pieces of a stream that may wait for the client.
const PIECES: usize = 16;

/// Paths of the routes.
const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const TRANSLATIONS: &str = "/v1/audio/translations";

/// Fields of a request.
#[derive(Default)]
struct Form {
    file: Option<Vec<u8>>,
    /// All fields but the file, each with its values in order.
    fields: Vec<(String, String)>,
}

/// Checked request.
struct Asked {
    options: Options,
    format: Format,
    stream: bool,
    /// True if `verbose_json` has segments.
    segments: bool,
    model: Option<String>,
}

impl Form {
    async fn read(upload: Upload) -> Result<Form, ApiError> {
        let limits = SizeLimit::new().per_field(FIELD_BYTES).for_field("file", MAX_AUDIO_BYTES);
        let constraints = Constraints::new().size_limit(limits);
        let mut parts = Multipart::with_constraints(Arriving(upload.pieces), upload.boundary, constraints);
        let mut form = Form::default();
        for _ in 0..MAX_PARTS {
            let Some(mut part) = parts.next_field().await.map_err(refused)? else { return Ok(form) };
            let name = part.name().unwrap_or_default().to_owned();
            if name == "file" {
                let mut bytes = Vec::new();
                while let Some(piece) = part.chunk().await.map_err(refused)? {
                    bytes.extend_from_slice(&piece);
                }
                if form.file.replace(bytes).is_some() {
                    return Err(ApiError::field("file", "`file` is there twice"));
                }
                continue;
            }
            let text = part.text().await.map_err(refused)?;
            form.fields.push((name.trim_end_matches("[]").to_owned(), text));
        }
        Err(ApiError::body(format!("the body has more than {MAX_PARTS} parts")))
    }

    /// Returns the only value of a field.
    fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values =
            self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
        let first = values.next();
        match values.next() {
            Some(_) => Err(ApiError::field(name, format!("`{name}` is there twice"))),
            None => Ok(first),
        }
    }

    /// Refuses, or lists as ignored, the fields that nothing here reads.
    fn leave_out(&self, app: &App, call: &Call, path: &str) -> Result<(), ApiError> {
        let mut ignored: Vec<String> = Vec::new();
        for (name, text) in self.fields.iter().filter(|(_, text)| !text.is_empty()) {
            let row = published::of_form(path, name, text);
            match row.map_or(Outcome::Ignored, |row| row.outcome) {
                Outcome::Refused => {
                    let reason = row.map_or("", |row| row.reason);
                    return Err(ApiError::unsupported(name, format!("`{name}`: {reason}")));
                }
                Outcome::Ignored if !ignored.contains(name) => ignored.push(name.clone()),
                _ => {}
            }
        }
        call.leave_out(app, &ignored)
    }

    /// Checks the fields.
    fn check(&self, translate: bool) -> Result<Asked, ApiError> {
        let known = || Format::NAMES.map(|row| row.0).join(", ");
        let wrong = |name: &str, what: String| ApiError::field(name, format!("`{name}` {what}"));
        let format = match self.one("response_format")? {
            None => Format::Json,
            Some(name) => Format::named(name)
                .ok_or_else(|| wrong("response_format", format!("is not one of {}", known())))?,
        };
        let temperature: f32 = match self.one("temperature")? {
            None => 0.0,
            Some(text) => text
                .trim()
                .parse()
                .ok()
                .filter(|t| (0.0..=1.0).contains(t))
                .ok_or_else(|| wrong("temperature", "is not between 0 and 1".to_owned()))?,
        };
        let stream = match self.one("stream")? {
            None | Some("false" | "False" | "0") => false,
            Some("true" | "True" | "1") => true,
            Some(_) => return Err(wrong("stream", "is neither true nor false".to_owned())),
        };
        let seed: Option<i64> = match self.one("seed")? {
            None => None,
            Some(text) => {
                Some(text.trim().parse().map_err(|_| wrong("seed", "is no integer of 64 bits".to_owned()))?)
            }
        };
        let mut units = (false, false);
        for (_, unit) in self.fields.iter().filter(|(name, _)| name == "timestamp_granularities") {
            match unit.as_str() {
                "word" => units.0 = true,
                "segment" => units.1 = true,
                _ => return Err(wrong("timestamp_granularities", "is neither word nor segment".to_owned())),
            }
        }
        if units.0 && format != Format::VerboseJson {
            let message = "`timestamp_granularities`: word needs the response_format verbose_json";
            return Err(ApiError::conflict("timestamp_granularities", message));
        }
        let language = self.one("language")?.filter(|given| !given.is_empty()).map(str::to_owned);
        if let Some(given) = &language
            && leyden_speech::language_code(given).is_none()
        {
            return Err(wrong("language", "is no code of a language, such as en".to_owned()));
        }
        let defaults = Options::default();
        // As OpenAI says: at 0, higher temperatures are tried where results are poor.
        let higher = defaults.temperatures.iter().copied().filter(|t| *t > temperature && temperature == 0.0);
        Ok(Asked {
            options: Options {
                language,
                translate,
                timestamps: if units.0 { Timestamps::Word } else { Timestamps::Segment },
                temperatures: std::iter::once(temperature).chain(higher).collect(),
                seed: seed.map_or(defaults.seed, i64::cast_unsigned),
                prompt: self.one("prompt")?.filter(|text| !text.trim().is_empty()).map(str::to_owned),
                ..defaults
            },
            format,
            stream,
            segments: units.1 || !units.0,
            model: self.one("model")?.map(str::to_owned),
        })
    }

    /// Returns the fields as a document, for the audit log; the file as its digest.
    fn document(&self) -> Value {
        let mut all: Map<String, Value> = Map::new();
        for (name, value) in &self.fields {
            all.insert(name.clone(), value.as_str().into());
        }
        if let Some(file) = &self.file {
            all.insert("file_sha256".to_owned(), leyden_audit::sha256(file).into());
            all.insert("file_bytes".to_owned(), file.len().into());
        }
        Value::Object(all)
    }
}

pub(super) async fn transcribe(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    answer(app, call, false).await
}

pub(super) async fn translate(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    answer(app, call, true).await
}

async fn answer(app: Arc<App>, mut call: Call, translate: bool) -> Result<Response<Reply>, ApiError> {
    let deadline = call.deadline(&app);
    let form = Form::read(call.take_upload()?).await?;
    form.leave_out(&app, &call, if translate { TRANSLATIONS } else { TRANSCRIPTIONS })?;
    let asked = form.check(translate)?;
    let record = form.document();
    let file = form.file.ok_or_else(|| ApiError {
        code: "missing_required_parameter",
        ..ApiError::field("file", "`file` is missing")
    })?;
    let (speech, lease) = model(&app, asked.model.as_deref(), deadline).await?;
    call.entry.note(|facts| facts.model = Some(speech.name.clone()));
    // Decoding takes time and memory: it waits for its turn like the computation.
    let turn = speech.turn(deadline).await?;
    let limits = AudioLimits { bytes: MAX_AUDIO_BYTES, seconds: MAX_SECONDS };
    let decoded = tokio::task::spawn_blocking(move || Audio::decode(file, &limits)).await;
    let audio = decoded
        .map_err(|_| ApiError::internal("the audio could not be decoded"))?
        .map_err(|error| ApiError::field("file", error.to_string()))?;
    let sha256 = match call.entry.trail() {
        Some(_) => speech.info.digest.known_or_computed().await,
        None => None,
    };
    let model = ModelFacts { name: speech.name.clone(), sha256, ..ModelFacts::default() };
    let computed = call.entry.trail().map(|trail| {
        trail.begin(&call.query, record.to_string().as_bytes());
        trail.computes(model, &[])
    });
    let job = Job { turn, audio, asked, deadline, call, computed, _lease: lease };
    match job.asked.stream {
        true => Ok(job.streamed()),
        false => job.whole(translate).await,
    }
}

/// Returns the model that a request names, or the only one for speech, with its lease.
async fn model(
    app: &App,
    name: Option<&str>,
    deadline: Instant,
) -> Result<(Arc<Speech>, Option<Lease>), ApiError> {
    let entry = app.models.look_for(name, RequiredAbility::Speech).await?;
    let lease = tokio::time::timeout_at(deadline.into(), app.models.lease(&entry)).await;
    let lease = lease.map_err(|_| ApiError::deadline())??;
    Ok((app.service(Some(&entry.name))?, Some(lease)))
}

/// Recording whose turn has come.
struct Job {
    turn: Turn,
    audio: Audio,
    asked: Asked,
    deadline: Instant,
    call: Call,
    /// Index of the computation in the audit record.
    computed: Option<usize>,
    /// Use of the model until the answer has ended.
    _lease: Option<Lease>,
}

/// Notes the result for log and audit record.
fn note(call: &Call, computed: Option<usize>, result: &Transcription) {
    call.entry.note(|facts| {
        facts.completion_tokens = Some(result.n_tokens);
        facts.finish = Some("stop");
    });
    if let (Some(trail), Some(index)) = (call.entry.trail(), computed) {
        trail.result(index, leyden_audit::sha256(result.text.as_bytes()));
    }
}

impl Job {
    /// Computes the whole answer.
    async fn whole(self, translate: bool) -> Result<Response<Reply>, ApiError> {
        let Job { turn, audio, asked, deadline, call, computed, _lease } = self;
        let Asked { options, format, segments, .. } = asked;
        // The client's disconnection drops this future, and with it the channel.
        let (alive, watched) = mpsc::channel::<()>(1);
        let work = move || turn.transcribe(&audio, &options, deadline, &mut |_| !alive.is_closed());
        let result = tokio::task::spawn_blocking(work).await;
        drop(watched);
        let result = result.map_err(|_| ApiError::internal("the transcription failed"))??;
        note(&call, computed, &result);
        Ok(match format {
            Format::Json => {
                let usage = json!({ "type": "duration", "seconds": result.duration.ceil() as u64 });
                document(StatusCode::OK, &json!({ "text": result.text, "usage": usage }))
            }
            Format::VerboseJson => {
                let mut shown = result.verbose(translate, segments);
                shown["usage"] = json!({ "type": "duration", "seconds": result.duration.ceil() as u64 });
                document(StatusCode::OK, &shown)
            }
            other => {
                let text = result.in_format(other, Cues::Segments, translate);
                plain(StatusCode::OK, other.media_type(), text)
            }
        })
    }

    /// Computes the answer as a stream of events: each segment's text, then the whole text.
    fn streamed(self) -> Response<Reply> {
        let Job { turn, audio, asked, deadline, call, computed, _lease } = self;
        let (pieces, receiver) = mpsc::channel(PIECES);
        let work = move || {
            let mut first = true;
            let mut observer = |event: Event<'_>| match event {
                Event::Segment(segment) => {
                    let text = if first { segment.text.trim_start() } else { &segment.text };
                    first = false;
                    send(&pieces, &json!({ "type": "transcript.text.delta", "delta": text }), false)
                }
                _ => !pieces.is_closed(),
            };
            let result = turn.transcribe(&audio, &asked.options, deadline, &mut observer);
            let last = match &result {
                Ok(result) => {
                    note(&call, computed, result);
                    let usage = json!({ "type": "duration", "seconds": result.duration.ceil() as u64 });
                    json!({ "type": "transcript.text.done", "text": result.text, "usage": usage })
                }
                Err(error) => {
                    call.entry.note(|facts| facts.code = Some(error.code));
                    let shown =
                        json!({ "message": error.message, "type": "server_error", "code": error.code });
                    json!({ "type": "error", "error": shown })
                }
            };
            send(&pieces, &last, true);
            drop(_lease);
        };
        tokio::task::spawn_blocking(work);
        let mut response = Response::new(Reply::stream(receiver));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

/// Sends an event; returns false if the client has disconnected.
fn send(pieces: &Sender<Piece>, event: &Value, last: bool) -> bool {
    let end = if last { "data: [DONE]\n\n" } else { "" };
    let bytes = Bytes::from(format!("data: {event}\n\n{end}"));
    pieces.blocking_send(if last { Piece::Last(bytes) } else { Piece::More(bytes) }).is_ok()
}

/// Returns the description of an operation.
fn describe(app: &App, name: &str, summary: &str, translate: bool) -> Value {
    let answer =
        json!({ "type": "object", "required": ["text"], "properties": { "text": { "type": "string" } } });
    let mut it = operation(name, summary, None, &answer);
    let formats: Vec<&str> = Format::NAMES.iter().map(|row| row.0).collect();
    let mut properties = json!({
        "file": { "type": "string", "contentMediaType": "application/octet-stream", "minLength": 1, "maxLength": MAX_AUDIO_BYTES,
            "description": "Audio: WAV, FLAC, MP3, Ogg Vorbis, or AAC in MP4" },
        "model": { "type": "string", "minLength": 1, "maxLength": app.limits.name_chars },
        "prompt": { "type": "string", "maxLength": FIELD_BYTES / 4, "description": "Text before the audio" },
        "response_format": { "enum": formats },
        "temperature": { "type": "number", "minimum": 0, "maximum": 1 },
        "seed": { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
        "language": { "enum": leyden_speech::language_codes(),
            "description": "Language of the audio, detected by default; English names such as german are taken too" },
        "stream": { "type": "boolean" }
    });
    if !translate {
        properties["timestamp_granularities"] = json!({ "type": "array", "items": { "enum": ["word", "segment"] },
            "description": "word needs the response_format verbose_json" });
    }
    it["requestBody"] = json!({ "required": true, "content": { "multipart/form-data": { "schema": {
        "type": "object", "required": ["file"], "properties": properties
    } } } });
    it
}

pub(super) fn describe_transcribe(app: &App) -> Value {
    describe(app, "createTranscription", "OpenAI: speech to text", false)
}

pub(super) fn describe_translate(app: &App) -> Value {
    describe(app, "createTranslation", "OpenAI: speech to English text", true)
}
