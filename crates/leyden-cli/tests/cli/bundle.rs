//! `leyden bundle`: from a machine with models to one without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leyden_verify::{Key, Time};
use serde_json::Value;

use crate::folders::{TOKENIZER_CONFIG, checkpoint, tokenizer};
use crate::models::server::{Hub, Repository};
use crate::program::{Files, Run, STORYTELLER, built, command, finish, storyteller_with};

/// A machine: a home with its own store.
struct Machine {
    files: Files,
    endpoint: String,
}

impl Machine {
    fn new(endpoint: &str) -> Machine {
        Machine { files: Files::new(), endpoint: endpoint.to_owned() }
    }

    fn command(&self, mut command: Command) -> Command {
        for name in [
            "LEYDEN_MODELS",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_CACHE_HOME",
            "HF_TOKEN",
            "LEYDEN_OFFLINE",
        ] {
            command.env_remove(name);
        }
        for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "HF_HUB_OFFLINE"] {
            command.env_remove(name);
        }
        command.env("HOME", self.files.folder()).env("HF_ENDPOINT", &self.endpoint).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        finish(&mut self.command(command(args)), b"")
    }

    #[track_caller]
    fn done(&self, args: &[&str]) -> Run {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
        run
    }

    /// Returns all files below the home.
    fn all(&self) -> Vec<PathBuf> {
        let (mut open, mut all) = (vec![self.files.folder().to_owned()], Vec::new());
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => open.push(entry.path()),
                    false => all.push(entry.path()),
                }
            }
        }
        all.sort();
        all
    }
}

/// Returns the words that start a program without a network: in a network namespace of its own. Where the system makes none,
/// there are no such words, and the program has a hub that does not answer.
fn sealed() -> Vec<String> {
    let works = |option: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args([option, "true"]).stdin(Stdio::null()).stderr(Stdio::null());
        unshare.status().is_ok_and(|status| status.success())
    };
    let option = ["-rn", "-n"].into_iter().find(|option| works(option));
    if option.is_none() {
        eprintln!("no network namespace can be made here: the program has a hub that does not answer");
    }
    option.map(|option| vec!["unshare".to_owned(), option.to_owned()]).unwrap_or_default()
}

/// Nobody listens at this address.
const NOBODY: &str = "http://127.0.0.1:9";

#[test]
fn a_room_without_a_network_runs_what_was_sent() {
    let model = storyteller_with("general.license", "mit");
    let hub = Hub::start(&Repository::new(&[("Tiny-Q8_0.gguf", &model), ("README.md", b"# Tiny")]));
    let sender = Machine::new(&hub.api.url());
    sender.done(&["pull", "hf:org/repo:Q8_0"]);
    let verified = sender.files.add("m.gguf", &fs::read(STORYTELLER).unwrap());
    sender.files.add("LICENSE", b"Do what you like.");
    let row =
        "{\"prompt\":\"Once upon a\",\"choices\":[\" time there was\",\" zebra quantum\"],\"answer\":0}\n";
    let rows = sender.files.add("rows.jsonl", row.repeat(20).as_bytes());
    sender.done(&["verify", &verified, "--data", &rows, "--floor", "accuracy>=0.5", "--threads", "1"]);
    let folder = sender.files.path("folder");
    fs::create_dir(&folder).unwrap();
    for file in fs::read_dir(checkpoint("qwen3")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), Path::new(&folder).join(file.file_name())).unwrap();
    }
    sender.files.add("folder/tokenizer.json", &tokenizer());
    sender.files.add("folder/tokenizer_config.json", TOKENIZER_CONFIG.as_bytes());
    sender.files.add("folder/README.md", b"---\nlicense: apache-2.0\n---\n# Folder");
    let out = sender.files.path("room.tar");
    let named = format!("from-folder={folder}");
    let made = sender.done(&["bundle", "org/repo:Q8_0", &verified, &named, "-o", &out]);
    for wanted in [
        "org/repo:Q8_0, licence mit",
        "m, licence CC0-1.0, with evidence",
        "from-folder, licence apache-2.0",
        "key",
    ] {
        assert!(made.out.contains(wanted), "{wanted}: {made:?}");
    }
    assert!(!made.err.contains("no licence"), "{made:?}");
    let before = fs::read(&out).unwrap();
    sender.done(&["bundle", "org/repo:Q8_0", &verified, &named, "-o", &out]);
    assert!(fs::read(&out).unwrap() == before, "the same models and key make the same file");
    let listed = finish(Command::new("tar").args(["-tf", &out]), b"").ok();
    for wanted in [
        "bundle.sig\nREADME.txt\nSHA256SUMS\nbin/leyden\n",
        "evidence/m/evidence.json\n",
        "licences/THIRD-PARTY.txt\n",
        "licences/models/m/LICENSE\n",
        "licences/models/org-repo-Q8_0/about.txt\n",
        "models/from-folder/tokenizer.json\n",
        "sbom.cdx.json\n",
    ] {
        assert!(listed.contains(wanted), "{wanted}: {listed}");
    }

    let room = Machine::new(NOBODY);
    let key = sender.files.path(".config/leyden/verify.key.pub");
    let run = room.run(&["bundle", "install", &out]);
    assert!(run.code == Some(1) && run.err.contains("--key"), "{run:?}");
    room.done(&["bundle", "install", &out, "--key", &key]);
    let program = room.files.path(".local/bin/leyden");
    let start = |args: &[&str]| {
        let words = [sealed(), built(&program)].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(args);
        let run = finish(&mut room.command(command), b"");
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
        run.out
    };
    let here =
        sender.done(&["run", &verified, "Once upon a time", "-n", "6", "--temp", "0", "--threads", "1"]).out;
    for name in ["org/repo:Q8_0", "m"] {
        let there = start(&["run", name, "Once upon a time", "-n", "6", "--temp", "0", "--threads", "1"]);
        assert!(there == here && !here.trim().is_empty(), "{name}: {there}");
    }
    assert!(!start(&["tokenize", "from-folder", "Hi"]).is_empty());
    // The evidence lies where it is looked for.
    let list: Value = serde_json::from_str(&start(&["list", "--json"])).unwrap();
    assert!(list.to_string().contains("from-folder"), "{list}");
    let store = room.files.folder().join(".local/share/leyden/models");
    let evidence = store.join("named/m/files/m.gguf.evidence.json");
    let evidence = evidence.to_str().unwrap();
    start(&["verify", "--check", evidence, "--model", "m", "--key", &key]);
    start(&["bundle", "verify", &out, "--key", &key]);
    // Nothing is left of the temporary folder, and a second installation changes nothing.
    assert!(
        fs::read_dir(&store).unwrap().flatten().all(|e| !e.file_name().to_string_lossy().ends_with(".tmp"))
    );
    let all = room.all();
    let again = room.done(&["bundle", "install", &out, "--key", &key]);
    assert_eq!((again.out.matches("which was there").count(), room.all()), (4, all), "{again:?}");
    // The models are those of the store: they are removed by their names, with the evidence.
    for name in ["org/repo:Q8_0", "m", "from-folder"] {
        room.done(&["rm", name]);
    }
    assert!(!room.all().iter().any(|path| path.to_string_lossy().contains("gguf")), "{:?}", room.all());
}

/// A bundle of one model and a small program, with the key of its sender.
fn small(sender: &Machine, model: &str, out: &str) -> String {
    let program = sender.files.add("program", b"#!/bin/sh\n");
    let out = sender.files.path(out);
    sender.done(&["bundle", &format!("mine={model}"), "--program", &program, "-o", &out, "-q"]);
    out
}

#[test]
fn nothing_is_installed_from_a_damaged_or_foreign_bundle() {
    let sender = Machine::new(NOBODY);
    let model = sender.files.add("x.gguf", &fs::read(STORYTELLER).unwrap());
    let out = small(&sender, &model, "a.tar");
    let key = sender.files.path(".config/leyden/verify.key.pub");
    let good = fs::read(&out).unwrap();
    let room = Machine::new(NOBODY);
    let damaged = room.files.path("damaged.tar");
    for at in [0, 600, good.len() / 3, good.len() / 2, good.len() - 3000, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 4;
        fs::write(&damaged, bytes).unwrap();
        for action in ["verify", "install"] {
            let run = room.run(&["bundle", action, &damaged, "--key", &key, "--json"]);
            assert!(run.code == Some(1) && run.out.is_empty(), "byte {at}: {run:?}");
            let message: Value = serde_json::from_str(&run.err).unwrap();
            assert!(message["error"]["message"].as_str().unwrap().contains("damaged.tar"), "{message}");
        }
    }
    let wrong = Key::generate(Time::now(), 1).unwrap().id();
    let message = room.run(&["bundle", "install", &out, "--key", &wrong]).failed(1);
    assert!(message.contains("bundle.sig: signed with the key"), "{message}");
    assert!(room.all().iter().all(|path| path.ends_with("damaged.tar")), "{:?}", room.all());
    // The key may be typed; without one, the output says what that means.
    let id = room.run(&["bundle", "verify", &out, "--any-key", "--json"]).json()["key"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(room.run(&["bundle", "verify", &out, "--key", &id, "--json"]).json()["key_trusted"], true);
    let any = room.done(&["bundle", "verify", &out, "--any-key"]).out;
    assert!(any.contains("anyone may have made the bundle"), "{any}");
}

#[test]
fn other_models_and_programs_are_not_replaced_unasked() {
    let sender = Machine::new(NOBODY);
    let model = sender.files.add("x.gguf", &fs::read(STORYTELLER).unwrap());
    let first = small(&sender, &model, "a.tar");
    let key = sender.files.path(".config/leyden/verify.key.pub");
    let other = sender.files.add("y.gguf", &storyteller_with("general.license", "mit"));
    let second = small(&sender, &other, "b.tar");
    let room = Machine::new(NOBODY);
    let to = room.files.path("opt");
    let install = |bundle: &str, more: &[&str]| {
        room.run(&[&["bundle", "install", bundle, "--key", &key, "--to", &to], more].concat())
    };
    assert_eq!(install(&first, &[]).code, Some(0));
    let program = Path::new(&to).join("bin/leyden");
    assert_eq!(fs::read(&program).unwrap(), b"#!/bin/sh\n");
    let digest = || room.run(&["list", "--json"]).json().to_string();
    let before = (digest(), room.all());
    let message = install(&second, &[]).failed(1);
    assert!(
        message.contains("mine: the store has another model of this name") && message.contains("--replace")
    );
    assert_eq!((digest(), room.all()), before);
    assert_eq!(install(&second, &["--replace"]).code, Some(0));
    assert_ne!(digest(), before.0);
    // Another program.
    fs::write(&program, "mine").unwrap();
    let message = install(&second, &[]).failed(1);
    assert!(message.contains("bin/leyden: another program is there"), "{message}");
    let json: Value = serde_json::from_str(&install(&second, &["--replace", "--json"]).out).unwrap();
    assert_eq!((&json["models"][0]["name"], &json["models"][0]["was_there"]), (&"mine".into(), &true.into()));
    assert_eq!(fs::read(&program).unwrap(), b"#!/bin/sh\n");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
}

#[test]
fn wrong_usage_is_named() {
    let machine = Machine::new(NOBODY);
    let model = machine.files.add("x.gguf", &fs::read(STORYTELLER).unwrap());
    let out = machine.files.path("a.tar");
    let text = machine.files.add("text", b"no model");
    let two = format!("x={model}");
    for (code, args, wanted) in [
        (2, &["bundle"][..], "MODEL is missing"),
        (2, &["bundle", &model], "-o is missing"),
        (2, &["bundle", &model, &two, "-o", &out], "x: two models have this name"),
        (2, &["bundle", &format!("a b={model}"), "-o", &out], "NAME=PATH"),
        (2, &["bundle", &model, "-o", &model], "this is the input"),
        (1, &["bundle", "none", "-o", &out], "none"),
        (1, &["bundle", &text, "-o", &out], "text"),
        (1, &["bundle", &model, "-o", &machine.files.path("none/a.tar")], "there is no such folder"),
        (1, &["bundle", &model, "-o", &out, "--evidence", &text], "not evidence"),
        (1, &["bundle", &model, "-o", &out, "--program", &machine.files.path("none")], "none: cannot read"),
        (1, &["bundle", "verify", &out, "--any-key"], "a.tar: cannot read"),
        (1, &["bundle", "verify", &text, "--any-key"], "text: "),
        (2, &["bundle", "verify", &text, "--key", &"ab".repeat(32)], "are no key"),
        (2, &["bundle", "verify", &text, "--key", "x", "--any-key"], "cannot be used with"),
        (2, &["bundle", "install", machine.files.folder().to_str().unwrap(), "--any-key"], "a folder"),
    ] {
        let run = machine.run(args);
        assert!(run.code == Some(code) && run.err.contains(wanted), "{args:?}: {run:?}");
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
}
