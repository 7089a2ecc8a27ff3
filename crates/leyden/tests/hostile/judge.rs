//! [`Tally`]: runs a file from opening to a chosen token, and checks the result.

use leyden_testkit::emulated;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leyden::{Error, GenerateOptions, KvType, LoadOptions, Message, Model, SessionOptions};
use peak_alloc::PeakAlloc;
use std::ops::ControlFlow;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Limit of a case's heap: this many times the size of the file ...
const TIMES: usize = 20;
/// ... plus this, of which a chat template may use 16 MiB for any messages.
const CONSTANT: usize = 20 << 20;
/// Returns the time limit of a case on a busy machine; an emulator takes tens of times as long.
fn limit() -> Duration {
    Duration::from_secs(if emulated() { 500 } else { 5 })
}

/// Under an emulator one in so many damaged files is judged: it takes twenty times as long, and keeps some hundred KiB
/// for every ended thread, of which a case has one. The results do not depend on the processor.
const EMULATED_EVERY: u32 = 80;

/// Name of every file in errors.
pub(crate) const FILE: &str = "damaged.gguf";

#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Damaged files that were made.
    pub(crate) made: u32,
    pub(crate) cases: u32,
    pub(crate) answered: u32,
    pub(crate) slowest: Duration,
    pub(crate) most: usize,
    pub(crate) times: f64,
    /// Running case and its start, for the watchdog.
    running: Arc<Mutex<Option<(String, Instant)>>>,
}

/// Location of the last panic. The hook prints nothing: each case is reported once, by its name.
static PANIC: Mutex<String> = Mutex::new(String::new());

impl Tally {
    /// Returns a tally whose panics are silent and whose hangs end the process with the name of the case.
    pub(crate) fn new() -> Tally {
        std::panic::set_hook(Box::new(|info| {
            if let Ok(mut last) = PANIC.lock() {
                *last = info.to_string();
            }
            if std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("damaged") || name.starts_with("absurd"))
            {
                eprintln!("{info}");
            }
        }));
        let tally = Tally::default();
        let running = Arc::downgrade(&tally.running);
        std::thread::spawn(move || {
            while let Some(running) = running.upgrade() {
                if let Ok(case) = running.lock()
                    && let Some((name, since)) = &*case
                    && since.elapsed() > 6 * limit()
                {
                    eprintln!("{name}: does not end");
                    std::process::abort();
                }
                drop(running);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        tally
    }

    fn run<T>(&mut self, name: &str, work: impl FnOnce() -> T) -> (T, Duration) {
        let start = Instant::now();
        *self.running.lock().unwrap() = Some((name.to_owned(), start));
        let result = catch_unwind(AssertUnwindSafe(work));
        let took = start.elapsed();
        *self.running.lock().unwrap() = None;
        match result {
            Ok(result) => (result, took),
            Err(_) => panic!("{name}: panicked: {}", PANIC.lock().unwrap()),
        }
    }

    /// Judges a damaged file; under an emulator one in [`EMULATED_EVERY`].
    pub(crate) fn sample(&mut self, name: &str, bytes: Vec<u8>) {
        self.made += 1;
        if !emulated() || self.made.is_multiple_of(EMULATED_EVERY) {
            let _ = self.judge(name, bytes);
        }
    }

    /// Judges a file; returns the output that the program would print.
    pub(crate) fn judge(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), String> {
        let n_bytes = bytes.len();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let case = self.cases;
        self.cases += 1;
        let (result, took) = self.run(name, || answer(bytes, case));
        let extra = MEMORY.peak_usage().saturating_sub(before);
        assert!(extra <= CONSTANT + TIMES * n_bytes, "{name}: {extra} bytes for a file of {n_bytes}");
        assert!(took < limit(), "{name}: {took:?}");
        self.slowest = self.slowest.max(took);
        self.most = self.most.max(extra);
        self.times = self.times.max(extra as f64 / n_bytes.max(1) as f64);
        match result {
            Ok(()) => {
                self.answered += 1;
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.len() < 700, "{name}: a message of {} bytes: {text}", text.len());
                // The prompt is the test's own. For everything else: the file, and where in it.
                let own = matches!(error, Error::PromptTooLong { .. } | Error::EmptyPrompt);
                let named = text.strip_prefix(FILE).and_then(|rest| rest.strip_prefix(": "));
                let place = named.and_then(|rest| rest.split_once(": "));
                assert!(own || place.is_some(), "{name}: names no place: {text}");
                Err(text)
            }
        }
    }
}

/// Runs a file through all stages: file, tokenizer, template, weights, cache, two steps, two sampled tokens.
fn answer(bytes: Vec<u8>, case: u32) -> Result<(), Error> {
    let model = Model::from_bytes(bytes, FILE, &LoadOptions::new().threads(1))?;
    let kv_type = KvType::ALL[case as usize % KvType::ALL.len()];
    let mut session = model.session(&SessionOptions::new().kv_type(kv_type))?;
    let prompt = model.tokenize_chat(&[Message::new("user", "hello, wörld <|end|>\n")])?;
    let temperature = (case % 2) as f32;
    let options = GenerateOptions::new().max_tokens(2).temperature(temperature);
    let answer = session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(()))?;
    assert!(answer.tokens.len() <= 2 && answer.prompt_tokens == prompt.len());
    Ok(())
}
