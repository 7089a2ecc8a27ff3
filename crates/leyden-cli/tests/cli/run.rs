//! `leyden run` with the embedded model: one answer.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{
    Files, Run, STORYTELLER, command, leyden, leyden_with_input, storyteller_with_template,
};

/// The answer of a run that must have succeeded, without the line break that ends it; standard error holds notes.
#[track_caller]
fn text(run: Run) -> String {
    assert_eq!(run.code, Some(0), "{run:?}");
    let mut out = run.out;
    out.truncate(out.strip_suffix('\n').unwrap_or(&out).len());
    out
}

#[test]
fn a_prompt_is_continued() {
    let run = leyden(&["run", "Once upon a time", "-n", "12", "--temp", "0"]);
    assert!(!run.err.contains("first token"), "{}", run.err);
    let run = leyden(&["run", "Once upon a time", "-n", "12", "--temp", "0", "--verbose"]);
    for part in
        ["toy", "leyden run smollm2", "load ", "first token ", "prefill ", "decode 11 tokens", "peak memory "]
    {
        assert!(run.err.contains(part), "{part}\n{}", run.err);
    }
    let out = text(run);
    assert!(out.split_whitespace().count() >= 4 && !out.contains("<|"), "{out:?}");
    let again = leyden(&["run", "--prompt", "Once upon a time", "--n-predict", "12", "--temp", "0"]);
    assert!(again.out.ends_with('\n'));
    assert_eq!(text(again), out);
    let piped = leyden_with_input(&["run", "-n", "12", "--temp", "0"], b"Once upon a time\n");
    assert_eq!(text(piped), out);
}

#[test]
fn files_and_piped_text_go_before_the_prompt() {
    let files = Files::new();
    let file = files.add("king.txt", b"The king\n");
    let flags = ["-n", "4", "--temp", "0", "--json"];
    let tokens = |run: Run| serde_json::from_str::<serde_json::Value>(&text(run)).unwrap()["tokens"].clone();
    let with = |args: &[&str], input: &[u8]| tokens(leyden_with_input(&[args, &flags[..]].concat(), input));
    let whole = |prompt: &str| tokens(leyden(&[&["run", "--prompt", prompt], &flags[..]].concat()));
    assert_eq!(with(&["run", "had a son"], b"The king\n"), whole("The king\n\nhad a son"));
    assert_eq!(with(&["run", "had a son", "-f", &file], b"Once\n"), whole("Once\n\nThe king\n\nhad a son"));
    assert_eq!(with(&["run", "-f", &file, "-f", "-"], b"Once"), whole("The king\n\nOnce"));
    assert_eq!(with(&["run", "had a son"], b""), whole("had a son"));
    assert_eq!(with(&["run", "--raw", "had a son"], b"The king\n"), whole("The king\nhad a son"));
    let absent = files.path("absent.txt");
    let err = leyden(&["run", "had a son", "-f", &absent]);
    assert!(err.code == Some(1) && err.err.contains("absent.txt: cannot read"), "{err:?}");
}

#[test]
fn options_of_other_programs_work_or_are_answered() {
    let story = |flags: &[&str]| text(leyden(&[&["run", "The king"], flags].concat()));
    let wanted = story(&["--seed", "7", "--max-tokens", "8", "--ctx", "64"]);
    assert_eq!(story(&["-s", "7", "-n", "8", "-c", "64", "-ngl", "99", "-fa", "on", "--jinja"]), wanted);
    assert_eq!(story(&["--seed", "7", "--n-predict", "8", "--ctx-size", "64", "--no-mmap"]), wanted);
    let unbounded = ["--ctx", "16", "--temp", "0", "--seed", "-1"];
    assert_eq!(story(&[&["-n", "-1"], &unbounded[..]].concat()), story(&unbounded));
    assert_eq!(
        text(leyden(&["run", "-m", STORYTELLER, "-sys", "Once", "-p", "upon", "-n", "4", "-s", "1"])),
        text(leyden(&["run", STORYTELLER, "upon", "--system", "Once", "-n", "4", "--seed", "1"]))
    );
    let note = leyden(&["run", "The king", "-n", "1", "-ngl", "99"]).err;
    assert!(note.starts_with("note: -ngl is ignored: leyden runs on CPUs only\n"), "{note}");
    let err = leyden(&["run", STORYTELLER, "--port", "80"]).failed(2);
    let hint = "hint: use leyden serve MODEL --host HOST --port PORT\n";
    assert_eq!(err, format!("error: leyden run has no option --port\n{hint}"));
}

#[test]
fn quiet_is_quiet() {
    let run = leyden(&["run", "The king", "-n", "4", "-q", "-ngl", "1"]);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

#[test]
fn the_seed_decides_the_text() {
    let story = |seed: &str, threads: &str| {
        text(leyden(&["run", "The king", "-n", "24", "--seed", seed, "--threads", threads]))
    };
    let first = story("7", "1");
    for threads in ["2", "3", "8"] {
        assert_eq!(story("7", threads), first, "{threads} threads");
    }
    assert_ne!(story("8", "2"), first);
}

#[test]
fn every_sampling_step_runs_and_the_seed_still_decides() {
    let flags = [
        "--samplers",
        "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
        "--typical",
        "0.9",
        "--top-nsigma",
        "2",
        "--dry-multiplier",
        "0.8",
        "--dry-sequence-breaker",
        r"\n",
        "--xtc-probability",
        "0.5",
        "--xtc-threshold",
        "0.05",
        "--dynatemp-range",
        "0.3",
        "--dynatemp-exp",
        "1.2",
        "--repeat-penalty",
        "1.1",
    ];
    let story =
        |flags: &[&str]| text(leyden(&[&["run", "The king", "-n", "24", "--seed", "7"], flags].concat()));
    let plain = story(&[]);
    assert_ne!(story(&flags), plain);
    assert_eq!(story(&flags), story(&flags));
    for version in ["1", "2"] {
        let mirostat = ["--mirostat", version, "--mirostat-ent", "3", "--mirostat-lr", "0.2"];
        assert_ne!(story(&mirostat), plain);
        assert_eq!(story(&mirostat), story(&mirostat));
    }
}

#[test]
fn json_says_everything() {
    let run = leyden(&["run", "The king", "-n", "6", "--seed", "3", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&text(run)).unwrap();
    assert_eq!(
        (&object["completion_tokens"], &object["seed"]),
        (&serde_json::json!(6), &serde_json::json!(3))
    );
    assert_eq!(object["tokens"].as_array().unwrap().len(), 6);
    assert_eq!(object["finish"], "length");
    assert!(object["decode_tokens_per_second"].as_f64().unwrap() > 0.0);
    let plain = text(leyden(&["run", "The king", "-n", "6", "--seed", "3"]));
    assert_eq!(object["text"], plain);
}

#[test]
fn a_model_file_answers_like_the_embedded_one() {
    let flags = ["-n", "12", "--temp", "0"];
    let embedded = text(leyden(&[&["run", "The king"], &flags[..]].concat()));
    assert_eq!(text(leyden(&[&["run", STORYTELLER, "The king"], &flags[..]].concat())), embedded);
    let piped = leyden_with_input(&[&["run", STORYTELLER], &flags[..]].concat(), b"The king");
    assert!(!piped.err.contains("toy"), "{}", piped.err);
    assert_eq!(text(piped), embedded);
}

#[test]
fn a_prompt_goes_through_the_chat_template() {
    let files = Files::new();
    let template = "{% for m in messages %}{{ m.role }} {{ m.content }}, {% endfor %}\
                    {% if add_generation_prompt %}Once{% endif %}";
    let path = files.add("chat.gguf", &storyteller_with_template(template));
    let flags = ["-n", "8", "--temp", "0"];
    let with = |args: &[&str]| text(leyden(&[args, &flags[..]].concat()));
    let chat = with(&["run", &path, "upon", "--system", "tell"]);
    assert_eq!(chat, with(&["run", "--raw", &path, "system tell, user upon, Once"]));
    assert_ne!(chat, with(&["run", "--raw", &path, "upon"]));
}

#[test]
fn hostile_templates_fail_and_end() {
    let files = Files::new();
    let cases = [
        ("{% for i in range(1000000000) %}{% for j in range(1000000000) %}x{% endfor %}{% endfor %}", ""),
        ("{{ raise_exception('no talking') }}", "no talking"),
        ("{% if %}", "tokenizer.chat_template"),
    ];
    for (template, message) in cases {
        let path = files.add("hostile.gguf", &storyteller_with_template(template));
        let run = leyden(&["run", &path, "Hello"]);
        assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{template}\n{}", run.err);
        assert!(run.err.contains("hostile.gguf") && run.err.contains(message), "{template}\n{}", run.err);
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}

#[test]
fn edges_of_the_request() {
    assert_eq!(leyden(&["run", "Hello there", "-n", "0"]).out, "");
    // An empty prompt begins at the model's first token.
    assert!(!text(leyden(&["run", "--prompt", "", "-n", "4", "--seed", "1"])).is_empty());
    let whole = text(leyden(&["run", "The king", "-n", "20", "--temp", "0"]));
    let word = whole.split_whitespace().nth(3).unwrap();
    let cut = text(leyden(&["run", "The king", "-n", "20", "--temp", "0", "--stop", word]));
    assert_eq!(cut, whole.split_once(word).unwrap().0, "generation ends before the stop text");
    let err = leyden_with_input(&["run"], "long ".repeat(3000).as_bytes());
    assert_eq!((err.code, err.out.as_str()), (Some(1), ""));
    assert!(err.err.contains("do not fit the context of 1024") && err.err.contains("hint: "), "{}", err.err);
}

#[test]
fn wrong_usage_is_named() {
    let cases: [(&[&str], &str); 19] = [
        (&["--temp", "-1"], "temperature: -1"),
        (&["--temp", "2.1"], "temperature: 2.1 is not between 0 and 2"),
        (&["--temp", "NaN"], "temperature: NaN"),
        (&["--top-p", "2"], "top_p: 2"),
        (&["--min-p", "-0.5"], "min_p: -0.5"),
        (&["--ctx", "99999"], "ctx: 99999"),
        (&["--threads", "0"], "threads: 0"),
        (&["--kv-type", "q9"], "known: f32, f16, q8_0"),
        (&["--isa", "mmx"], "known: scalar"),
        (&["--logit-bias", "4096=1"], "logit_bias: token 4096"),
        (&["--logit-bias", "one"], "ID=X"),
        (&["--raw", "--system", "x"], "--system"),
        (&["--samplers", "top_k;top_q"], "no step `top_q`; known: penalties, dry, top_n_sigma, top_k, typ_p"),
        (&["--samplers", "top_k;top_k"], "twice"),
        (&["--typical", "0"], "typical: 0"),
        (&["--xtc-probability", "1.1"], "xtc_probability: 1.1"),
        (&["--dry-base", "0"], "dry_base: 0"),
        (&["--dry-multiplier", "1", "--dry-sequence-breaker", ""], "dry_sequence_breaker: \"\""),
        (&["--mirostat", "3"], "0..=2"),
    ];
    for (flags, message) in cases {
        let run = leyden(&[&["run", "Hello there", "-n", "1"], flags].concat());
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{flags:?}\n{}", run.err);
        assert!(run.err.contains(message) && !run.err.contains("panicked"), "{flags:?}\n{}", run.err);
    }
    assert!(leyden(&["run", "Hello there", "-n", "-3"]).failed(2).contains("-3 is below -1"));
    let files = Files::new();
    leyden(&["run", &files.path("absent.gguf"), "Hello"]).failed(1);
    leyden(&["run", "a", "b", "--model", "m"]).failed(2);
}

#[test]
fn a_closed_pipe_stops_the_story() {
    let mut command = command(&["run", "Once upon a time"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    assert!(!err.contains("error"), "{err}");
}

#[test]
fn an_interrupt_stops_the_story() {
    // Never ends by itself before the context is full.
    let mut child = command(&["run", "Once upon a time", "--logit-bias", "0=-inf", "--verbose"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains("peak memory") && !err.contains("error"), "{err}");
}

#[test]
fn an_interrupt_is_harmless_at_any_time() {
    for delay in (0..60).step_by(6) {
        let mut command = command(&["run", "Once upon a time", "-n", "50"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        // It may be over already.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        // Before the handler stands the signal itself ends the program, which has no code then.
        assert!(
            matches!(output.status.code(), None | Some(0 | 130)),
            "{delay} ms: {:?}\n{err}",
            output.status
        );
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[test]
fn marks_in_a_message_are_text_unless_asked_for() {
    let tokens = |more: &[&str]| {
        let run = leyden(&[&["run", "-p", "a<|endoftext|>b", "-n", "1", "--json"], more].concat());
        let answer: serde_json::Value = serde_json::from_str(&text(run)).unwrap();
        answer["prompt_tokens"].as_u64().unwrap()
    };
    // The token that begins, `a`, the mark, `b`.
    assert_eq!((tokens(&["--special-in-content"]), tokens(&["--raw"])), (4, 4));
    assert!(tokens(&[]) > 5);
    let run = leyden(&["run", "-p", "a", "--raw", "--special-in-content"]);
    assert_eq!(run.code, Some(2), "{run:?}");
}
