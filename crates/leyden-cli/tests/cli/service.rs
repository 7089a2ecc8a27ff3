//! `leyden service`: units, and what is asked of systemd, with a systemctl that records its arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use leyden_testkit::skip;

use crate::program::{Files, Run, command, finish, leyden};

/// A systemctl that writes its arguments to a file and answers as `answer` says.
fn systemctl(files: &Files, answer: &str) {
    fs::create_dir_all(files.path("bin")).unwrap();
    let log = files.path("calls");
    for name in ["systemctl", "journalctl"] {
        let path = files.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\" >> '{log}'\n{answer}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs the program with that systemctl alone on its path, and a configuration folder of its own.
fn service(files: &Files, words: &[&str]) -> Run {
    let words: Vec<&str> = ["service"].iter().chain(words).copied().collect();
    let mut command = command(&words);
    command.env("PATH", files.path("bin")).env("XDG_CONFIG_HOME", files.path("config"));
    command.env("LEYDEN_MODELS", files.path("store")).current_dir(files.folder());
    finish(&mut command, b"")
}

fn calls(files: &Files) -> Vec<String> {
    let text = fs::read_to_string(files.path("calls")).unwrap_or_default();
    let _ = fs::remove_file(files.path("calls"));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_service_of_the_user_from_install_to_uninstall() {
    let files = Files::new();
    files.add("m.gguf", b"not read");
    systemctl(&files, "");
    let words =
        ["install", "m.gguf", "--user", "--port", "8123", "--alias", "m.gguf", "--drain-timeout", "7"];
    let run = service(&files, &words);
    assert_eq!((run.code, &run.out[..]), (Some(0), "leyden serves on 127.0.0.1:8123\n"), "{run:?}");
    let started = ["daemon-reload", "daemon-reload", "enable --now leyden.service", "restart leyden.service"];
    assert_eq!(calls(&files), started.map(|words| format!("systemctl --user {words}")));
    let path = files.path("config/systemd/user/leyden.service");
    let unit = fs::read_to_string(&path).unwrap();
    let model = fs::canonicalize(files.folder()).unwrap().join("m.gguf");
    for wanted in [
        format!(
            " serve {} --port 8123 --alias m.gguf --drain-timeout 7 --log-format json\n",
            model.display()
        ),
        // 5 of --lame-duck, 7, and 10 to spare.
        "\nTimeoutStopSec=22\n".to_owned(),
        "\nNoNewPrivileges=yes\n".to_owned(),
        format!("\nEnvironment=LEYDEN_MODELS={}\n", files.path("store")),
        "\nWantedBy=default.target\n".to_owned(),
    ] {
        assert!(unit.contains(&wanted), "{wanted}: {unit}");
    }
    assert_eq!(service(&files, &["stop", "--user"]).ok(), "");
    assert_eq!(service(&files, &["start", "--user", "--name", "other"]).ok(), "");
    service(&files, &["logs", "--user", "-n", "5", "--follow"]).ok();
    let logs = "journalctl --user --unit leyden.service --lines 5 --output short-iso --no-pager --follow";
    let wanted = ["systemctl --user stop leyden.service", "systemctl --user start other.service", logs];
    assert_eq!(calls(&files), wanted);
    assert_eq!(service(&files, &["uninstall", "--user"]).ok(), "");
    assert_eq!(
        calls(&files),
        ["disable --now leyden.service", "daemon-reload"].map(|w| format!("systemctl --user {w}"))
    );
    assert!(!fs::exists(&path).unwrap());
    assert!(service(&files, &["uninstall", "--user"]).failed(1).contains("no such service"));
    // Units of other people stay.
    fs::write(&path, "[Unit]\n").unwrap();
    for words in [&["install", "--user"][..], &["uninstall", "--user"]] {
        assert!(service(&files, words).failed(1).contains("another service"), "{words:?}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "[Unit]\n");
}

#[test]
fn status_is_that_of_systemd() {
    let files = Files::new();
    let shown = "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nMainPID=77\nMemoryCurrent=1048576\n\
                 NRestarts=0\nActiveEnterTimestamp=Sun 2026-11-29 12:00:00 UTC\nResult=success";
    systemctl(&files, &format!("printf '%s\\n' '{shown}'"));
    let text = service(&files, &["status", "--user"]).ok();
    for wanted in ["active (running)", "by itself", "77", "1 MiB", "12:00:00"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let json = service(&files, &["status", "--user", "--json"]).json();
    assert_eq!(
        (&json["active"], &json["process"], &json["memory_bytes"]),
        (&true.into(), &77.into(), &1_048_576.into())
    );
    systemctl(
        &files,
        "printf 'LoadState=loaded\\nActiveState=failed\\nSubState=failed\\nResult=exit-code\\nMemoryCurrent=[not set]\\n'",
    );
    let run = service(&files, &["status", "--user"]);
    assert!(
        run.code == Some(1)
            && run.err.contains("does not run (exit-code)")
            && run.err.contains("service logs"),
        "{run:?}"
    );
    systemctl(&files, "printf 'LoadState=not-found\\nActiveState=inactive\\n'");
    assert!(service(&files, &["status", "--user"]).failed(1).contains("service install"));
}

#[test]
fn a_machine_without_systemd_is_told_so() {
    let files = Files::new();
    systemctl(&files, "echo 'System has not been booted with systemd as init system (PID 1).' >&2; exit 1");
    for words in [&["install", "--user"][..], &["stop", "--user"], &["status", "--user"]] {
        let error = service(&files, words).failed(1);
        assert!(error.contains("no running systemd") && error.contains("docs/deploy.md"), "{error}");
    }
    assert!(!fs::exists(files.path("config")).unwrap(), "nothing is written before systemd answers");
    fs::remove_dir_all(files.path("bin")).unwrap();
    let error = service(&files, &["start", "--user"]).failed(1);
    assert!(error.contains("cannot start systemctl") && error.contains("no running systemd"), "{error}");
}

#[test]
fn wrong_words_are_refused_before_anything_is_written() {
    let files = Files::new();
    systemctl(&files, "");
    files.add("k.jsonl", b"");
    for (words, code, wanted) in [
        (&["install", "--user", "--system"][..], 2, "exclude each other"),
        (&["install", "--user", "--name", "a/b"], 2, "want up to 64"),
        (&["install", "--user", "--prot", "1"], 2, "--prot"),
        (&["install", "--user", "--api-key", "secret"], 2, "--api-keys FILE"),
        (&["install", "--user", "nothing.gguf"], 1, "nothing.gguf"),
        (&["install", "--system", "--dry-run", "--audit", "log"], 2, ""),
    ] {
        let error = service(&files, words).failed(code);
        assert!(error.contains(wanted) && !error.contains("secret"), "{words:?}: {error}");
    }
    assert_eq!(calls(&files), [""; 0]);
}

/// Units are valid for systemd, with words that have to be quoted.
#[test]
fn systemd_accepts_the_units() {
    let found = Command::new("systemd-analyze").arg("--version").output();
    if !found.is_ok_and(|found| found.status.success()) {
        return skip("systemd-analyze is not installed");
    }
    let files = Files::new();
    files.add("a model 100%.gguf", b"");
    let dry = leyden(&["service", "install", "--user", "--dry-run", &files.path("a model 100%.gguf")]).ok();
    assert!(dry.contains("a model 100%%.gguf\""), "{dry}");
    let mut units = vec![("user", dry)];
    let system =
        leyden(&["service", "install", "--system", "--dry-run", "--api-keys", "/etc/leyden/keys.jsonl"]);
    if system.code == Some(0) {
        let unit = system.ok();
        assert!(
            unit.contains("LoadCredential=keys:/etc/leyden/keys.jsonl\n")
                && unit.contains("--api-keys %d/keys"),
            "{unit}"
        );
        units.push(("system", unit));
    } else {
        // The tests' own program may lie in a home folder.
        assert!(system.failed(2).contains("does not see home folders"));
    }
    let own =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/leyden.service")).unwrap();
    units.push(("system", own.replace("/usr/local/bin/leyden", env!("CARGO_BIN_EXE_leyden"))));
    for (i, (mode, unit)) in units.into_iter().enumerate() {
        let path = files.add(&format!("leyden{i}.service"), unit.as_bytes());
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no", &format!("--{mode}"), &path]);
        verify.env("XDG_RUNTIME_DIR", files.folder());
        let run = finish(&mut verify, b"");
        let about_it: Vec<&str> =
            run.err.lines().filter(|line| line.contains(&format!("leyden{i}"))).collect();
        assert_eq!(about_it, [""; 0], "{unit}\n{run:?}");
    }
}
