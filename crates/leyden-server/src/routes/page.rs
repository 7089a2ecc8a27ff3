//! The web page: chat at `/`, the API's description at `/docs`, and their files.
//!
//! The source is in `web/` of the repository; the output of `npm run build` is embedded here, so the page needs no
//! other server and no network.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use serde_json::{Value, json};
use std::sync::Arc;

static PAGE: &[u8] = include_bytes!("../../web/index.html");
static SCRIPT: &[u8] = include_bytes!("../../web/assets/app.js");
static STYLE: &[u8] = include_bytes!("../../web/assets/app.css");
static PDF: &[u8] = include_bytes!("../../web/assets/pdf.js");
static PDF_WORKER: &[u8] = include_bytes!("../../web/assets/pdf.worker.js");

/// The page may only connect to its own server, and no other site can embed it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn page(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(file(PAGE, "text/html; charset=utf-8"))
}

pub(super) async fn script(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(file(SCRIPT, "text/javascript; charset=utf-8"))
}

pub(super) async fn style(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(file(STYLE, "text/css; charset=utf-8"))
}

pub(super) async fn pdf(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(file(PDF, "text/javascript; charset=utf-8"))
}

pub(super) async fn pdf_worker(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(file(PDF_WORKER, "text/javascript; charset=utf-8"))
}

fn file(bytes: &'static [u8], kind: &'static str) -> Response<Reply> {
    let mut response = Response::new(Reply::whole(Bytes::from_static(bytes)));
    let headers = response.headers_mut();
    // File names are the same in all versions.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

pub(super) fn describe_page(_: &App) -> Value {
    described("page", "Web page with chat and the server's state", "text/html")
}

pub(super) fn describe_docs(_: &App) -> Value {
    described("docs", "Web page that shows this document", "text/html")
}

pub(super) fn describe_script(_: &App) -> Value {
    described("pageScript", "Script of the page", "text/javascript")
}

pub(super) fn describe_style(_: &App) -> Value {
    described("pageStyle", "Style sheet of the page", "text/css")
}

pub(super) fn describe_pdf(_: &App) -> Value {
    described("pagePdf", "PDF reader of the page", "text/javascript")
}

pub(super) fn describe_pdf_worker(_: &App) -> Value {
    described("pagePdfWorker", "PDF reader of the page, part in a worker thread", "text/javascript")
}

fn described(name: &str, summary: &str, kind: &str) -> Value {
    let mut it = operation(name, summary, None, &json!({}));
    it["responses"]["200"]["content"] = json!({ kind: { "schema": { "type": "string" } } });
    it
}
