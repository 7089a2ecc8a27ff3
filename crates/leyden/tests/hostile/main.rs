//! Damaged and absurd model files through all stages: file, tokenizer, chat template, weights, cache, two steps and two
//! sampled tokens. Each is answered or refused with a message that names file and place, without a panic, in bounded
//! time and memory.
//!
//! The tests of this file share a lock, because the memory that they measure is that of the whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod absurd;
mod bytes;
mod judge;
mod model;
mod values;

use judge::Tally;
use std::sync::{Mutex, PoisonError};

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn damaged_models_are_answered_or_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tally = Tally::new();
    for wide in [false, true] {
        let parts = model::llama(wide);
        let file = parts.file().unwrap();
        for kv_type in 0..3 {
            // Heads of 16 values do not fit the type of the third case.
            let result = tally.judge("the model itself", file.clone());
            assert_eq!(result.is_ok(), wide || kv_type < 2, "{result:?}");
        }
        bytes::mutate(&mut tally, &file, wide);
        values::mutate(&mut tally, &parts, wide);
    }
    eprintln!(
        "{} damaged models: {} answered, {} refused; slowest {:?}; at most {} KiB of heap, {:.1} times the file",
        tally.cases,
        tally.answered,
        tally.cases - tally.answered,
        tally.slowest,
        tally.most >> 10,
        tally.times,
    );
    assert!(tally.made >= 20_000);
    let (made, refused) = (tally.made, tally.cases - tally.answered);
    assert!(leyden_testkit::emulated() || tally.cases >= made);
    assert!(tally.answered >= tally.cases / 12 && refused >= tally.cases / 3, "both outcomes are common");
}

#[test]
fn absurd_sizes_take_no_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    absurd::run(&mut Tally::new());
}
