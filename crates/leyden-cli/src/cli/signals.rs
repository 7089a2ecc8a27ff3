//! Signals that end the program: temporary files are removed first.
//!
//! The server handles signals itself, and commands with an own handler for Ctrl-C replace the one here for SIGINT.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Signals that end a program and can be caught.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Starts a thread that waits for signals. Signals ignored at the start of the program, as by `nohup`, stay ignored.
pub(super) fn watch() {
    let ignored = ignored();
    let heard = ENDING.iter().filter(|signal| ignored & (1 << (*signal - 1)) == 0);
    // Without the thread, signals have their default effect, and the next run removes the temporary files.
    let Ok(mut signals) = Signals::new(heard) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            leyden_files::remove_temporaries();
            let _ = emulate_default_handler(signal);
            // The first process of a container is not ended by a signal's default effect.
            std::process::exit(128 + signal);
        }
    };
    // The thread runs until the program ends.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

/// Removes the temporary files and ends the program at once.
pub(super) fn exit(code: u8) -> ! {
    leyden_files::remove_temporaries();
    std::process::exit(i32::from(code))
}

/// Returns the ignored signals: bit N - 1 for signal N. If the system does not report them, SIGHUP alone: ending on
/// SIGHUP would end programs that should outlive their terminal.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(1 << (SIGHUP - 1))
}
