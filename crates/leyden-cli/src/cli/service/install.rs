//! `leyden service install` and `uninstall`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use leyden_files::OutputOptions;
use leyden_hub::{Located, Store};

use super::systemd::Manager;
use super::unit::{CREDENTIALS, MARK, Unit};
use super::which::Which;
use super::words;
use crate::cli::failure::Failure;
use crate::cli::serve::{self, ServiceFacts};
use crate::cli::{knobs, terminal};

/// Seconds beyond the server's own limits until it is killed.
const SPARE_SECONDS: u64 = 10;

/// Writes the unit, and starts the service.
pub(super) fn execute(given: Vec<OsString>, out: &mut dyn Write) -> Result<(), Failure> {
    let sorted = words::sort(given)?;
    let manager = sorted.which.manager();
    let folder =
        std::env::current_dir().map_err(|error| Failure::new(format!("the current folder: {error}")))?;
    let words = words::absolute(sorted.serve, &folder);
    // Wrong options are found here, and not by a service that ends at once.
    let facts = serve::parsed(words.clone())?.service_facts();
    check_models(&facts)?;
    let unit = unit(&sorted.which, manager, words, &facts)?;
    let text = unit.text();
    if sorted.dry_run {
        return Ok(out.write_all(text.as_bytes())?);
    }
    let path = manager.folder()?.join(sorted.which.unit());
    check_ours(&path)?;
    manager.run(&["daemon-reload"])?;
    write(&path, &text, manager)?;
    manager.run(&["daemon-reload"])?;
    manager.run(&["enable", "--now", &sorted.which.unit()])?;
    // A changed unit needs a restart.
    manager.run(&["restart", &sorted.which.unit()])?;
    writeln!(out, "{} serves on {}", sorted.which.name, facts.address)?;
    let mut errors = terminal::errors();
    let _ = writeln!(
        errors,
        "{}: written; `leyden service logs` shows its log, `leyden service status` its state",
        path.display()
    );
    if manager.is_user {
        let _ = writeln!(errors, "`loginctl enable-linger` starts it with the machine, before you log in");
    }
    Ok(())
}

/// Stops the service, and removes its unit.
pub(super) fn remove(which: &Which) -> Result<(), Failure> {
    let manager = which.manager();
    let path = manager.folder()?.join(which.unit());
    if !path.exists() {
        return Err(Failure::new(format!("{}: no such service", path.display()))
            .hint("--user or --system, and --name, choose the service"));
    }
    check_ours(&path)?;
    manager.run(&["disable", "--now", &which.unit()])?;
    std::fs::remove_file(&path).map_err(|error| failed(&path, "remove", &error, manager))?;
    manager.run(&["daemon-reload"]).map(drop)
}

/// Checks that every model is there, or can be pulled.
fn check_models(facts: &ServiceFacts) -> Result<(), Failure> {
    for model in &facts.models {
        leyden_hub::locate(model, Store::from_env)?;
    }
    Ok(())
}

fn unit(
    which: &Which,
    manager: Manager,
    words: Vec<OsString>,
    facts: &ServiceFacts,
) -> Result<Unit, Failure> {
    if facts.has_secret {
        return Err(Failure::usage("--api-key: other users could read the key in the unit")
            .hint("use --api-keys FILE; docs/server.md describes it under \"Keys\""));
    }
    let program = std::env::current_exe().and_then(std::fs::canonicalize);
    let program = program.map_err(|error| Failure::new(format!("the path of the program: {error}")))?;
    let mut command = vec![program.display().to_string(), "serve".to_owned()];
    for word in words {
        let text = word.into_string();
        command.push(text.map_err(|word| Failure::usage(format!("{}: not UTF-8", word.to_string_lossy())))?);
    }
    if !command.iter().any(|word| word.starts_with("--log-format")) {
        command.extend(["--log-format".to_owned(), "json".to_owned()]);
    }
    let mut credentials = Vec::new();
    let mut variables = Vec::new();
    if manager.is_user {
        variables.extend(knobs::store_variables());
    } else {
        check_places(&which.name, &program, facts)?;
        resolve_names(&mut command, facts)?;
        credentials = hide_keys(&mut command, facts);
    }
    Ok(Unit {
        name: which.name.clone(),
        is_user: manager.is_user,
        command,
        credentials,
        variables,
        stop_seconds: facts.ends_within.as_secs() + SPARE_SECONDS,
    })
}

/// Checks paths of a service that sees no home folders and writes in its own alone.
fn check_places(name: &str, program: &Path, facts: &ServiceFacts) -> Result<(), Failure> {
    let is_home = |path: &Path| {
        ["/home", "/root", "/run/user", "/tmp", "/var/tmp"].iter().any(|home| path.starts_with(home))
    };
    let hidden = |path: &Path| {
        Failure::usage(format!(
            "{}: a service of the system does not see home folders and /tmp",
            path.display()
        ))
    };
    if is_home(program) {
        return Err(
            hidden(program).hint("install the program to /usr/local (docs/install.md), or use --user")
        );
    }
    for model in &facts.models {
        if let Located::Here(path) = leyden_hub::locate(model, Store::from_env)?
            && is_home(&absolute(&path)?)
        {
            return Err(hidden(&path).hint(
                "copy the model to a place such as /srv/models that all users may read, or use --user",
            ));
        }
    }
    let own = [PathBuf::from("/var/lib").join(name), PathBuf::from("/var/cache").join(name)];
    for (option, path) in &facts.writes {
        if !own.iter().any(|own| path.starts_with(own)) {
            return Err(Failure::usage(format!(
                "{option} {}: the service writes below /var/lib/{name} alone",
                path.display()
            ))
            .hint(format!("{option} /var/lib/{name}/{}", option.trim_start_matches('-'))));
        }
    }
    Ok(())
}

/// Replaces names of models by their paths, as the service has another user's store; a single model keeps its name.
fn resolve_names(command: &mut Vec<String>, facts: &ServiceFacts) -> Result<(), Failure> {
    for model in &facts.models {
        let Located::Here(path) = leyden_hub::locate(model, Store::from_env)? else { continue };
        let (name, path) = (model.display().to_string(), absolute(&path)?.display().to_string());
        if name == path {
            continue;
        }
        command.iter_mut().skip(2).filter(|word| **word == name).for_each(|word| word.clone_from(&path));
        if facts.models.len() == 1 {
            command.extend(["--alias".to_owned(), name]);
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// Puts the file of keys among the credentials: root alone need read it.
fn hide_keys(command: &mut [String], facts: &ServiceFacts) -> Vec<(String, PathBuf)> {
    let Some(path) = &facts.keys else { return Vec::new() };
    let (plain, hidden) = (path.display().to_string(), format!("{CREDENTIALS}keys"));
    let mut is_value = false;
    for word in command.iter_mut() {
        if is_value && *word == plain {
            word.clone_from(&hidden);
        } else if *word == format!("--api-keys={plain}") {
            *word = format!("--api-keys={hidden}");
        }
        is_value = word == "--api-keys";
    }
    vec![("keys".to_owned(), path.clone())]
}

/// Checks that a unit of this name is one of ours, if there is one.
fn check_ours(path: &Path) -> Result<(), Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) => {
            Err(Failure::new(format!("{}: another service, which leyden did not write", path.display()))
                .hint("choose another --name"))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new(format!("{}: cannot read: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str, manager: Manager) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, "create", &error, manager))?;
    }
    let written = leyden_files::write(path, text.as_bytes(), OutputOptions::new().files_only());
    written.map_err(|error| failed(path, "write", &error, manager))
}

fn failed(path: &Path, what: &str, error: &io::Error, manager: Manager) -> Failure {
    let failure = Failure::new(format!("{}: cannot {what}: {error}", path.display()));
    let denied = error.kind() == io::ErrorKind::PermissionDenied && !manager.is_user;
    if denied { failure.hint("run it with sudo, or use --user") } else { failure }
}
