//! `leyden run` with LoRA adapters.

use crate::program::{Files, leyden};

#[test]
fn adapters_change_what_is_said_by_their_scale() {
    let files = Files::new();
    let [one, two] = ["one", "two"].map(|name| files.path(name));
    leyden_testkit::storyteller_adapter(one.as_ref(), 1).unwrap();
    leyden_testkit::storyteller_adapter(two.as_ref(), 2).unwrap();
    let story = |flags: &[&str]| {
        let run = leyden(&[&["run", "The king", "-n", "12", "--temp", "0"], flags].concat());
        assert_eq!(run.code, Some(0), "{run:?}");
        run.out
    };
    let plain = story(&[]);
    let adapted = story(&["--lora", &one]);
    assert_ne!(adapted, plain);
    assert_eq!(story(&["--lora-scaled", &format!("{one}:1")]), adapted);
    assert_eq!(story(&["--lora-scaled", &format!("{one}:0")]), plain);
    let both = story(&["--lora", &one, "--lora", &two]);
    assert_eq!(story(&["--lora", &format!("{one},{two}")]), both);
    assert!(both != adapted && both != plain);
    let refused = leyden(&["run", "The king", "--lora", &files.path("absent")]);
    assert!(refused.code == Some(1) && refused.err.contains("absent"), "{refused:?}");
    let refused = leyden(&["run", "The king", "--lora-scaled", &one]);
    assert!(refused.code == Some(2) && refused.err.contains("want FILE:SCALE"), "{refused:?}");
}
