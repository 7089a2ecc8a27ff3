//! Invariance of texts: prompt and seed determine them, with any number of threads, cached or not.

use leyden::{GenerateOptions, LoadOptions, Model, SessionOptions};
use std::ops::ControlFlow;

#[test]
fn the_same_seed_writes_the_same_text() {
    let options = |seed| GenerateOptions::new().max_tokens(40).seed(seed);
    let mut texts = Vec::new();
    for threads in [1, 2, 3, 8] {
        let model = Model::embedded(&LoadOptions::new().threads(threads)).unwrap();
        let prompt = model.tokenize("The old king had three").unwrap();
        let mut session = model.session(&SessionOptions::default()).unwrap();
        let mut write = |seed| {
            session.generate(&prompt, &options(seed), &mut |_| ControlFlow::Continue(())).unwrap().text
        };
        let first = write(7);
        assert_ne!(first, write(8), "seeds differ");
        // Now the prompt is in the cache.
        assert_eq!(first, write(7));
        texts.push(first);
    }
    assert!(texts.windows(2).all(|w| w[0] == w[1]), "{texts:?}");
}
