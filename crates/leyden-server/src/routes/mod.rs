//! The endpoints: one file each, and one table with path, access and description of each.
//!
//! The access is checked for the route that was found, so a differently parsed path cannot bypass it.

mod audio;
mod batches;
mod chat;
mod completions;
mod detokenize;
mod embeddings;
mod files;
mod health;
mod input_tokens;
mod metrics;
mod models;
mod openapi;
mod page;
mod rerank;
mod tokenize;
mod version;

use crate::abilities::RequiredAbility;
use crate::auth::{Access, Scope};
use crate::dialect::Dialect;
use crate::dialects::anthropic::{self, ANTHROPIC};
use crate::dialects::cohere::{self, COHERE};
use crate::dialects::llama_embedding;
use crate::dialects::llama_infill;
use crate::dialects::llama_lora;
use crate::dialects::llama_server::{self, LLAMA_SERVER};
use crate::dialects::ollama::{self, OLLAMA};
use crate::dialects::ollama_embed;
use crate::dialects::ollama_manage;
use crate::dialects::ollama_models;
use crate::dialects::ollama_pull;
use crate::dialects::open_inference::{self, OPEN_INFERENCE};
use crate::dialects::openai::OPENAI;
use crate::dialects::responses;
use crate::dialects::tei::{self, TEI};
use crate::dialects::vllm;
use crate::route::{RequestBody, Route};
use hyper::Method;
use leyden_tasks::TaskKind;

/// Declares the endpoints, by dialect: module, function, method, path, access, a flag for computing, and the body.
macro_rules! routes {
    ($($dialect:ident { $($module:ident::$answer:ident $describe:ident $method:ident $path:literal $access:expr, $generates:literal, $body:expr;)* })*) => {
        /// All endpoints.
        pub(crate) static ROUTES: &[Route] = &[$($(Route {
            method: Method::$method,
            path: $path,
            access: $access,
            generates: $generates,
            body: $body,
            dialect: &$dialect,
            answer: |app, call| Box::pin($module::$answer(app, call)),
            describe: $module::$describe,
        },)*)*];
    };
}

const INFERENCE: Access = Access::Needs(Scope::Inference);
const METRICS: Access = Access::Needs(Scope::Metrics);
/// Access to endpoints that change the server for all keys.
const ADMIN: Access = Access::Needs(Scope::Admin);

const NONE: RequestBody = RequestBody::None;
const UPLOAD: RequestBody = RequestBody::Upload;
const FIELDS: RequestBody = RequestBody::Fields;
const ANY: RequestBody = RequestBody::Model(RequiredAbility::Any);
const TEXT: RequestBody = RequestBody::Model(RequiredAbility::Task(TaskKind::Generate));
const VECTORS: RequestBody = RequestBody::Model(RequiredAbility::Task(TaskKind::Embed));
const SPARSE: RequestBody = RequestBody::Model(RequiredAbility::Task(TaskKind::EmbedSparse));
const LABELS: RequestBody = RequestBody::Model(RequiredAbility::Task(TaskKind::Classify));
const RANKS: RequestBody = RequestBody::Model(RequiredAbility::Task(TaskKind::Rerank));

// ROUTES
routes! {
    OPENAI {
        chat::answer describe POST "/v1/chat/completions" INFERENCE, true, TEXT;
        chat::answer describe POST "/chat/completions" INFERENCE, true, TEXT;
        input_tokens::answer describe POST "/v1/chat/completions/input_tokens" INFERENCE, true, TEXT;
        input_tokens::answer describe POST "/chat/completions/input_tokens" INFERENCE, true, TEXT;
        completions::answer describe POST "/v1/completions" INFERENCE, true, TEXT;
        embeddings::answer describe POST "/v1/embeddings" INFERENCE, true, VECTORS;
        rerank::answer describe POST "/rerank" INFERENCE, true, RANKS;
        rerank::answer describe POST "/v1/rerank" INFERENCE, true, RANKS;
        rerank::answer describe POST "/reranking" INFERENCE, true, RANKS;
        rerank::answer describe POST "/v1/reranking" INFERENCE, true, RANKS;
        vllm::score describe_score POST "/score" INFERENCE, true, RANKS;
        vllm::score describe_score POST "/v1/score" INFERENCE, true, RANKS;
        vllm::classify describe_classify POST "/classify" INFERENCE, true, LABELS;
        vllm::pooling describe_pooling POST "/pooling" INFERENCE, true, ANY;
        models::list describe_list GET "/v1/models" INFERENCE, false, NONE;
        models::list describe_list GET "/models" INFERENCE, false, NONE;
        models::one describe_one GET "/v1/models/{model}" INFERENCE, false, NONE;
        models::one describe_one GET "/models/{model}" INFERENCE, false, NONE;
        files::create describe_create POST "/v1/files" INFERENCE, false, UPLOAD;
        files::list describe_list GET "/v1/files" INFERENCE, false, NONE;
        files::content describe_content GET "/v1/files/{file_id}/content" INFERENCE, false, NONE;
        files::retrieve describe_retrieve GET "/v1/files/{file_id}" INFERENCE, false, NONE;
        files::delete describe_delete DELETE "/v1/files/{file_id}" INFERENCE, false, NONE;
        batches::create describe_create POST "/v1/batches" INFERENCE, false, FIELDS;
        batches::list describe_list GET "/v1/batches" INFERENCE, false, NONE;
        batches::cancel describe_cancel POST "/v1/batches/{batch_id}/cancel" INFERENCE, false, NONE;
        batches::retrieve describe_retrieve GET "/v1/batches/{batch_id}" INFERENCE, false, NONE;
        audio::transcribe describe_transcribe POST "/v1/audio/transcriptions" INFERENCE, true, UPLOAD;
        audio::translate describe_translate POST "/v1/audio/translations" INFERENCE, true, UPLOAD;
        tokenize::answer describe POST "/tokenize" INFERENCE, true, ANY;
        detokenize::answer describe POST "/detokenize" INFERENCE, true, ANY;
        health::ready describe_ready GET "/health" Access::Open, false, NONE;
        health::ready describe_ready GET "/v1/health" Access::Open, false, NONE;
        health::live describe_live GET "/health/live" Access::Open, false, NONE;
        metrics::answer describe GET "/metrics" METRICS, false, NONE;
        version::answer describe GET "/version" Access::AnyKey, false, NONE;
        openapi::answer describe GET "/openapi.json" Access::AnyKey, false, NONE;
        page::page describe_page GET "/" Access::Open, false, NONE;
        page::page describe_docs GET "/docs" Access::Open, false, NONE;
        page::script describe_script GET "/assets/app.js" Access::Open, false, NONE;
        page::style describe_style GET "/assets/app.css" Access::Open, false, NONE;
        page::pdf describe_pdf GET "/assets/pdf.js" Access::Open, false, NONE;
        page::pdf_worker describe_pdf_worker GET "/assets/pdf.worker.js" Access::Open, false, NONE;
        responses::answer describe_answer POST "/v1/responses" INFERENCE, true, TEXT;
        responses::count describe_count POST "/v1/responses/input_tokens" INFERENCE, true, TEXT;
        responses::count describe_count POST "/responses/input_tokens" INFERENCE, true, TEXT;
        responses::answer describe_answer POST "/responses" INFERENCE, true, TEXT;
        responses::compact describe_compact POST "/v1/responses/compact" INFERENCE, true, TEXT;
        responses::compact describe_compact POST "/responses/compact" INFERENCE, true, TEXT;
        responses::cancel describe_cancel POST "/v1/responses/{response_id}/cancel" INFERENCE, false, NONE;
        responses::input_items describe_input_items GET "/v1/responses/{response_id}/input_items" INFERENCE, false, NONE;
        responses::retrieve describe_retrieve GET "/v1/responses/{response_id}" INFERENCE, false, NONE;
        responses::delete describe_delete DELETE "/v1/responses/{response_id}" INFERENCE, false, NONE;
    }
    ANTHROPIC {
        anthropic::messages describe_messages POST "/v1/messages" INFERENCE, true, TEXT;
        anthropic::count_tokens describe_count_tokens POST "/v1/messages/count_tokens" INFERENCE, true, TEXT;
    }
    OLLAMA {
        ollama::chat describe_chat POST "/api/chat" INFERENCE, true, ANY;
        ollama::generate describe_generate POST "/api/generate" INFERENCE, true, ANY;
        ollama_embed::embed describe_embed POST "/api/embed" INFERENCE, true, ANY;
        ollama_embed::embeddings describe_embeddings POST "/api/embeddings" INFERENCE, true, ANY;
        ollama_models::tags describe_tags GET "/api/tags" INFERENCE, false, NONE;
        ollama_models::ps describe_ps GET "/api/ps" INFERENCE, false, NONE;
        ollama_models::show describe_show POST "/api/show" INFERENCE, false, FIELDS;
        ollama_pull::answer describe POST "/api/pull" ADMIN, true, FIELDS;
        ollama_manage::copy describe_copy POST "/api/copy" ADMIN, true, FIELDS;
        ollama_manage::create describe_create POST "/api/create" ADMIN, true, FIELDS;
        ollama_manage::delete describe_delete DELETE "/api/delete" ADMIN, false, FIELDS;
        ollama_models::version describe_version GET "/api/version" Access::AnyKey, false, NONE;
    }
    COHERE {
        rerank::answer describe POST "/v2/rerank" INFERENCE, true, RANKS;
        cohere::embed describe_embed POST "/v2/embed" INFERENCE, true, VECTORS;
        cohere::embed_first describe_embed POST "/v1/embed" INFERENCE, true, VECTORS;
    }
    TEI {
        tei::embed describe_embed POST "/embed" INFERENCE, true, VECTORS;
        tei::embed_all describe_embed_all POST "/embed_all" INFERENCE, true, VECTORS;
        tei::embed_sparse describe_embed_sparse POST "/embed_sparse" INFERENCE, true, SPARSE;
        tei::predict describe_predict POST "/predict" INFERENCE, true, LABELS;
        tei::similarity describe_similarity POST "/similarity" INFERENCE, true, VECTORS;
        tei::info describe_info GET "/info" INFERENCE, false, NONE;
    }
    LLAMA_SERVER {
        llama_server::completion describe_completion POST "/completion" INFERENCE, true, TEXT;
        llama_server::completion describe_completion POST "/completions" INFERENCE, true, TEXT;
        llama_infill::answer describe POST "/infill" INFERENCE, true, TEXT;
        llama_embedding::answer describe POST "/embedding" INFERENCE, true, VECTORS;
        llama_embedding::answer describe POST "/embeddings" INFERENCE, true, VECTORS;
        llama_server::apply_template describe_apply_template POST "/apply-template" INFERENCE, true, TEXT;
        llama_server::props describe_props GET "/props" INFERENCE, false, NONE;
        llama_server::slots describe_slots GET "/slots" INFERENCE, false, NONE;
        llama_lora::list describe_list GET "/lora-adapters" INFERENCE, false, NONE;
        llama_lora::set describe_set POST "/lora-adapters" ADMIN, false, FIELDS;
    }
    OPEN_INFERENCE {
        open_inference::server describe_server GET "/v2" Access::AnyKey, false, NONE;
        open_inference::live describe_live GET "/v2/health/live" Access::Open, false, NONE;
        open_inference::ready describe_ready GET "/v2/health/ready" Access::Open, false, NONE;
        open_inference::model describe_model GET "/v2/models/{model}" INFERENCE, false, NONE;
    }
}

/// A route and the value of its path's variable.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    pub(crate) variable: String,
}

/// Returns the route for a request. `HEAD` has the route of `GET`; the body is left out when the response is written.
pub(crate) fn find(method: &Method, path: &str) -> Option<Found> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let path = &normal(path);
    let of = |route: &'static Route| Some(Found { route, variable: variable(route.path, path)? });
    ROUTES.iter().filter(|r| r.method == method).find_map(of)
}

/// Path prefixes that belong to one dialect, even if no route matches.
static FAMILIES: &[(&str, &Dialect)] = &[
    ("/api/", &OLLAMA),
    ("/v1/messages/", &ANTHROPIC),
    ("/v2/models/", &OPEN_INFERENCE),
    ("/v2/health/", &OPEN_INFERENCE),
];

/// Returns the dialect of a path, whatever the method; for a path without a route that of its prefix, or OpenAI's.
pub(crate) fn dialect(path: &str) -> &'static Dialect {
    let path = normal(path);
    let known = ROUTES.iter().find(|route| variable(route.path, &path).is_some()).map(|route| route.dialect);
    let family = || FAMILIES.iter().find(|(start, _)| path.starts_with(start)).map(|(_, dialect)| *dialect);
    known.or_else(family).unwrap_or(&OPENAI)
}

/// Returns the methods of a path.
pub(crate) fn methods(path: &str) -> Vec<&'static str> {
    let known = normal(path);
    let all = ROUTES.iter().filter(|r| path == "*" || variable(r.path, &known).is_some()).map(|r| &r.method);
    let mut names: Vec<&str> = all.map(Method::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(at) = names.iter().position(|name| *name == "GET") {
        names.insert(at + 1, "HEAD");
    }
    if !names.is_empty() {
        names.push("OPTIONS");
    }
    names
}

/// Returns true if the connection limit does not apply to a path: health and metrics.
pub(crate) fn answers_always(path: &str) -> bool {
    find(&Method::GET, path).is_some_and(|f| f.route.is_health() || f.route.access == METRICS)
}

/// Normalises a path to the form in the table: trailing slashes and repeated slashes, which clients produce when they
/// join addresses, are removed.
fn normal(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// Returns the value of a pattern's variable, empty if it has none; `None` if the path does not match.
fn variable(pattern: &str, path: &str) -> Option<String> {
    let Some((start, end)) = pattern.split_once('{') else {
        return (pattern == path).then(String::new);
    };
    let (name, end) = end.split_once('}').unwrap_or((end, ""));
    let value = path.strip_prefix(start)?.strip_suffix(end).filter(|value| !value.is_empty())?;
    if name.ends_with("_id") && value.contains('/') {
        return None;
    }
    percent_decoded(value)
}

/// Decodes percent-encoding, such as `%41`. `None` if the result is not UTF-8, or digits are missing after a `%`.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let (hex, after) = after.split_at_checked(2)?;
        if !hex.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_routes() {
        let path = |m: Method, p: &str| find(&m, p).map(|f| (f.route.path, f.variable));
        assert_eq!(path(Method::GET, "/health"), Some(("/health", String::new())));
        assert_eq!(path(Method::GET, "/v1/models/a/b%20c"), Some(("/v1/models/{model}", "a/b c".to_owned())));
        for (tolerated, wanted) in [
            ("/health/", "/health"),
            ("//health", "/health"),
            ("/v1/models/", "/v1/models"),
            ("//v1//models", "/v1/models"),
        ] {
            assert_eq!(path(Method::GET, tolerated), Some((wanted, String::new())), "{tolerated}");
            assert_eq!(path(Method::HEAD, tolerated), Some((wanted, String::new())), "{tolerated}");
        }
        let items = Some(("/v1/responses/{response_id}/input_items", "resp_1".to_owned()));
        assert_eq!(path(Method::GET, "/v1/responses/resp_1/input_items"), items);
        assert_eq!(
            path(Method::GET, "/v1/responses/input_items"),
            Some(("/v1/responses/{response_id}", "input_items".to_owned()))
        );
        assert_eq!(path(Method::POST, "/v1/responses/cancel"), None);
        assert_eq!(path(Method::GET, "/v1/models/a/b/"), Some(("/v1/models/{model}", "a/b".to_owned())));
        let file = |p: &str| path(Method::GET, p);
        assert_eq!(file("/v1/files/file-1"), Some(("/v1/files/{file_id}", "file-1".to_owned())));
        assert_eq!(
            file("/v1/files/file-1/content"),
            Some(("/v1/files/{file_id}/content", "file-1".to_owned()))
        );
        assert_eq!(file("/v1/files/file-1/other"), None);
        assert_eq!(methods("/v1/batches/batch_1/cancel"), ["POST", "OPTIONS"]);
        for wrong in ["/Health", "/v1", "/v1/modelsx", "/v1/models/%zz", "/v1/models/%+1"] {
            assert_eq!(path(Method::GET, wrong), None, "{wrong}");
        }
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(path(method, "/v1/completions"), None);
        }
        assert_eq!(methods("/v1/completions/"), ["POST", "OPTIONS"]);
        assert_eq!(methods("/v1/models"), ["GET", "HEAD", "OPTIONS"]);
        assert_eq!(methods("*"), ["DELETE", "GET", "HEAD", "POST", "OPTIONS"]);
        assert!(methods("/nothing").is_empty());
        for (nowhere, wanted) in [
            ("/api/nothing", "OllamaError"),
            ("/api/embeddings/", "OllamaError"),
            ("/v1/messages/batches", ANTHROPIC.name),
            ("/v1/nothing", OPENAI.name),
            ("/apis", OPENAI.name),
        ] {
            assert_eq!(dialect(nowhere).name, wanted, "{nowhere}");
        }
        assert!(
            answers_always("/health/live/") && answers_always("/metrics") && !answers_always("/v1/models")
        );
    }

    /// All endpoints that compute count as requests, tokenising too; the exceptions are listed here.
    #[test]
    fn every_route_that_takes_work_counts_as_a_request() {
        let free = [
            "/api/show",
            "/lora-adapters",
            "/v1/responses/{response_id}/cancel",
            // Rows of a batch count when they are computed.
            "/v1/files",
            "/v1/batches",
            "/v1/batches/{batch_id}/cancel",
        ];
        for route in ROUTES {
            let wanted = route.method == Method::POST && !free.contains(&route.path);
            assert_eq!(route.generates, wanted, "{}", route.path);
        }
    }

    /// The expected access of every endpoint; new endpoints must be added here.
    #[test]
    fn every_route_has_the_access_that_it_should_have() {
        let open = [
            "/health",
            "/v1/health",
            "/health/live",
            "/",
            "/docs",
            "/assets/app.js",
            "/assets/app.css",
            "/assets/pdf.js",
            "/assets/pdf.worker.js",
            "/v2/health/live",
            "/v2/health/ready",
        ];
        let any_key = ["/version", "/openapi.json", "/api/version", "/v2"];
        for route in ROUTES {
            let wanted = match route.path {
                p if open.contains(&p) => Access::Open,
                p if any_key.contains(&p) => Access::AnyKey,
                "/metrics" => METRICS,
                "/api/pull" | "/api/copy" | "/api/create" | "/api/delete" => ADMIN,
                "/lora-adapters" if route.method == Method::POST => ADMIN,
                _ => INFERENCE,
            };
            assert_eq!(route.access, wanted, "{}", route.path);
        }
    }
}
