//! Counts the instructions of a piece of code: a child process runs it one instruction at a time.
//!
//! The test starts itself once more. The child asks to be traced and stops before and after each piece of code; the
//! parent lets it take single steps between the two stops and counts them. So the count needs no tool and no
//! performance counters, works with every instruction set of the processor, and is the same on a busy machine.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// Environment variable that names the test to the child.
const CHILD: &str = "LEYDEN_TEST_CHILD";

/// Exit code of the child if tracing is forbidden.
const FORBIDDEN: i32 = 77;

/// Maximum number of steps of a piece of code.
const MAX_STEPS: u64 = 20_000_000;

/// Reason why there are no counts.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The machine does not allow tracing.
    Forbidden(String),
    /// Any other error.
    Broken(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Broken(error.to_string())
    }
}

/// Returns true if this process is the child that runs `test`.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// Lets the parent trace this thread; ends the process if that is forbidden.
pub(crate) fn trace_me() {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the request takes no further arguments.
    let done = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing) };
    if done != 0 {
        let _ = writeln!(io::stderr(), "ptrace: {}", io::Error::last_os_error());
        std::process::exit(FORBIDDEN);
    }
}

/// Marks `code` for the parent to count. Only after [`trace_me`]: otherwise no process wakes one that stops itself.
pub(crate) fn counted(code: impl FnOnce()) {
    stop();
    code();
    stop();
}

fn stop() {
    // SAFETY: a signal to this thread, which the tracer handles.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Starts `test` of this program again, as the child, and counts the instructions of `n` pieces of code.
pub(crate) fn count(test: &str, n: usize) -> Result<Vec<u64>, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let counts = steps(n);
    if counts.is_err() {
        // A traced child may be stopped forever; one that has ended need not be killed.
        let _ = child.kill();
    }
    let said = said(&mut child);
    match counts {
        Err(Failure::Forbidden(_)) => Err(Failure::Forbidden(said)),
        Err(Failure::Broken(why)) => Err(Failure::Broken(format!("{why}; the child said: {said}"))),
        counts => counts,
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = io::Read::read_to_string(&mut stderr, &mut text);
    }
    // The tracer may already have received the end.
    let _ = child.wait();
    text.trim().to_owned()
}

/// Lets the only child of this thread run, and counts its steps between each pair of its own stops.
fn steps(n: usize) -> Result<Vec<u64>, Failure> {
    let mut counts = Vec::new();
    let mut who = await_stop()?;
    // A child must not outlive a failing test.
    request(libc::PTRACE_SETOPTIONS, who, libc::PTRACE_O_EXITKILL)?;
    loop {
        let mut steps = 0;
        loop {
            request(libc::PTRACE_SINGLESTEP, who, 0)?;
            let stopped = await_signal()?;
            match stopped.1 {
                libc::SIGTRAP => steps += 1,
                libc::SIGSTOP => break,
                signal => return Err(Failure::Broken(format!("signal {signal} within the code"))),
            }
            if steps > MAX_STEPS {
                return Err(Failure::Broken(format!("piece {} takes too many steps", counts.len())));
            }
        }
        counts.push(steps);
        if counts.len() == n {
            request(libc::PTRACE_DETACH, who, 0)?;
            return Ok(counts);
        }
        request(libc::PTRACE_CONT, who, 0)?;
        who = await_stop()?;
    }
}

fn request(what: Request, who: libc::pid_t, data: libc::c_int) -> Result<(), Failure> {
    let data = data as usize as *mut libc::c_void;
    // SAFETY: these requests take an integer where others take an address, and change only the child.
    let done = unsafe { libc::ptrace(what, who, std::ptr::null_mut::<libc::c_void>(), data) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}

/// Type of a request, which differs between C libraries.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// Waits until the child stops itself.
fn await_stop() -> Result<libc::pid_t, Failure> {
    match await_signal()? {
        (who, libc::SIGSTOP) => Ok(who),
        (_, signal) => Err(Failure::Broken(format!("signal {signal} between pieces of code"))),
    }
}

/// Waits until the traced thread stops; returns its id and the signal that stopped it.
fn await_signal() -> Result<(libc::pid_t, libc::c_int), Failure> {
    let mut status = 0;
    // Not by the child's id: the traced thread has its own. Only threads that this thread started or traces, so that
    // tests on other threads keep their children.
    // SAFETY: `status` is writable.
    let who = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if who < 0 {
        return Err(io::Error::last_os_error().into());
    }
    if libc::WIFSTOPPED(status) {
        return Ok((who, libc::WSTOPSIG(status)));
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == FORBIDDEN {
        return Err(Failure::Forbidden(String::new()));
    }
    Err(Failure::Broken(format!("the child ended with status {status:#x}")))
}
