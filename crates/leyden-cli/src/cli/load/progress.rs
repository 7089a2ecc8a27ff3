//! Progress bar of a load on a terminal, and processor use of the load generator.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_load::{Control, Progress, Run, Target, Workload};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::cli::failure::Failure;

/// Progress bar of a run, shown if standard error is a terminal.
#[derive(Debug)]
pub(super) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    pub(super) fn new(workload: &Workload) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {elapsed}") {
            bar.set_style(style);
        }
        match (workload.duration, workload.requests) {
            (Some(duration), _) => bar.set_length(millis(workload.warmup + workload.ramp + duration)),
            (None, Some(requests)) => bar.set_length(requests),
            // The duration of a trace is that of its arrivals.
            (None, None) => bar.set_length(1),
        }
        Self { bar }
    }

    fn show(&self, workload: &Workload, what: &str, progress: &Progress) {
        let Progress { elapsed, running, completed, failed } = *progress;
        match (workload.duration, workload.requests) {
            (None, Some(_)) => self.bar.set_position(completed + failed),
            (None, None) => {}
            _ => self.bar.set_position(millis(elapsed)),
        }
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        self.bar.set_message(format!("{what}{running} in flight, {completed} complete{failed}"));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Resets the bar for another run of the same duration.
    pub(super) fn again(&self) {
        self.bar.reset();
    }

    /// Calls `print` while the bar is hidden.
    pub(super) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Processor use of the load generator, which may share the machine with the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generator {
    /// Processor time in seconds.
    cpu: f64,
    /// Elapsed time in seconds.
    wall: f64,
}

impl Generator {
    /// Returns the average number of busy processors.
    pub(super) fn share(&self) -> f64 {
        self.cpu / self.wall.max(1e-9)
    }

    pub(super) fn json(&self) -> Value {
        json!({ "cpu_s": self.cpu, "wall_s": self.wall, "cpus": self.share() })
    }
}

/// Runs a workload with the bar, whose message begins with `what`.
pub(super) fn measured(
    target: &Target,
    workload: &Workload,
    control: &Control,
    bar: &Bar,
    what: &str,
) -> Result<(Run, Generator), Failure> {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let run =
        leyden_load::run(target, workload, control, &mut |progress| bar.show(workload, what, progress))?;
    Ok((run, Generator { cpu: cpu_seconds() - cpu, wall: wall.elapsed().as_secs_f64() }))
}

/// Returns the processor time of this process in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
