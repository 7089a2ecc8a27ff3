//! Several teams of threads on one copy of the weights, and teams with other threads for prefill than for decode.

use leyden::{GenerateOptions, LoadOptions, Model, Replicas, SessionOptions};
use std::ops::ControlFlow;

#[test]
fn replicas_and_uneven_teams_write_the_same_text() {
    let options = GenerateOptions::new().max_tokens(40);
    let texts = |threads, threads_batch, replicas| -> Vec<Vec<u32>> {
        let load = LoadOptions::new().threads(threads).threads_batch(threads_batch).replicas(replicas);
        let model = Model::embedded(&load).unwrap();
        let prompt = model.tokenize("The old king had three sons, and the youngest of them").unwrap();
        let write = |replica| {
            let mut session = model.session_on(replica, &SessionOptions::default()).unwrap();
            session.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap().tokens
        };
        let all = 0..model.replicas().len();
        assert!(model.session_on(all.end, &SessionOptions::default()).is_err());
        std::thread::scope(|scope| {
            let write = &write;
            let threads: Vec<_> = all.map(|replica| scope.spawn(move || write(replica))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    let want = texts(Some(1), None, Replicas::Count(1)).remove(0);
    for (threads, batch) in [(None, None), (Some(1), Some(3)), (Some(3), Some(1)), (None, Some(2))] {
        for (replicas, count) in [(Replicas::Count(1), 1), (Replicas::Count(2), 2), (Replicas::Count(5), 5)] {
            assert_eq!(texts(threads, batch, replicas), vec![want.clone(); count], "{threads:?} {batch:?}");
        }
    }
    assert!(texts(None, None, Replicas::Auto).iter().all(|text| *text == want));
}
