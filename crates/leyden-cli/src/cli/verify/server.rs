//! [`Served`]: the model's server as a child process, for the time of a load.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::CommandFactory;

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::{Cli, knobs};

/// Maximum number of the server's last lines that an error repeats.
const MAX_LINES: usize = 5;
/// Text before the address in the server's note.
const LISTENING: &str = "listening on ";

/// A server that runs; killed when dropped. It also ends with this process, because its standard input is closed then.
pub(super) struct Served {
    child: Child,
    /// Address, such as `http://127.0.0.1:40123`.
    pub(super) address: String,
}

impl Served {
    /// Starts a server on a free port of the loopback interface, and waits until it has loaded the model.
    ///
    /// # Errors
    /// The program cannot be started, or ends before it serves.
    pub(super) fn start(args: &Args, model: &Path) -> Result<Served, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("the file of this program cannot be found: {error}")))?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--end-with-input").args(["--host", "127.0.0.1", "--port", "0"]);
        command.args(["--log-format", "off", "--lame-duck", "0", "--kv-type", args.kv_type.name()]);
        if let Some(threads) = args.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        if let Some(isa) = args.arithmetic.isa {
            command.args(["--isa", isa.name()]);
        }
        command.args(args.arithmetic.exact.then_some("--exact"));
        command.args(args.arithmetic.int8.then_some("--int8"));
        command.arg("--").arg(model);
        // Settings of another server in the environment are not those of the evidence.
        for name in knobs::serve_variables(&Cli::command()) {
            command.env_remove(name);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child =
            child.map_err(|error| Failure::new(format!("the server cannot be started: {error}")))?;
        let Some(err) = child.stderr.take() else {
            return Err(Failure::new("the server has no standard error"));
        };
        let (mut lines, mut last) = (BufReader::new(err).lines(), VecDeque::new());
        let mut served = Served { child, address: String::new() };
        while let Some(Ok(line)) = lines.next() {
            if let Some((_, rest)) = line.split_once(LISTENING) {
                rest.split(',').next().unwrap_or_default().clone_into(&mut served.address);
                break;
            }
            last.push_back(line);
            if last.len() > MAX_LINES {
                last.pop_front();
            }
        }
        if served.address.is_empty() {
            let said = last.into_iter().collect::<Vec<_>>().join("; ");
            return Err(Failure::new(format!("the model's server ended: {said}")));
        }
        // A full pipe would stop the server.
        let _ = std::thread::Builder::new().name("server log".to_owned()).spawn(move || lines.for_each(drop));
        Ok(served)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
