//! The program that the tests start to read a document.

fn main() -> std::process::ExitCode {
    leyden_documents::answer().unwrap_or(std::process::ExitCode::FAILURE)
}
