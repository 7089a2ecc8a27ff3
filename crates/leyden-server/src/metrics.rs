//! Counters, gauges and histograms, and their text form (Prometheus exposition format 0.0.4).
//!
//! The meaning of names with the prefix `vllm:` is that which inference gateways expect; our own names have the prefix
//! `leyden_`. Every series exists from the start, with the value 0.

use crate::service_level::{self, Figure, ServiceLevel};
use leyden_audit::Figures;
use leyden_kernels::attention::BLOCK_TOKENS;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A counter or a gauge.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Subtracts from a gauge.
    pub(crate) fn sub(&self, n: usize) {
        self.0.fetch_sub(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, n: usize) {
        self.0.store(n as u64, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds in seconds of the buckets for prompts, queueing and whole answers.
const LONG: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
/// Upper bounds in seconds of the buckets for the time between two tokens.
const SHORT: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0,
];

/// A histogram of durations.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// Counts per bucket; one more than there are bounds.
    counts: Vec<AtomicU64>,
    sum_ns: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, counts, sum_ns: AtomicU64::new(0) }
    }

    pub(crate) fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let at = self.bounds.partition_point(|b| *b < seconds);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }
}

/// Metrics of one worker of a model.
#[derive(Debug)]
pub(crate) struct ModelMetrics {
    pub(crate) waiting: Counter,
    pub(crate) running: Counter,
    pub(crate) kv_blocks: Counter,
    pub(crate) kv_blocks_used: Counter,
    pub(crate) kv_blocks_cached: Counter,
    pub(crate) state_checkpoints: Counter,
    pub(crate) prompt_tokens: Counter,
    pub(crate) generated_tokens: Counter,
    pub(crate) prefix_queries: Counter,
    pub(crate) prefix_hits: Counter,
    pub(crate) preemptions: Counter,
    pub(crate) steps: Counter,
    pub(crate) failed_steps: Counter,
    pub(crate) restarts: Counter,
    pub(crate) guesses: Counter,
    pub(crate) right_guesses: Counter,
    /// Number of ended requests, by [`FINISHES`].
    pub(crate) finished: [Counter; FINISHES.len()],
    /// Number of refused requests, by [`REFUSALS`].
    pub(crate) refused: [Counter; REFUSALS.len()],
    pub(crate) first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) end_to_end: Histogram,
    pub(crate) queue: Histogram,
    pub(crate) step: Histogram,
    pub(crate) service_level: ServiceLevel,
}

/// Labels for the reasons why requests end.
pub(crate) const FINISHES: [&str; 5] = ["stop", "length", "abort", "deadline", "error"];
/// Labels for the reasons why requests are refused.
pub(crate) const REFUSALS: [&str; 4] = ["queue_full", "key_queue_full", "other", "slo"];

impl Default for ModelMetrics {
    fn default() -> ModelMetrics {
        ModelMetrics {
            waiting: Counter::default(),
            running: Counter::default(),
            kv_blocks: Counter::default(),
            kv_blocks_used: Counter::default(),
            kv_blocks_cached: Counter::default(),
            state_checkpoints: Counter::default(),
            prompt_tokens: Counter::default(),
            generated_tokens: Counter::default(),
            prefix_queries: Counter::default(),
            prefix_hits: Counter::default(),
            preemptions: Counter::default(),
            steps: Counter::default(),
            failed_steps: Counter::default(),
            restarts: Counter::default(),
            guesses: Counter::default(),
            right_guesses: Counter::default(),
            finished: Default::default(),
            refused: Default::default(),
            first_token: Histogram::new(LONG),
            inter_token: Histogram::new(SHORT),
            end_to_end: Histogram::new(LONG),
            queue: Histogram::new(LONG),
            step: Histogram::new(SHORT),
            service_level: ServiceLevel::default(),
        }
    }
}

impl ModelMetrics {
    /// Returns the fraction of the KV cache that running requests use, 0 to 1.
    fn kv_usage(&self) -> f64 {
        self.kv_blocks_used.get() as f64 / self.kv_blocks.get().max(1) as f64
    }
}

/// Metrics of the HTTP side.
#[derive(Debug, Default)]
pub(crate) struct HttpMetrics {
    pub(crate) connections: Counter,
    pub(crate) connections_total: Counter,
    /// Number of connections refused because of the connection limits, in all or per address.
    pub(crate) connections_refused: Counter,
    /// Number of responses by class: 2xx to 5xx.
    pub(crate) responses: [Counter; 4],
}

impl HttpMetrics {
    /// Returns the number of responses of all classes.
    pub(crate) fn answers(&self) -> u64 {
        self.responses.iter().map(Counter::get).sum()
    }

    /// Counts a response.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(c) = usize::from(status / 100).checked_sub(2).and_then(|i| self.responses.get(i)) {
            c.add(1);
        }
    }
}

/// Figures of a server with TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsFigures {
    /// Seconds until the server's certificate expires; negative after that, `None` if it cannot be read.
    pub(crate) seconds_left: Option<f64>,
    /// Number of handshakes: completed and failed ones.
    pub(crate) handshakes: [u64; 2],
    /// Number of changes of the files: loaded and refused ones.
    pub(crate) reloads: [u64; 2],
}

impl TlsFigures {
    fn write(&self, out: &mut String) {
        if let Some(seconds) = self.seconds_left {
            let name = "leyden_tls_certificate_expiry_seconds";
            head(out, name, "Seconds until the server's certificate expires.", "gauge");
            line(out, name, "", seconds);
        }
        for (name, help, key, values, counts) in [
            (
                "leyden_tls_handshakes_total",
                "TLS handshakes.",
                "result",
                ["completed", "failed"],
                self.handshakes,
            ),
            (
                "leyden_tls_reloads_total",
                "Changes of the files of TLS.",
                "result",
                ["loaded", "refused"],
                self.reloads,
            ),
        ] {
            head(out, name, help, "counter");
            for (value, count) in values.iter().zip(counts) {
                line(out, name, &format!("{{{key}=\"{value}\"}}"), count as f64);
            }
        }
    }
}

type Read = fn(&ModelMetrics) -> f64;

/// Name, help, type, and reader of each value.
const VALUES: &[(&str, &str, &str, Read)] = &[
    ("vllm:num_requests_waiting", "Number of waiting requests.", "gauge", |m| m.waiting.get() as f64),
    ("vllm:num_requests_running", "Number of running requests.", "gauge", |m| m.running.get() as f64),
    (
        "vllm:kv_cache_usage_perc",
        "Share of the KV cache used by running requests, 0 to 1.",
        "gauge",
        ModelMetrics::kv_usage,
    ),
    ("vllm:prompt_tokens_total", "Number of prompt tokens.", "counter", |m| m.prompt_tokens.get() as f64),
    ("vllm:generation_tokens_total", "Tokens generated.", "counter", |m| m.generated_tokens.get() as f64),
    ("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", "counter", |m| {
        m.prefix_queries.get() as f64
    }),
    ("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", "counter", |m| {
        m.prefix_hits.get() as f64
    }),
    ("vllm:num_preemptions_total", "Number of preemptions.", "counter", |m| m.preemptions.get() as f64),
    ("leyden_kv_blocks", "Blocks of the KV cache.", "gauge", |m| m.kv_blocks.get() as f64),
    ("leyden_kv_blocks_held", "Blocks used by running requests.", "gauge", |m| m.kv_blocks_used.get() as f64),
    ("leyden_kv_blocks_kept", "Unused blocks in the prefix cache.", "gauge", |m| {
        m.kv_blocks_cached.get() as f64
    }),
    ("leyden_state_checkpoints", "Checkpoints of recurrent states kept for reuse.", "gauge", |m| {
        m.state_checkpoints.get() as f64
    }),
    ("leyden_steps_total", "Steps computed.", "counter", |m| m.steps.get() as f64),
    ("leyden_failed_steps_total", "Steps that failed.", "counter", |m| m.failed_steps.get() as f64),
    ("leyden_engine_restarts_total", "Engine restarts after a panic.", "counter", |m| {
        m.restarts.get() as f64
    }),
    ("leyden_guessed_tokens_total", "Draft tokens of speculative decoding.", "counter", |m| {
        m.guesses.get() as f64
    }),
    ("leyden_right_guesses_total", "Accepted draft tokens.", "counter", |m| m.right_guesses.get() as f64),
];

type Times = fn(&ModelMetrics) -> &Histogram;

const HISTOGRAMS: &[(&str, &str, Times)] = &[
    ("vllm:time_to_first_token_seconds", "Time from arrival to the first token.", |m| &m.first_token),
    ("vllm:inter_token_latency_seconds", "Time between two tokens of a request.", |m| &m.inter_token),
    ("vllm:time_per_output_token_seconds", "Same as inter_token_latency, under vLLM's older name.", |m| {
        &m.inter_token
    }),
    ("vllm:e2e_request_latency_seconds", "Time from arrival to the end.", |m| &m.end_to_end),
    ("vllm:request_queue_time_seconds", "Time from arrival to the first step.", |m| &m.queue),
    ("leyden_step_seconds", "Time of a step.", |m| &m.step),
];

/// Metrics of one worker, with the labels of their series.
pub(crate) struct Series<'a> {
    pub(crate) model: &'a str,
    /// Names of the model's LoRA adapters.
    pub(crate) adapters: &'a [String],
    /// The worker's index, if the model has several.
    pub(crate) engine: Option<usize>,
    pub(crate) metrics: &'a ModelMetrics,
}

impl Series<'_> {
    /// Returns the labels; the label of the worker's index has vLLM's name.
    fn labels(&self, more: &[(&str, &str)]) -> String {
        let model = escaped(self.model);
        let mut labels = format!("{{model_name=\"{model}\"");
        if let Some(engine) = self.engine {
            let _ = write!(labels, ",engine=\"{engine}\"");
        }
        for (key, value) in more {
            let _ = write!(labels, ",{key}=\"{value}\"");
        }
        labels.push('}');
        labels
    }
}

/// Figures of the whole server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerFigures {
    /// Numbers of models loaded and unloaded, and the bytes of those in memory.
    pub(crate) comings: (u64, u64, u64),
    pub(crate) lines_dropped: u64,
    /// `None` without TLS.
    pub(crate) tls: Option<TlsFigures>,
    /// Zeros without an audit log.
    pub(crate) audit: Figures,
    /// Number of spans: exported and dropped ones; `None` without traces.
    pub(crate) spans: Option<[u64; 2]>,
}

/// Returns the page for `/metrics`.
pub(crate) fn page(engines: &[Series<'_>], http: &HttpMetrics, server: &ServerFigures) -> String {
    let ServerFigures { comings, lines_dropped, tls, audit, spans } = *server;
    let mut out = String::new();
    for (name, help, kind, read) in VALUES {
        head(&mut out, name, help, kind);
        for one in engines {
            line(&mut out, name, &one.labels(&[]), read(one.metrics));
        }
    }
    for (name, help, key, names, of) in [
        ("vllm:request_success_total", "Finished requests by reason.", "finished_reason", &FINISHES[..], {
            let f: fn(&ModelMetrics, usize) -> u64 = |m, i| m.finished[i].get();
            f
        }),
        ("leyden_requests_refused_total", "Refused requests by reason.", "reason", &REFUSALS[..], |m, i| {
            m.refused[i].get()
        }),
    ] {
        head(&mut out, name, help, "counter");
        for one in engines {
            for (i, value) in names.iter().enumerate() {
                line(&mut out, name, &one.labels(&[(key, value)]), of(one.metrics, i) as f64);
            }
        }
    }
    for_gateways(&mut out, engines);
    promises(&mut out, engines);
    for (name, help, times) in HISTOGRAMS {
        head(&mut out, name, help, "histogram");
        for one in engines {
            histogram(&mut out, name, one, times(one.metrics));
        }
    }
    for (name, help, kind, value) in [
        ("leyden_model_loads_total", "Models loaded on demand.", "counter", comings.0),
        ("leyden_model_unloads_total", "Models unloaded to free memory or when idle.", "counter", comings.1),
        ("leyden_models_bytes", "Memory of on-demand models in bytes.", "gauge", comings.2),
    ] {
        head(&mut out, name, help, kind);
        line(&mut out, name, "", value as f64);
    }
    for (name, help, value) in [
        ("leyden_audit_records_total", "Records in the audit log.", audit.records as f64),
        ("leyden_audit_errors_total", "Records that could not be written.", audit.errors as f64),
        (
            "leyden_audit_wait_seconds_total",
            "Time that answers waited for the audit log.",
            audit.waited_seconds,
        ),
    ] {
        head(&mut out, name, help, "counter");
        line(&mut out, name, "", value);
    }
    head(&mut out, "leyden_http_responses_total", "Responses by status class.", "counter");
    for (i, class) in ["2xx", "3xx", "4xx", "5xx"].iter().enumerate() {
        let labels = format!("{{class=\"{class}\"}}");
        line(&mut out, "leyden_http_responses_total", &labels, http.responses[i].get() as f64);
    }
    head(&mut out, "leyden_http_connections", "Open connections.", "gauge");
    line(&mut out, "leyden_http_connections", "", http.connections.get() as f64);
    head(&mut out, "leyden_http_connections_total", "Connections accepted.", "counter");
    line(&mut out, "leyden_http_connections_total", "", http.connections_total.get() as f64);
    let refused = "leyden_http_connections_refused_total";
    head(&mut out, refused, "Connections refused by the connection limit.", "counter");
    line(&mut out, refused, "", http.connections_refused.get() as f64);
    let dropped = "leyden_log_lines_dropped_total";
    head(&mut out, dropped, "Log lines dropped because the reader was too slow.", "counter");
    line(&mut out, dropped, "", lines_dropped as f64);
    if let Some(tls) = tls {
        tls.write(&mut out);
    }
    if let Some(spans) = spans {
        let name = "leyden_trace_spans_total";
        head(&mut out, name, "Spans of traces.", "counter");
        for (value, count) in ["exported", "dropped"].iter().zip(spans) {
            line(&mut out, name, &format!("{{result=\"{value}\"}}"), count as f64);
        }
    }
    out
}

/// Writes the series of vLLM in which labels hold the values, which endpoint pickers of gateways read: the blocks of the KV cache,
/// and the LoRA adapters of models that have some. All adapters are in memory, so none waits.
fn for_gateways(out: &mut String, engines: &[Series<'_>]) {
    let name = "vllm:cache_config_info";
    head(out, name, "Tokens in a block of the KV cache, and number of blocks, as labels.", "gauge");
    for one in engines {
        let blocks = one.metrics.kv_blocks.get().to_string();
        let block = BLOCK_TOKENS.to_string();
        line(out, name, &one.labels(&[("block_size", &block), ("num_gpu_blocks", &blocks)]), 1.0);
    }
    let name = "vllm:lora_requests_info";
    head(out, name, "LoRA adapters, as labels; the value is the time in seconds since 1970.", "gauge");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    for one in engines.iter().filter(|one| !one.adapters.is_empty()) {
        let (count, names) = (one.adapters.len().to_string(), escaped(&one.adapters.join(",")));
        let labels =
            [("max_lora", &count[..]), ("running_lora_adapters", &names), ("waiting_lora_adapters", "")];
        line(out, name, &one.labels(&labels), now as f64);
    }
}

/// Returns a text as the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

type ReadFigure = fn(&Figure) -> Option<f64>;

/// Name, help and reader of each figure of a promise.
const FIGURES: &[(&str, &str, ReadFigure)] = &[
    ("leyden_slo_bound", "Promised bound in seconds, or in tokens per second.", |f| Some(f.bound.value)),
    ("leyden_slo_estimate", "Prediction for one more request, in the unit of the bound.", |f| f.estimate),
    ("leyden_slo_measured", "Percentile of the last 5 minutes, in the unit of the bound.", |f| f.measured),
    ("leyden_slo_values", "Number of values of the last 5 minutes.", |f| Some(f.count as f64)),
];

/// Writes the state of promises; engines without a promise have no series.
fn promises(out: &mut String, engines: &[Series<'_>]) {
    let figures: Vec<(&Series<'_>, Figure)> = engines
        .iter()
        .flat_map(|one| {
            let figures = service_level::figures([&one.metrics.service_level].into_iter());
            figures.into_iter().map(move |figure| (one, figure))
        })
        .collect();
    for (name, help, read) in FIGURES {
        head(out, name, help, "gauge");
        for (one, figure) in &figures {
            let metric = format!("{}_p{}", figure.metric, figure.bound.percentile);
            if let Some(value) = read(figure) {
                line(out, name, &one.labels(&[("metric", &metric)]), value);
            }
        }
    }
    let name = "leyden_slo_requests_total";
    head(
        out,
        name,
        "Requests under a promise by outcome; delayed ones are admitted ones that waited.",
        "counter",
    );
    for one in engines.iter().filter(|one| one.metrics.service_level.promise().is_some()) {
        let o = one.metrics.service_level.outlook();
        for (outcome, n) in [("admitted", o.admitted), ("delayed", o.delayed), ("refused", o.refused)] {
            line(out, name, &one.labels(&[("outcome", outcome)]), n as f64);
        }
    }
}

/// Returns the part of the page about the process; a value that the system does not report is left out.
pub(crate) fn process_part(resident_bytes: Option<u64>) -> String {
    let mut out = String::new();
    if let Some(bytes) = resident_bytes {
        let name = "process_resident_memory_bytes";
        head(&mut out, name, "Resident memory in bytes, mapped pages included.", "gauge");
        line(&mut out, name, "", bytes as f64);
    }
    out
}

// Writing to a string cannot fail.

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{labels} {value}");
}

fn histogram(out: &mut String, name: &str, of: &Series<'_>, h: &Histogram) {
    let mut sum = 0;
    for (i, count) in h.counts.iter().enumerate() {
        sum += count.load(Ordering::Relaxed);
        let bound = h.bounds.get(i).map_or_else(|| "+Inf".to_owned(), f64::to_string);
        let labels = of.labels(&[("le", &bound)]);
        line(out, &format!("{name}_bucket"), &labels, sum as f64);
    }
    let labels = of.labels(&[]);
    line(out, &format!("{name}_sum"), &labels, h.sum_ns.load(Ordering::Relaxed) as f64 * 1e-9);
    line(out, &format!("{name}_count"), &labels, sum as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative() {
        let m = ModelMetrics::default();
        for ms in [1, 5, 6, 2_000_000] {
            m.queue.observe(Duration::from_millis(ms));
        }
        let adapters = ["x".to_owned(), "y".to_owned()];
        m.kv_blocks.set(7);
        let one = Series { model: "a\"b", adapters: &adapters, engine: None, metrics: &m };
        let tls = TlsFigures { seconds_left: Some(-1.0), handshakes: [5, 2], reloads: [1, 0] };
        let figures = ServerFigures { tls: Some(tls), spans: Some([3, 4]), ..ServerFigures::default() };
        let page = page(&[one], &HttpMetrics::default(), &figures);
        for line in [
            "leyden_tls_certificate_expiry_seconds -1",
            "leyden_tls_handshakes_total{result=\"failed\"} 2",
            "leyden_tls_reloads_total{result=\"loaded\"} 1",
            "leyden_trace_spans_total{result=\"dropped\"} 4",
            "vllm:cache_config_info{model_name=\"a\\\"b\",block_size=\"64\",num_gpu_blocks=\"7\"} 1",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}: {page}");
        }
        let adapters = "max_lora=\"2\",running_lora_adapters=\"x,y\",waiting_lora_adapters=\"\"} 1";
        assert!(page.contains(adapters), "{page}");
        let value = |bound: &str| {
            let start =
                format!("vllm:request_queue_time_seconds_bucket{{model_name=\"a\\\"b\",le=\"{bound}\"}} ");
            page.lines().find_map(|l| l.strip_prefix(&start)).unwrap().to_owned()
        };
        assert_eq!([value("0.005"), value("0.01"), value("1000"), value("+Inf")], ["2", "3", "3", "4"]);
        assert!(page.contains("vllm:request_queue_time_seconds_sum{model_name=\"a\\\"b\"} 2000.012"));
        // Every name has a type, and no name appears twice.
        let names: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("# TYPE ")).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(names.len(), unique.len());
    }

    /// Dashboard and alerts name series and labels that `/metrics` has.
    #[test]
    fn dashboard_and_alerts_name_what_exists() {
        let m = ModelMetrics::default();
        let one = Series { model: "m", adapters: &[], engine: None, metrics: &m };
        let page = page(&[one], &HttpMetrics::default(), &ServerFigures::default()) + &process_part(Some(1));
        let is_series = |name: &str| {
            page.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        };
        let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let mut read = 0;
        for file in ["grafana/dashboards/leyden.json", "prometheus/leyden-alerts.yml"] {
            let text = std::fs::read_to_string(packaging.join(file)).unwrap();
            let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let words = text.split(|c| !inside(c));
            let begins = ["vllm:", "leyden_", "process_"];
            for name in words.filter(|word| begins.iter().any(|begin| word.starts_with(begin))) {
                assert!(is_series(name), "{file}: {name} is no series of /metrics");
                read += 1;
            }
            // Labels of Prometheus itself, and those of our series.
            for (label, _) in text.match_indices("{{").filter_map(|(at, _)| text[at + 2..].split_once("}}")) {
                let label = label.trim().trim_start_matches("$labels.");
                let is_known = label == "instance" || label.starts_with("$value") || {
                    page.contains(&format!("{{{label}=\"")) || page.contains(&format!(",{label}=\""))
                };
                assert!(is_known, "{file}: {label} is no label of /metrics");
            }
        }
        assert!(read > 60, "{read}");
    }
}
