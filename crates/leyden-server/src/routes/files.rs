//! OpenAI: `/v1/files`, the inputs and outputs of batches.

use crate::app::App;
use crate::batches::{Batches, not_written};
use crate::body::{Piece, Reply};
use crate::call::{Call, Upload};
use crate::dialects::openai::OPENAI;
use crate::error::ApiError;
use crate::file_store::{NewFile, StoredFile, Writing};
use crate::operation::operation;
use crate::paging::{self, Page};
use crate::replies::document;
use futures_core::Stream;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use multer::{Constraints, Field, Multipart, SizeLimit};
use serde_json::{Value, json};
use std::fmt;
use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver};

/// Usual and maximum number of files of a list.
const LISTED: usize = 10_000;
/// Maximum bytes of a field beside the file.
const FIELD_BYTES: u64 = 1024;
/// Maximum number of parts of an upload.
const MAX_PARTS: usize = 32;
/// Bytes of a piece of a file's content, and number of pieces that wait for the client.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;
/// Seconds after which a file may be deleted, as OpenAI has them: an hour to 30 days.
pub(super) const LIFETIMES: std::ops::RangeInclusive<u64> = 3600..=2_592_000;

/// Returns files and batches, if the server has any.
///
/// # Errors
/// 404: it has no folder for them.
pub(super) fn batches(app: &App) -> Result<&Arc<Batches>, ApiError> {
    app.batches.as_ref().ok_or_else(|| {
        let message = "this server keeps no files and batches; start it with --batch-dir DIR";
        ApiError::new(StatusCode::NOT_FOUND, "batches_disabled", message)
    })
}

fn unknown() -> ApiError {
    let error = ApiError::new(StatusCode::NOT_FOUND, "file_not_found", "there is no such file");
    ApiError { param: Some("file_id".to_owned()), ..error }
}

/// Pieces of an upload, as the reader of its parts wants them.
pub(super) struct Arriving(pub(super) Receiver<Result<Bytes, ApiError>>);

impl Stream for Arriving {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map_err(Broken)))
    }
}

/// Failure of an upload's body.
#[derive(Debug)]
pub(super) struct Broken(ApiError);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Broken {}

/// Returns the error of an upload whose parts cannot be read.
pub(super) fn refused(error: multer::Error) -> ApiError {
    match error {
        multer::Error::StreamReadFailed(inner) => match inner.downcast::<Broken>() {
            Ok(broken) => broken.0,
            Err(_) => ApiError::body("the body is incomplete"),
        },
        multer::Error::FieldSizeExceeded { field_name, .. } => {
            let name = field_name.unwrap_or_default();
            let message = format!("`{}` is too large", name.chars().take(64).collect::<String>());
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
        }
        other => {
            let message = format!("the body is no complete multipart/form-data: {other}");
            ApiError { code: "invalid_form", ..ApiError::body(message) }
        }
    }
}

/// Fields of an upload.
#[derive(Default)]
struct Form {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
    file: Option<(Writing, String)>,
}

pub(super) async fn create(app: Arc<App>, mut call: Call) -> Result<Response<Reply>, ApiError> {
    let batches = batches(&app)?;
    let owner = call.caller.id.clone();
    batches.files.check_room(&owner, 0)?;
    let form = read(&app, batches, call.take_upload()?).await?;
    let purpose = form.purpose.ok_or_else(|| missing("purpose"))?;
    if purpose != "batch" {
        return Err(ApiError::field("purpose", "`purpose` is not `batch`: files are inputs of batches here"));
    }
    let lifetime = lifetime(form.anchor.as_deref(), form.seconds.as_deref())?;
    let (writing, filename) = form.file.ok_or_else(|| missing("file"))?;
    batches.files.check_room(&owner, writing.bytes())?;
    let new = NewFile { owner, filename, purpose: "batch", lifetime };
    let own = Arc::clone(batches);
    let written = tokio::task::spawn_blocking(move || own.files.finish(writing, new)).await;
    let file = written.map_err(|_| ApiError::internal("the file was not written"))?;
    Ok(document(StatusCode::OK, &file.map_err(|error| not_written(&error))?.shown()))
}

fn missing(name: &str) -> ApiError {
    ApiError { code: "missing_required_parameter", ..ApiError::field(name, format!("`{name}` is missing")) }
}

async fn read(app: &App, batches: &Batches, upload: Upload) -> Result<Form, ApiError> {
    let limits = SizeLimit::new().per_field(FIELD_BYTES).for_field("file", app.limits.file_bytes as u64);
    let constraints = Constraints::new().size_limit(limits);
    let mut parts = Multipart::with_constraints(Arriving(upload.pieces), upload.boundary, constraints);
    let mut form = Form::default();
    for _ in 0..MAX_PARTS {
        let Some(mut part) = parts.next_field().await.map_err(refused)? else { return Ok(form) };
        let name = part.name().unwrap_or_default().to_owned();
        let slot = match name.as_str() {
            "purpose" => &mut form.purpose,
            "expires_after[anchor]" => &mut form.anchor,
            "expires_after[seconds]" => &mut form.seconds,
            "file" if form.file.is_some() => return Err(ApiError::field("file", "`file` is there twice")),
            "file" => {
                form.file = Some(file(app, batches, &mut part).await?);
                continue;
            }
            // Read to its end by the next call.
            _ => continue,
        };
        let text = part.text().await.map_err(refused)?;
        if slot.replace(text).is_some() {
            return Err(ApiError::field(&name, format!("`{name}` is there twice")));
        }
    }
    Err(ApiError::body(format!("the body has more than {MAX_PARTS} parts")))
}

/// Writes the part with the file.
async fn file(app: &App, batches: &Batches, part: &mut Field<'_>) -> Result<(Writing, String), ApiError> {
    let given = part.file_name().unwrap_or("file");
    let filename = given.chars().filter(|char| !char.is_control()).take(app.limits.name_chars).collect();
    let mut writing = batches.files.begin(None).map_err(|error| not_written(&error))?;
    while let Some(bytes) = part.chunk().await.map_err(refused)? {
        // The pieces are small, and go to the system's memory.
        writing.write(&bytes).map_err(|error| not_written(&error))?;
    }
    Ok((writing, filename))
}

fn lifetime(anchor: Option<&str>, seconds: Option<&str>) -> Result<Option<u64>, ApiError> {
    let (name, range) = ("expires_after[seconds]", LIFETIMES);
    match (anchor, seconds) {
        (None, None) => Ok(None),
        (Some("created_at"), Some(seconds)) => match seconds.parse() {
            Ok(seconds) if range.contains(&seconds) => Ok(Some(seconds)),
            _ => Err(ApiError::field(
                name,
                format!("`{name}` is not between {} and {}", range.start(), range.end()),
            )),
        },
        (None, Some(_)) => Err(missing("expires_after[anchor]")),
        (Some("created_at"), None) => Err(missing(name)),
        (Some(_), _) => {
            Err(ApiError::field("expires_after[anchor]", "`expires_after[anchor]` is not created_at"))
        }
    }
}

pub(super) async fn list(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let files = &batches(&app)?.files;
    let page = Page::read(&call.query, LISTED, LISTED)?;
    let purpose =
        paging::parameters(&call.query).find(|(name, _)| *name == "purpose").map(|(_, value)| value);
    let wanted = |file: &StoredFile| purpose.is_none_or(|purpose| file.purpose == purpose);
    let shown =
        files.list(&call.caller.id).iter().filter(|file| wanted(file)).map(StoredFile::shown).collect();
    Ok(document(StatusCode::OK, &page.of(shown)?))
}

pub(super) async fn retrieve(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let file = batches(&app)?.files.get(&call.caller.id, &call.variable).ok_or_else(unknown)?;
    Ok(document(StatusCode::OK, &file.shown()))
}

pub(super) async fn delete(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let batches = batches(&app)?;
    let file = batches.files.get(&call.caller.id, &call.variable).ok_or_else(unknown)?;
    if let Some(batch) = batches.reader_of(&file.id) {
        let message = format!("the batch {batch} reads the file; wait until it has ended, or cancel it");
        return Err(ApiError::new(StatusCode::CONFLICT, "file_in_use", message));
    }
    if !batches.files.remove(&call.caller.id, &file.id) {
        return Err(unknown());
    }
    Ok(document(StatusCode::OK, &json!({ "id": file.id, "object": "file", "deleted": true })))
}

pub(super) async fn content(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let files = &batches(&app)?.files;
    let file = files.get(&call.caller.id, &call.variable).ok_or_else(unknown)?;
    let mut content = files.read(&file).map_err(|_| ApiError::internal("the file cannot be read"))?;
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        let mut piece = vec![0; PIECE];
        while let Ok(n @ 1..) = content.read(&mut piece) {
            // The client may have disconnected.
            if sender.send(Piece::More(Bytes::copy_from_slice(&piece[..n]))).await.is_err() {
                return;
            }
        }
    });
    let mut response = Response::new(Reply::stream(receiver));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

fn file_schema() -> Value {
    json!({
        "type": "object", "required": ["id", "object", "bytes", "created_at", "filename", "purpose", "status"],
        "properties": {
            "id": { "type": "string" }, "object": { "const": "file" }, "bytes": { "type": "integer" },
            "created_at": { "type": "integer" }, "expires_at": { "type": ["integer", "null"] },
            "filename": { "type": "string" }, "purpose": { "enum": ["batch", "batch_output"] },
            "status": { "const": "processed" }
        }
    })
}

/// Adds further failures to the description of an operation.
pub(super) fn with_failures(mut it: Value, failures: &[(&str, &str)]) -> Value {
    for (status, description) in failures {
        it["responses"][*status] = json!({
            "description": description,
            "content": { "application/json": { "schema": OPENAI.error_reference() } }
        });
    }
    it
}

/// Failure of a server without a folder for batches.
pub(super) const DISABLED: (&str, &str) = ("404", "The server keeps no files and batches");

/// Returns the description of an operation on a file.
fn of_file(name: &str, summary: &str, answer: &Value) -> Value {
    let mut it = operation(name, summary, None, answer);
    it["parameters"] =
        json!([{ "name": "file_id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    it
}

pub(super) fn describe_create(app: &App) -> Value {
    let mut it = operation("uploadFile", "OpenAI: upload the input of a batch", None, &file_schema());
    let seconds = json!({ "type": "integer", "minimum": LIFETIMES.start(), "maximum": LIFETIMES.end() });
    it["requestBody"] = json!({ "required": true, "content": { "multipart/form-data": { "schema": {
        "type": "object", "required": ["file", "purpose"],
        "properties": {
            "file": {
                "type": "string", "contentMediaType": "application/octet-stream", "maxLength": app.limits.file_bytes,
                "description": "A request per line, as JSON: `custom_id`, `method`, `url` and `body`"
            },
            "purpose": { "const": "batch" },
            "expires_after[anchor]": { "const": "created_at" },
            "expires_after[seconds]": seconds
        },
        "dependentRequired": {
            "expires_after[anchor]": ["expires_after[seconds]"], "expires_after[seconds]": ["expires_after[anchor]"]
        }
    } } } });
    it
}

pub(super) fn describe_list(_: &App) -> Value {
    let answer = paging::schema(&file_schema());
    let mut it = operation("listFiles", "OpenAI: the files of this key", None, &answer);
    it["parameters"] = paging::described(LISTED, LISTED);
    if let Value::Array(all) = &mut it["parameters"] {
        all.push(json!({ "name": "purpose", "in": "query", "schema": { "type": "string" } }));
    }
    with_failures(it, &[DISABLED])
}

pub(super) fn describe_retrieve(_: &App) -> Value {
    of_file("getFile", "OpenAI: one file", &file_schema())
}

pub(super) fn describe_delete(_: &App) -> Value {
    let answer = json!({ "type": "object", "required": ["id", "object", "deleted"] });
    let it = of_file("deleteFile", "OpenAI: delete a file", &answer);
    with_failures(it, &[("409", "A batch reads the file")])
}

pub(super) fn describe_content(_: &App) -> Value {
    let mut it = of_file("getFileContent", "OpenAI: the content of a file", &json!({}));
    it["responses"]["200"]["content"] =
        json!({ "application/octet-stream": { "schema": { "type": "string" } } });
    it
}
