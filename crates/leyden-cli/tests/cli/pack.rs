//! Packed weights that are kept between starts: the same answers, and a fault costs a note.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use leyden_tensor::{GgufWriter, Value};
use serde_json::Value as Json;

use crate::program::{Files, Run, STORYTELLER, built, finish, leyden};

/// The document on standard output; standard error has the times.
#[track_caller]
fn document(run: &Run) -> Json {
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.out).unwrap()
}

/// A model, a folder for packs, and the answer without any.
struct Scene {
    files: Files,
    model: String,
    packs: String,
    tokens: Json,
}

impl Scene {
    fn new() -> Scene {
        let files = Files::new();
        let model = files.add("model.gguf", &fs::read(STORYTELLER).unwrap());
        let packs = files.path("packs");
        let answer =
            leyden(&["run", &model, "The king", "-n", "8", "--seed", "1", "--json", "--pack-cache", "off"]);
        let answer = document(&answer);
        assert_eq!(answer["pack"], serde_json::json!({ "read": null, "made": null, "mapped": false }));
        Scene { files, model, packs, tokens: answer["tokens"].clone() }
    }

    /// Runs the model and returns the state of the pack and the notes; checks that the answer is always the same.
    #[track_caller]
    fn run(&self, more: &[&str]) -> (Json, String) {
        let mut args = vec![
            "run",
            &self.model,
            "The king",
            "-n",
            "8",
            "--seed",
            "1",
            "--json",
            "--pack-cache",
            &self.packs,
        ];
        args.extend(more);
        let run = leyden(&args);
        let notes = run.err.lines().filter(|line| line.starts_with("note: ")).collect::<Vec<_>>().join("\n");
        let answer = document(&run);
        assert_eq!(answer["tokens"], self.tokens);
        (answer["pack"].clone(), notes)
    }

    fn pack(&self) -> String {
        let mut found = fs::read_dir(&self.packs).unwrap().map(|entry| entry.unwrap().path());
        let path = found.next().unwrap();
        assert!(found.next().is_none(), "one pack and no temporary file");
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn a_pack_is_made_once_and_used() {
    let scene = Scene::new();
    let (first, notes) = scene.run(&[]);
    let pack = scene.pack();
    assert!(Path::new(&pack).file_name().unwrap().to_str().unwrap().starts_with("model-"), "{pack}");
    assert_eq!((first["made"].as_str(), first["read"].as_str()), (Some(&*pack), None), "{notes}");
    let (second, _) = scene.run(&[]);
    assert_eq!((second["made"].as_str(), second["read"].as_str()), (None, Some(&*pack)));
    assert_eq!(second["mapped"], leyden(&["doctor", "--json"]).out.contains("\"transparent\":\"never\""));
    for isa in ["scalar", "avx2"] {
        let run = leyden(&["bench", "--isa", isa, "-p", "1", "-n", "0", "-r", "1", "--no-ceilings"]);
        if run.code == Some(0) {
            assert_eq!(scene.run(&["--isa", isa]).0["read"].as_str(), Some(&*pack), "{isa}");
        }
    }
    let (mapped, _) = scene.run(&["--mmap"]);
    assert_eq!((mapped["mapped"].as_bool(), mapped["read"].as_str()), (Some(true), Some(&*pack)));
}

#[test]
fn the_command_makes_shows_and_removes_packs() {
    let scene = Scene::new();
    let command = |more: &[&str]| {
        let mut args = vec!["pack", &scene.model, "--pack-cache", &scene.packs, "--json"];
        args.extend(more);
        leyden(&args)
    };
    let made = command(&[]).json();
    assert_eq!((made["made"].as_bool(), made["pack"].as_str()), (Some(true), Some(&*scene.pack())));
    assert_eq!(made["bytes"].as_u64().unwrap(), fs::metadata(scene.pack()).unwrap().len());
    assert_eq!(command(&[]).json()["made"].as_bool(), Some(false));
    let text = leyden(&["pack", &scene.model, "--pack-cache", &scene.packs]);
    assert!(text.out.ends_with("up to date\n"), "{text:?}");
    let removed = command(&["--remove"]).json();
    assert_eq!(removed["freed_bytes"], made["bytes"]);
    assert!(command(&["--remove"]).failed(1).contains("the pack does not exist"));
    assert!(leyden(&["pack", &scene.files.path("none.gguf")]).failed(1).contains("none.gguf"));
}

#[test]
fn damage_is_noticed_and_repaired() {
    let scene = Scene::new();
    scene.run(&[]);
    let pack = scene.pack();
    let whole = fs::read(&pack).unwrap();
    let step = whole.len() / 7;
    let cases = [0, 9, 400, step, 3 * step, whole.len() - 70];
    for at in cases {
        for mmap in [&[][..], &["--mmap"]] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            fs::write(&pack, &bytes).unwrap();
            let (became, notes) = scene.run(mmap);
            assert!(notes.contains("packed again"), "byte {at}: {notes}");
            assert_eq!(became["made"].as_str(), Some(&*pack), "byte {at}: {notes}");
            assert!(fs::read(&pack).unwrap() == whole, "byte {at}: the pack is whole again");
        }
    }
    for len in [0, 3, 200, whole.len() / 2, whole.len() - 5000] {
        fs::write(&pack, &whole[..len]).unwrap();
        let (became, notes) = scene.run(&[]);
        assert!(notes.contains("packed again"), "cut to {len}: {notes}");
        assert_eq!(became["made"].as_str(), Some(&*pack));
    }
    assert_eq!(
        scene.run(&[]),
        (serde_json::json!({ "read": pack, "made": null, "mapped": false }), String::new())
    );
}

#[test]
fn another_state_of_the_model_or_another_version_is_noticed() {
    let scene = Scene::new();
    scene.run(&[]);
    let pack = scene.pack();
    // The same bytes, written again.
    fs::write(&scene.model, fs::read(STORYTELLER).unwrap()).unwrap();
    let (became, notes) = scene.run(&[]);
    assert!(notes.contains("another state of the model's files"), "{notes}");
    assert_eq!(became["made"].as_str(), Some(&*pack));

    let mut writer = GgufWriter::new();
    writer.set("leyden.pack.layout", Value::U32(u32::MAX));
    fs::write(&pack, writer.to_vec().unwrap()).unwrap();
    let (_, notes) = scene.run(&[]);
    assert!(notes.contains("another version"), "{notes}");
    // A model in the place of its pack.
    fs::copy(STORYTELLER, &pack).unwrap();
    let (became, _) = scene.run(&[]);
    assert_eq!(became["made"].as_str(), Some(&*pack));
}

#[test]
fn a_folder_that_cannot_be_written_costs_a_note() {
    let mut scene = Scene::new();
    scene.packs = format!("{}/packs", scene.files.add("no-folder", b""));
    let (became, notes) = scene.run(&[]);
    assert_eq!(became["made"], Json::Null);
    assert!(notes.contains("cannot be created") && notes.contains("not kept"), "{notes}");
    assert!(leyden(&["pack", &scene.model, "--pack-cache", &scene.packs]).failed(1).contains("not kept"));
}

/// A limit on the size of files stands for a disk that is full.
#[test]
fn a_full_disk_costs_a_note() {
    let scene = Scene::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$@\"", "sh"]);
    shell.args(built(env!("CARGO_BIN_EXE_leyden")));
    shell.args([
        "run",
        &scene.model,
        "The king",
        "-n",
        "8",
        "--seed",
        "1",
        "--json",
        "--pack-cache",
        &scene.packs,
    ]);
    let run = finish(shell.stdin(Stdio::null()), b"");
    assert!(run.err.contains("the packed weights are not kept"), "{run:?}");
    assert_eq!(document(&run)["tokens"], scene.tokens);
    assert_eq!(fs::read_dir(&scene.packs).unwrap().count(), 0, "no temporary file is left");
}
