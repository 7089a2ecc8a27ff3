//! Processor time of an idle process with a model, and memory of a second replica. The tests have a binary of their
//! own, because the operating system accounts for whole processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use leyden::{GenerateOptions, LoadOptions, Model, Replicas, Session, SessionOptions};
use leyden_kernels::attention::KvType;
use rustix::time::{ClockId, clock_gettime};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Locks the process for one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(model: &Model, session: &mut Session) -> Vec<u32> {
    let prompt = model.tokenize("The old king had three sons").unwrap();
    let options = GenerateOptions::new().max_tokens(60);
    session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap().tokens
}

/// Returns the processor time of all threads.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

#[test]
fn an_idle_engine_uses_no_processor() {
    let _alone = alone();
    let load = LoadOptions::new().threads(2).threads_batch(4);
    let model = Model::embedded(&load).unwrap();
    let mut session = model.session(&SessionOptions::default()).unwrap();
    write(&model, &mut session);
    // Threads spin for microseconds before they sleep.
    std::thread::sleep(Duration::from_millis(50));
    let (before, pause) = (processor_time(), Duration::from_secs(1));
    std::thread::sleep(pause);
    let used = processor_time() - before;
    assert!(used < pause / 200, "{used:?} of processor time in {pause:?} without work");
}

/// Returns the bytes of memory that belongs to no file.
fn anonymous_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10)
}

#[test]
fn a_second_replica_adds_keys_values_and_workspace_alone() {
    let _alone = alone();
    let load = LoadOptions::new().threads(1).replicas(Replicas::Count(2));
    let model = Model::embedded(&load).unwrap();
    let mut first = model.session_on(0, &SessionOptions::default()).unwrap();
    let want = write(&model, &mut first);
    let Some(before) = anonymous_memory() else {
        // Not `eprintln!`, whose output is captured in a passing test.
        let _ = writeln!(std::io::stderr(), "skipped: the kernel does not say RssAnon");
        return;
    };
    let mut second = model.session_on(1, &SessionOptions::default()).unwrap();
    assert_eq!(write(&model, &mut second), want);
    let grown = anonymous_memory().unwrap().saturating_sub(before);
    let kept = model.network().kv_shape(KvType::default()).unwrap().token_bytes() * second.context();
    let weights = model.network().weight_bytes();
    // Workspaces of a short prompt are small relative to the smallest model.
    assert!(
        grown < kept + weights / 4,
        "{grown} bytes more, of {kept} for keys and values; {weights} of weights"
    );
}
