//! Progress of a pull: a bar on a terminal, occasional lines elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_hub::Event;

use crate::cli::notes::Notes;
use crate::cli::text::{bytes, plural, printable};

/// Time between two lines about the same file.
const PACE: Duration = Duration::from_secs(10);

/// Display of the events of one pull.
#[derive(Debug)]
pub(super) struct Progress {
    /// Bar on a terminal; `None` elsewhere.
    bar: Option<ProgressBar>,
    notes: Notes,
    /// Bytes of complete files.
    done: u64,
    file: String,
    file_bytes: u64,
    spoke: Instant,
}

impl Progress {
    pub(super) fn new(notes: Notes) -> Self {
        let bar = (io::stderr().is_terminal() && !notes.is_quiet()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = "{wide_msg} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}\n{wide_bar}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, notes, done: 0, file: String::new(), file_bytes: 0, spoke: Instant::now() }
    }

    pub(super) fn hear(&mut self, event: &Event<'_>) {
        match *event {
            Event::Waiting => self.say("waiting for another pull of this repository"),
            Event::Chosen { file, of } => {
                self.say(&format!(
                    "{}: chosen from {of}; add :QUANTISATION to the name to choose another",
                    printable(file, 200)
                ));
            }
            Event::Plan { files, bytes: total } => match &self.bar {
                Some(bar) => bar.set_length(total),
                None => self.say(&format!("{}, {}", plural(files, "file"), bytes(total))),
            },
            Event::Check { path, bytes } => self.begin("checking", path, bytes),
            Event::Download { path, bytes } => self.begin("downloading", path, bytes),
            Event::At { bytes: at } => self.at(at),
            Event::Done { bytes, .. } => {
                self.done += bytes;
                self.at(0);
            }
            Event::Retry { error, wait } => {
                self.say(&format!("{error}; retrying in {} s", wait.as_secs_f32().ceil()));
            }
            Event::StartOver { path } => {
                self.say(&format!("{}: wrong checksum; downloading it again", printable(path, 200)));
            }
            _ => {}
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn begin(&mut self, verb: &str, path: &str, size: u64) {
        self.file = printable(path, 200);
        self.file_bytes = size;
        self.spoke = Instant::now();
        match &self.bar {
            Some(bar) => bar.set_message(format!("{verb} {}", self.file)),
            None => self.say(&format!("{verb} {} ({})", self.file, bytes(size))),
        }
    }

    fn at(&mut self, at: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(self.done.saturating_add(at)),
            None if at > 0 && self.spoke.elapsed() >= PACE => {
                self.spoke = Instant::now();
                self.say(&format!("{}: {} of {}", self.file, bytes(at), bytes(self.file_bytes)));
            }
            None => {}
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => self.notes.say(line),
        }
    }
}
