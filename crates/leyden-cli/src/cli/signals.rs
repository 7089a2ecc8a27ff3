//! Signals that end the program: temporary files go first.
//!
//! The server ends in order on its own, and a command that takes over Ctrl-C replaces what happens here on SIGINT.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Signals that end a program and can be caught.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Starts to wait for signals. Those that the program was started to ignore, as by `nohup`, stay ignored.
pub(super) fn watch() {
    let ignored = ignored();
    let heard = ENDING.iter().filter(|signal| ignored & (1 << (*signal - 1)) == 0);
    // Without it signals do what they do by default, and the next run removes what they leave.
    let Ok(mut signals) = Signals::new(heard) else { return };
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            leyden_files::remove_temporaries();
            let _ = emulate_default_handler(signal);
            // The first process of a container is not ended by that.
            std::process::exit(128 + signal);
        }
    };
    // The thread waits until the program ends.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

/// Ends the program at once, without its temporary files.
pub(super) fn exit(code: u8) -> ! {
    leyden_files::remove_temporaries();
    std::process::exit(i32::from(code))
}

/// Signals that are ignored: bit N - 1 for signal N. Where the system does not say, only SIGHUP, which ends a program that was
/// meant to outlive its terminal.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(1 << (SIGHUP - 1))
}
