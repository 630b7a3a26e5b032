//! The binary `tidegate`, as a library: so that benchmarks and fuzzers reach what it is made of. What is public here is
//! for them, and may change with any version; programs use the crate `tidegate`.

mod check;
mod cli;
mod convert;
mod hint;
mod output;
pub mod json;
mod schema;
pub mod serve;
mod text;
mod size;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// What the binary does.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Some(command) }) => match command {
            // It parses its arguments again, with what the settings file says among them.
            Command::Serve(_) => serve::main(std::env::args_os().skip(2)),
            Command::Check(args) => check::main(&args),
            Command::Convert(args) => convert::main(&args),
            Command::Schema(args) => schema::main(&args),
            Command::Trace(args) => trace::main(&args),
        },
        // Whoever asks for nothing wants to see it work.
        Ok(Cli { command: None }) => serve::main([]),
        Err(error) => report_usage_error(&error),
    }
}

fn report_usage_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if let Some(variable) = serve::settings::variable_of_error(error) {
        output::print_stderr(&format!("\nThe value is from the environment: {variable}."));
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
