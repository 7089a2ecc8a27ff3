//! Other programs: their output as text.

use std::path::Path;
use std::process::Command;

/// Runs a program in a folder, and returns its standard output without the white space around it.
///
/// # Errors
/// It cannot be started, or fails; the error has its standard error.
pub(crate) fn output(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
