//! `cargo xtask dist` with the program that was built beside the tests, the install script, and the files of `packaging/`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use leyden_testkit::skip;

/// Returns the program that tests of the whole workspace build beside this one.
fn program() -> Option<PathBuf> {
    let path = std::env::current_exe().unwrap().ancestors().nth(2)?.join("leyden");
    path.is_file().then_some(path)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[track_caller]
fn ok(command: &mut Command) -> String {
    let output = run(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn fails(command: &mut Command, wanted: &str) {
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(wanted), "{command:?}: {said}");
}

/// Serves the files of a folder over HTTP, to one connection after the other.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let name = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match fs::read(folder.join(&name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&body);
        }
    });
    address
}

#[test]
fn a_release_is_made_verified_and_installed() {
    let Some(program) = program() else {
        return skip("the program is not built: cargo build --release -p leyden-cli");
    };
    let folder = tempfile::tempdir().unwrap();
    let (out, key) = (folder.path().join("out"), folder.path().join("release.key"));
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let dist = |out: &Path| {
        let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
        dist.args(["dist", "--target", &triple, "--program"]).arg(&program);
        dist.arg("--key").arg(&key).arg("--out").arg(out);
        dist
    };
    let said = ok(&mut dist(&out));
    assert!(said.contains("needs glibc 2.") && said.contains("signed with the key "), "{said}");
    let digits = said.rsplit(' ').next().unwrap().trim();
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("leyden-{version}-{triple}");

    // The same program, commit and key make the same bytes.
    let again = folder.path().join("again");
    ok(&mut dist(&again));
    for file in ["SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.minisig", "key.pem"] {
        assert_eq!(fs::read(out.join(file)).unwrap(), fs::read(again.join(file)).unwrap(), "{file}");
    }
    ok(Command::new("sha256sum").args(["--strict", "-c", "SHA256SUMS"]).current_dir(&out));
    let openssl = [
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "key.pem",
        "-rawin",
        "-in",
        "SHA256SUMS",
        "-sigfile",
        "SHA256SUMS.sig",
    ];
    ok(Command::new("openssl").args(openssl).current_dir(&out));

    let listed = ok(Command::new("tar").arg("-tzf").arg(out.join(format!("{name}.tar.gz"))));
    for file in [
        "bin/leyden",
        "share/doc/leyden/LICENSE",
        "share/doc/leyden/NOTICE",
        "share/doc/leyden/THIRD-PARTY.txt",
        "share/man/man1/leyden-serve.1",
        "share/bash-completion/completions/leyden",
        "share/zsh/site-functions/_leyden",
        "share/fish/vendor_completions.d/leyden.fish",
        "lib/systemd/system/leyden.service",
    ] {
        assert!(listed.lines().any(|line| line == format!("{name}/{file}")), "{file}: {listed}");
    }
    let sbom: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join(format!("{name}.cdx.json"))).unwrap()).unwrap();
    assert_eq!(sbom["metadata"]["component"]["hashes"][0]["content"].as_str().unwrap().len(), 64);

    let debian = if std::env::consts::ARCH == "x86_64" { "amd64" } else { "arm64" };
    let package = out.join(format!("leyden_{version}+glibc_{debian}.deb"));
    if run(Command::new("sh").args(["-c", "command -v dpkg-deb"])).status.success() {
        let fields = ok(Command::new("dpkg-deb").arg("--field").arg(&package));
        assert!(fields.contains("Package: leyden\n") && fields.contains("Depends: libc6 (>= 2."), "{fields}");
        ok(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(folder.path().join("deb")));
        assert!(
            ok(Command::new(folder.path().join("deb/usr/bin/leyden")).arg("--version")).contains(version)
        );
        let unit =
            fs::read_to_string(folder.path().join("deb/usr/lib/systemd/system/leyden.service")).unwrap();
        assert!(unit.contains("ExecStart=/usr/bin/leyden "));
    }

    // The script verifies, installs from a folder and over HTTP, and replaces an older program.
    let prefix = folder.path().join("a prefix");
    let install = |url: &str, more: &[&str]| {
        let mut install = Command::new("sh");
        install
            .arg(out.join("install.sh"))
            .args(["--url", url, "--target", &triple, "--prefix"])
            .arg(&prefix)
            .args(more);
        install
    };
    let there = out.display().to_string();
    ok(&mut install(&format!("file://{there}"), &[]));
    ok(&mut install(&serve(out.clone()), &["--key", digits]));
    assert!(ok(Command::new(prefix.join("bin/leyden")).arg("--version")).contains(version));
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/leyden.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart=\"{}/bin/leyden\" ", prefix.display())));
    fs::remove_dir_all(&prefix).unwrap();

    fails(&mut install(&there, &["--key", &"ab".repeat(32)]), "not signed with the key");
    fails(&mut install(&there, &["--key", "12"]), "64 hexadecimal digits");
    fails(&mut install(&there, &["--version", "9.9.9"]), "cannot get");
    fails(&mut install("ftp://nowhere", &[]), "want https://");
    let archive = out.join(format!("{name}.tar.gz"));
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, &bytes).unwrap();
    fails(&mut install(&there, &[]), "its checksum is not that in SHA256SUMS");
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    fs::write(out.join("SHA256SUMS"), sums.replacen('a', "b", 1)).unwrap();
    fails(&mut install(&there, &[]), "is not signed with the key");
    assert!(!prefix.exists(), "nothing is installed before it is verified");
}

#[test]
fn errors_say_what_to_do() {
    let dist = |words: &[&str]| {
        let mut dist = Command::new(env!("CARGO_BIN_EXE_xtask"));
        dist.arg("dist").args(words);
        let output = run(&mut dist);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (words, wanted) in [
        (&["--target", "riscv64-unknown-linux-gnu"][..], "not one of x86_64-unknown-linux-musl"),
        (&["--key"], "a value is missing"),
        (&["--program", "x"], "with one --target"),
        (&["--colour"], "unknown option"),
        (
            &["--program", "Cargo.toml", "--target", "x86_64-unknown-linux-gnu"],
            "not a 64-bit little-endian ELF",
        ),
    ] {
        let said = dist(words);
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
}

/// Chart, manifests, Dockerfiles and the script pass the tools that read them.
#[test]
fn files_of_packaging_are_valid() {
    let Some(program) = program() else {
        return skip("the program is not built: cargo build --release -p leyden-cli");
    };
    let modules = "import helm_python, jsonschema, kubernetes_validate, yaml";
    if !run(Command::new("python3").args(["-c", modules])).status.success() {
        return skip("the Python packages helm-python-sdk and kubernetes-validate are not installed");
    }
    ok(Command::new("python3").arg(root().join("packaging/check.py")).arg(program));
}

/// Every command block of the pages whose first word is a program of this repository parses: options and files exist.
#[test]
fn commands_in_the_pages_exist() {
    let Some(program) = program() else {
        return skip("the program is not built: cargo build --release -p leyden-cli");
    };
    let mut checked = 0;
    for page in ["install.md", "deploy.md"] {
        let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
        for line in
            text.split("```sh\n").skip(1).filter_map(|part| part.split("```").next()).flat_map(str::lines)
        {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split_whitespace().collect();
            for word in words.iter().filter(|word| word.starts_with("packaging/")) {
                assert!(root().join(word).exists(), "{page}: {word}");
            }
            if words.first() == Some(&"leyden") {
                let command: Vec<&str> =
                    words[1..].iter().take_while(|word| !word.starts_with('-')).copied().collect();
                let help = ok(Command::new(&program)
                    .args(command.iter().take(if command[0] == "service" { 2 } else { 1 }))
                    .arg("--help"));
                let serve = ok(Command::new(&program).args(["serve", "--help"]));
                for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
                    let option = option.split('=').next().unwrap_or_default();
                    assert!(
                        format!("{help}{serve}").contains(&format!("--{option}")),
                        "{page}: {line}: --{option}"
                    );
                }
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "{checked}");
}
