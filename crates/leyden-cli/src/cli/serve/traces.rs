//! Traces of `leyden serve`: the options of the exporter.

use std::path::PathBuf;
use std::sync::Arc;

use leyden_otlp::{Authorities, Endpoint, Exporter, Options};
use leyden_server::Traces;

use crate::cli::failure::Failure;
use crate::cli::notes::Notes;

/// Options of traces.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TraceOptions {
    /// Collector of OpenTelemetry to which traces of requests are sent (OTLP over HTTP), such as http://127.0.0.1:4318
    #[arg(long, visible_alias = "otlp-traces-endpoint", value_name = "URL")]
    otlp_endpoint: Option<Endpoint>,
    /// Header of the messages to the collector, such as credentials; may be repeated. Other users of this machine can
    /// read command lines, so prefer the variable LEYDEN_OTLP_HEADER
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', hide_env_values = true, value_parser = header)]
    otlp_header: Vec<(String, String)>,
    /// PEM file with the authorities of the collector, instead of the system's
    #[arg(long, value_name = "FILE")]
    otlp_ca_file: Option<PathBuf>,
    /// Fraction of requests that are traced, 0 to 1; a `traceparent` of the caller goes before
    #[arg(long, value_name = "RATIO", default_value_t = 1.0, value_parser = ratio)]
    otlp_sample: f64,
    /// Name of this service in traces
    #[arg(long, value_name = "NAME", default_value = "leyden")]
    otlp_service: String,
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

impl TraceOptions {
    /// Starts the exporter; `None` without an endpoint.
    pub(super) fn start(&self, notes: Notes) -> Result<Option<Traces>, Failure> {
        let Some(endpoint) = self.otlp_endpoint.clone() else { return Ok(None) };
        let options = Options {
            endpoint,
            headers: self.otlp_header.clone(),
            authorities: self.otlp_ca_file.clone().map_or(Authorities::System, Authorities::File),
            resource: vec![
                ("service.name", self.otlp_service.as_str().into()),
                ("service.version", env!("CARGO_PKG_VERSION").into()),
            ],
            report: Box::new(move |what| notes.say(what)),
        };
        let exporter = Exporter::start(options).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Some(Traces { exporter: Arc::new(exporter), ratio: self.otlp_sample }))
    }
}
