//! `leyden run` as a conversation, in a terminal that a Python script plays.

use leyden_testkit::emulated;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::program::{Files, Run, built, command, finish, storyteller_with_template};

/// Runs `terminal.py` with a scene; `None` if there is no Python to run it.
fn play(files: &Files, args: &[&str], scene: &serde_json::Value) -> Option<serde_json::Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/terminal.py");
    let request = serde_json::json!({
        "program": built(env!("CARGO_BIN_EXE_leyden")),
        "arguments": args,
        "environment": { "LEYDEN_HISTORY": files.path("history"), "LEYDEN_CHATS": files.path("chats"), "TERM": "xterm" },
        "folder": files.folder(),
        "scene": scene,
    });
    let output = Command::new("python3").arg(script).arg(request.to_string()).output();
    match output {
        Ok(output) => {
            let err = String::from_utf8_lossy(&output.stderr);
            // QEMU 7.2 lacks the ioctl TCGETS2, by which a terminal is asked for its settings.
            if emulated() && err.contains("cannot read from the terminal: Function not implemented") {
                let _ = writeln!(
                    std::io::stderr(),
                    "skipped: the emulator cannot ask a terminal for its settings"
                );
                return None;
            }
            assert!(output.status.success(), "{err}");
            Some(serde_json::from_slice(&output.stdout).unwrap())
        }
        Err(error) => {
            assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3: {error}");
            // Not `eprintln!`, which a test that passes keeps to itself.
            let _ = writeln!(std::io::stderr(), "skipped: no python3: {error}");
            None
        }
    }
}

const ENTER: &str = "\r";
const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const UP: &str = "\u{1b}[A";
/// Sequence that the editor writes when it begins to read a line: bracketed paste on.
const READY: &str = "\u{1b}[?2004h";

#[test]
fn a_conversation_with_commands() {
    let files = Files::new();
    let scene = serde_json::json!([
        { "wait": READY, "send": format!("Once upon a time{ENTER}") },
        { "wait": READY, "send": format!("/help{ENTER}") },
        { "wait": "/save FILE", "send": "" },
        { "wait": READY, "send": format!("/save talk.json{ENTER}") },
        { "wait": "(saved 2 messages", "send": "" },
        { "wait": READY, "send": format!("/clear{ENTER}") },
        { "wait": "(forgotten)", "send": "" },
        // The first line again.
        { "wait": READY, "send": format!("{UP}{UP}{UP}{UP}{ENTER}") },
        { "wait": READY, "send": CTRL_C },
        { "wait": "Ctrl-D or /bye", "send": "" },
        { "wait": READY, "send": CTRL_D },
        { "wait": "peak memory", "send": "" },
    ]);
    let Some(result) = play(&files, &["run", "-n", "8", "--temp", "0", "--verbose"], &scene) else { return };
    assert_eq!(result["code"], 0, "{result}");
    let saved = std::fs::read_to_string(files.path("talk.json")).unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(saved[0], serde_json::json!({ "role": "user", "content": "Once upon a time" }));
    assert_eq!(saved[1]["role"], "assistant");
    let answer = saved[1]["content"].as_str().unwrap();
    let screen = result["terminal"].as_str().unwrap().replace("\r\n", "\n");
    assert_eq!(screen.matches(answer).count(), 2, "the line from the history is answered alike\n{screen}");
    let history = std::fs::read_to_string(files.path("history")).unwrap();
    assert!(history.starts_with("Once upon a time\n"), "{history}");
}

#[test]
fn commands_are_completed_and_quotes_hold_lines() {
    let files = Files::new();
    let scene = serde_json::json!([
        { "wait": READY, "send": format!("/he\t{ENTER}") },
        { "wait": "/regen /retry", "send": "" },
        { "wait": READY, "send": format!("/set temp\t0{ENTER}") },
        { "wait": "(set)", "send": "" },
        { "wait": READY, "send": format!("/set verbose{ENTER}") },
        { "wait": "(set)", "send": "" },
        { "wait": READY, "send": format!("\"\"\"Once upon{ENTER}a time\"\"\"{ENTER}") },
        { "wait": "tokens in cache | prefill ", "send": "" },
        { "wait": READY, "send": format!("/save talk.json{ENTER}") },
        { "wait": "(saved 2 messages", "send": "" },
        { "wait": READY, "send": format!("/exit{ENTER}") },
        { "wait": "peak memory", "send": "" },
    ]);
    let Some(result) = play(&files, &["run", "-n", "8", "--verbose"], &scene) else { return };
    assert_eq!(result["code"], 0, "{result}");
    let saved: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(files.path("talk.json")).unwrap()).unwrap();
    assert_eq!(saved[0]["content"], "Once upon\na time");
}

#[test]
fn a_model_is_told_to_reason_and_reasoning_is_dim() {
    let files = Files::new();
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<think>{% endif %}\
                    {# its end: </think> #}";
    let model = files.add("thinks.gguf", &storyteller_with_template(template));
    for (think, is_dim) in [("on", true), ("off", false)] {
        let args = ["run", &model, "Once upon a time", "-n", "4", "--temp", "0", "--think", think];
        let Some(result) = play(&files, &args, &serde_json::json!([])) else { return };
        assert_eq!(result["code"], 0, "{result}");
        assert_eq!(result["terminal"].as_str().unwrap().contains("\u{1b}[2m"), is_dim, "{think}: {result}");
    }
    let args = ["run", "Once upon a time", "-n", "1", "--think", "high"];
    let err = finish(&mut command(&args), b"").err;
    assert!(err.contains("--think is ignored: this model's chat template has no setting"), "{err}");
}

#[test]
fn conversations_are_kept_and_resumed() {
    let files = Files::new();
    let model = files
        .add("chat.gguf", &storyteller_with_template("{% for m in messages %}{{ m.content }} {% endfor %}"));
    let scene = serde_json::json!([
        { "wait": READY, "send": format!("Once upon a time{ENTER}") },
        { "wait": READY, "send": format!("/bye{ENTER}") },
        { "wait": "peak memory", "send": "" },
    ]);
    let args = ["run", &model, "-n", "4", "--temp", "0", "--system", "Tell.", "--verbose"];
    let Some(result) = play(&files, &args, &scene) else { return };
    assert_eq!(result["code"], 0, "{result}");
    let kept = |args: &[&str]| finish(command(args).env("LEYDEN_CHATS", files.path("chats")), b"");
    let list = kept(&["chats", "--json"]).json();
    let chat = &list["chats"][0];
    assert_eq!((&chat["title"], &chat["messages"]), (&"Once upon a time".into(), &3.into()));
    let name = chat["name"].as_str().unwrap();
    assert!(kept(&["chats"]).ok().contains(name));
    // The model, the instruction and what was said are those of the conversation.
    let again = kept(&["run", "--resume", name, "-p", "And then", "-n", "2", "--temp", "0", "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let said = std::fs::read_to_string(chat["path"].as_str().unwrap()).unwrap();
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let contents: Vec<&str> = (0..4).map(|i| said["messages"][i]["content"].as_str().unwrap()).collect();
    let flags = ["-n", "2", "--temp", "0", "--raw", "--json"];
    let whole = kept(&[&["run", &model, &format!("{} ", contents.join(" "))], &flags[..]].concat());
    let tokens = |run: &Run| serde_json::from_str::<serde_json::Value>(&run.out).unwrap()["tokens"].clone();
    assert_eq!((contents[0], tokens(&again)), ("Tell.", tokens(&whole)));
    assert_eq!(kept(&["chats", "--remove", name]).ok(), "");
    assert!(
        kept(&["run", "--resume"]).failed(1).contains("there are no saved conversations\nhint: leyden chats")
    );
    let off = finish(command(&["chats"]).env("LEYDEN_CHATS", "off"), b"").failed(1);
    assert!(off.contains("LEYDEN_CHATS is off"), "{off}");
}

#[test]
fn an_interrupt_stops_the_answer_and_not_the_program() {
    let files = Files::new();
    let scene = serde_json::json!([
        { "wait": READY, "send": format!("Once upon a time{ENTER}") },
        { "output": true, "send": CTRL_C },
        { "wait": "(stopped)", "send": "" },
        { "wait": READY, "send": format!("/quit{ENTER}") },
        { "wait": "peak memory", "send": "" },
    ]);
    let Some(result) = play(&files, &["run", "--logit-bias", "0=-inf", "--verbose"], &scene) else { return };
    assert_eq!(result["code"], 0, "{result}");
}

#[test]
fn only_answers_go_to_a_pipe() {
    let files = Files::new();
    let scene = serde_json::json!([
        { "wait": "> ", "send": "Once upon a time\n" },
        { "wait": "> ", "send": "/help\n" },
        { "wait": "> ", "send": CTRL_D },
        { "wait": "peak memory", "send": "" },
    ]);
    let args = ["run", "-n", "8", "--temp", "0", "--verbose"];
    let mut request = vec!["|"];
    request.extend(args);
    let Some(result) = play(&files, &request, &scene) else { return };
    let once = crate::program::leyden(&[&args[..], &["Once upon a time"]].concat());
    assert_eq!(result["code"], 0, "{result}");
    assert_eq!(result["output"].as_str().unwrap(), once.out);
}

#[test]
fn no_editor_draws_into_a_log() {
    let files = Files::new();
    let args = ["run", "-n", "8", "--temp", "0", "--verbose"];
    let once = crate::program::leyden(&[&args[..], &["Once upon a time"]].concat());
    let scene = serde_json::json!([
        { "wait": "", "send": "Once upon a time\n" },
        { "wait": once.out.trim_end(), "send": "" },
        { "wait": "\n", "send": CTRL_D },
    ]);
    let Some(result) = play(&files, &[&["2|"], &args[..]].concat(), &scene) else { return };
    assert_eq!(result["code"], 0, "{result}");
    for stream in ["terminal", "output"] {
        assert!(!result[stream].as_str().unwrap().contains('\u{1b}'), "{result}");
    }
    assert!(result["output"].as_str().unwrap().contains("peak memory"), "{result}");
}
