//! Whole runs against correct and misbehaving servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod misbehaving;
mod runs;
mod secure;
mod server;

use std::time::Duration;

use leyden_load::{
    Arrivals, Ask, Authorities, Class, Control, Error, Lengths, Pause, Record, Run, Summary, Target,
    Workload, run,
};
use server::Server;

/// Long enough for any machine; reached only if something hangs.
const LONG: Duration = Duration::from_secs(600);

/// Returns a target with the default settings.
fn target(server: &Server, ask: Ask) -> Result<Target, Error> {
    let base = server.url().parse().unwrap();
    let server = leyden_load::Server::new(base, None, &Authorities::System)?;
    Target::find(server, None, ask, LONG, &Control::default())
}

/// Returns a workload of this many requests.
fn workload(users: u32, requests: u64) -> Workload {
    Workload {
        arrivals: Arrivals::Users(users, Pause::default()),
        prompt: Lengths::Uniform(20, 60),
        output: Lengths::Uniform(2, 6),
        prefix: None,
        duration: None,
        least: 0,
        requests: Some(requests),
        warmup: Duration::ZERO,
        ramp: Duration::ZERO,
        drain: LONG,
        timeout: LONG,
        retry: false,
        seed: 9,
    }
}

/// Runs a workload to its end.
fn finish(target: &Target, workload: &Workload) -> Run {
    run(target, workload, &Control::default(), &mut |_| {}).unwrap()
}

/// Returns the classes and messages of failed requests.
fn failures(run: &Run) -> Vec<(Class, String)> {
    let failed = run.records.iter().filter_map(|record| record.fail.as_ref());
    failed.map(|fail| (fail.class, fail.message.clone())).collect()
}
