//! Program and machine, for evidence.

use leyden_kernels::topology::Topology;
use leyden_verify::{Machine, Program};

use crate::cli::failure::Failure;

/// Describes this program.
///
/// # Errors
/// Its file cannot be read.
pub(in crate::cli) fn program() -> Result<Program, Failure> {
    let path = std::env::current_exe()
        .map_err(|error| Failure::new(format!("the file of this program cannot be found: {error}")))?;
    Ok(Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: leyden_verify::sha256_of_file(&path)?,
    })
}

/// Describes this machine.
pub(in crate::cli) fn machine() -> Machine {
    let topology = Topology::detect();
    let cores = topology.allowed_cores().count();
    let processor = topology.processor;
    let system = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Machine {
        arch: processor.arch,
        processor: processor.brand,
        vendor: processor.vendor,
        model: processor.model,
        cores,
        os: format!("{} {}", text(system.sysname()), text(system.release())),
    }
}
