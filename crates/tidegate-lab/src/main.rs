//! `tidegate-lab`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_lab::cli::run()
}
