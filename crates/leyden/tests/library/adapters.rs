//! LoRA adapters: at the start and by answer, several at the same time.

use leyden::{AdapterSet, BatchOptions, GenerateOptions, LoadOptions, Model, SessionOptions};
use std::ops::ControlFlow;
use std::sync::Arc;

const TEXT: &str = "There was once a miller who had three sons, and when he died he left the eldest his mill, the second his \
                    donkey and the third nothing but a cat. The youngest took the cat under his arm, and said to himself that \
                    he would have to starve when he had eaten it, and made a muff of its skin. But the cat, who had heard \
                    every word of it, looked at him and said:";

#[test]
fn every_answer_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let paths = [1, 2].map(|seed| {
        let path = folder.path().join(seed.to_string());
        leyden_testkit::storyteller_adapter(&path, seed).unwrap();
        path
    });
    let model = Model::embedded(&LoadOptions::new()).unwrap();
    assert!(model.adapters().is_empty() && model.adapter_set().is_empty());
    let [one, two] = paths.each_ref().map(|path| model.adapter(path).unwrap());
    let set = |of: &[(&Arc<leyden::Adapter>, f32)]| {
        AdapterSet::new(of.iter().map(|(adapter, scale)| (Arc::clone(adapter), *scale))).unwrap()
    };
    let sets = [set(&[]), set(&[(&one, 1.0)]), set(&[(&two, 1.0)]), set(&[(&one, 0.5), (&two, 0.5)])];
    let options =
        sets.clone().map(|set| GenerateOptions::new().max_tokens(12).temperature(0.0).adapters(set));
    let prompt = model.tokenize(TEXT).unwrap();
    assert!(prompt.len() > 64);
    // Each in a session of its own, and all in turns in one session.
    let mut session = model.session(&SessionOptions::new()).unwrap();
    let mut wanted = Vec::new();
    for options in &options {
        let answer = session.generate(&prompt, options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(answer.cached_tokens, 0);
        let mut own = model.session(&SessionOptions::new()).unwrap();
        let again = own.generate(&prompt, options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(again.tokens, answer.tokens);
        let again = own.generate(&prompt, options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((again.cached_tokens, &again.tokens), (prompt.len() - 1, &answer.tokens));
        wanted.push(answer.tokens);
    }
    for (i, tokens) in wanted.iter().enumerate() {
        assert!(wanted[..i].iter().all(|other| other != tokens), "{i}");
    }
    // All at the same time; the second time each finds its own cached prefix.
    let mut batch = model.batch(&BatchOptions::new()).unwrap();
    let prompts: Vec<(&[u32], &GenerateOptions)> =
        options.iter().map(|options| (&prompt[..], options)).collect();
    for cached in [0, 64] {
        let answers = batch.generate_each(&prompts).unwrap();
        for (answer, wanted) in answers.iter().zip(&wanted) {
            assert_eq!(answer.tokens, *wanted);
            assert_eq!(answer.cached_tokens.min(64), cached);
        }
    }

    let opened = Model::embedded(&LoadOptions::new().lora(&paths[0], 0.5).lora(&paths[1], 0.5)).unwrap();
    assert_eq!(opened.adapters()[0].path(), paths[0]);
    let plain = GenerateOptions::new().max_tokens(12).temperature(0.0);
    let mut session = opened.session(&SessionOptions::new()).unwrap();
    let answer = session.generate(&prompt, &plain, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(answer.tokens, wanted[3]);
    let without = plain.clone().adapters(AdapterSet::default());
    let answer = session.generate(&prompt, &without, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(answer.tokens, wanted[0]);
    assert_eq!(
        opened.batch(&BatchOptions::new()).unwrap().generate(&[&prompt], &plain).unwrap()[0].tokens,
        wanted[3]
    );

    // Scores and vectors follow the model's adapters, or the batch's.
    let score = |batch: leyden::Batch| -> f32 {
        let mut batch = batch;
        batch.score(&[&prompt], 0).unwrap()[0].iter().map(|token| token.logprob).sum()
    };
    let plain = score(model.batch(&BatchOptions::new()).unwrap());
    let adapted = score(opened.batch(&BatchOptions::new()).unwrap());
    let same = score(model.batch(&BatchOptions::new()).unwrap().with_adapters(sets[3].clone()));
    assert!((adapted - same).abs() == 0.0 && (adapted - plain).abs() > 0.1, "{plain} {adapted} {same}");
    assert!(opened.embed(&[TEXT]).unwrap() != model.embed(&[TEXT]).unwrap());

    let absent = Model::embedded(&LoadOptions::new().lora(folder.path().join("absent"), 1.0)).unwrap_err();
    assert!(absent.to_string().contains("absent"), "{absent}");
}
