//! The program `tidegate-lab`; the library describes its subcommands.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_lab::cli::run()
}
