//! Batches give the results of sessions, and iterators the events of closures.

use leyden::{
    BatchOptions, Error, Event, Finish, GenerateOptions, LoadOptions, Model, SessionOptions, StreamEvent,
};
use std::ops::ControlFlow;

const BEGINNING: &str = "There was once a miller who had three sons, and when he died he left the eldest his mill, the \
                         second his donkey and the third nothing but a cat. ";

fn prompts(model: &Model) -> Vec<Vec<u32>> {
    let ends = ["The eldest said", "The cat", "", "\"Miau\", said the cat, and looked at him", "Once"];
    ends.iter().map(|end| model.tokenize(&format!("{}{end}", BEGINNING.repeat(2))).unwrap()).collect()
}

#[test]
fn a_batch_answers_as_a_session_does() {
    let model = Model::embedded(&LoadOptions::default()).unwrap();
    let prompts = prompts(&model);
    let options = GenerateOptions::new().max_tokens(20).seed(9).stop("king").logprobs(2);
    let mut session = model.session(&SessionOptions::new()).unwrap();
    let mut wanted = Vec::new();
    for prompt in &prompts {
        wanted.push(session.generate(prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap());
    }
    // All at once; two at a time with a cache that makes them wait.
    let small = BatchOptions::new().context(256).cache_tokens(320).parallel(2);
    for options_of_batch in [BatchOptions::new(), small] {
        let mut batch = model.batch(&options_of_batch).unwrap();
        let answers = batch.generate(&prompts, &options).unwrap();
        for (answer, wanted) in answers.iter().zip(&wanted) {
            assert_eq!((&answer.text, &answer.tokens), (&wanted.text, &wanted.tokens));
            assert_eq!((answer.finish, &answer.logprobs), (wanted.finish, &wanted.logprobs));
        }
        assert!(answers.iter().map(|answer| answer.cached_tokens).sum::<usize>() >= 4 * 64);
        // Generated tokens have the same log probabilities when they are scored.
        let said: Vec<Vec<u32>> = prompts
            .iter()
            .zip(&answers)
            .map(|(prompt, answer)| [&prompt[..], &answer.tokens].concat())
            .collect();
        let scores = batch.score(&said, 2).unwrap();
        for ((scores, prompt), answer) in scores.iter().zip(&prompts).zip(&answers) {
            assert_eq!(scores[prompt.len() - 1..], answer.logprobs[..]);
        }
        // An error leaves no requests.
        let empty = [&prompts[0][..], &[]];
        assert!(matches!(batch.generate(&empty, &options), Err(Error::EmptyPrompt)));
        let again = batch.generate(&prompts[..1], &options).unwrap();
        assert_eq!(again[0].tokens, wanted[0].tokens);
    }
}

#[test]
fn vectors_do_not_depend_on_company() {
    let model = Model::embedded(&LoadOptions::default()).unwrap();
    let texts = ["A king.", "The fox ran into the wood.", &BEGINNING.repeat(6)];
    let together = model.embed(&texts).unwrap();
    for (text, vector) in texts.iter().zip(&together) {
        assert_eq!(model.embed(&[text]).unwrap()[0], *vector);
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let too_long = model.batch(&BatchOptions::new().context(64)).unwrap().embed(&[vec![5; 65]]);
    assert!(matches!(too_long, Err(Error::PromptTooLong { tokens: 65, context: 64 })));
}

#[test]
fn an_iterator_tells_what_a_closure_is_told() {
    let model = Model::embedded(&LoadOptions::default()).unwrap();
    // Longer than a step.
    let prompt = model.tokenize(&BEGINNING.repeat(18)).unwrap();
    assert!(prompt.len() > 512);
    let options = GenerateOptions::new().max_tokens(12).seed(4);
    let mut session = model.session(&SessionOptions::new()).unwrap();
    let mut told = Vec::new();
    let answer = session
        .generate(&prompt, &options, &mut |event| {
            told.push(match event {
                Event::Prompt(done, all) => format!("{done}/{all}"),
                Event::Text(text) => text.to_owned(),
            });
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(told.len() > 5 && told[0] == format!("512/{}", prompt.len()), "{told:?}");
    let mut other = model.session(&SessionOptions::new()).unwrap();
    let mut done = None;
    let streamed: Vec<String> = other
        .stream(&prompt, &options)
        .unwrap()
        .filter_map(|event| match event.unwrap() {
            StreamEvent::Prompt(done, all) => Some(format!("{done}/{all}")),
            StreamEvent::Text(text) => Some(text),
            StreamEvent::Done(answer) => {
                done = Some(answer);
                None
            }
            _ => None,
        })
        .collect();
    assert_eq!((&streamed, &done.unwrap().text), (&told, &answer.text));
    // An iterator dropped in the middle leaves a usable session.
    drop(other.stream(&prompt, &options).unwrap().nth(2));
    let again = other.generate(&prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((again.tokens, again.cached_tokens), (answer.tokens, prompt.len() - 1));
    let stopped = other.generate(&prompt, &options, &mut |event| match event {
        Event::Prompt(..) => ControlFlow::Continue(()),
        Event::Text(_) => ControlFlow::Break(()),
    });
    let stopped = stopped.unwrap();
    assert_eq!((stopped.finish, stopped.tokens.len()), (Finish::Cancelled, 1));
    let none = other.generate(&prompt, &options.max_tokens(0), &mut |_| ControlFlow::Break(())).unwrap();
    assert_eq!((none.finish, none.tokens.len()), (Finish::Length, 0));
}
