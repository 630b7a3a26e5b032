//! The binary `tidegate`, as a library: so that benchmarks and fuzzers reach what it is made of. What is public here is
//! for them, and may change with any version; programs use the crate `tidegate`.

mod check;
mod cli;
mod convert;
mod output;
pub mod request_json;
mod schema;
pub mod serve;
mod shown;
mod size;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use serve::ServeArgs;

/// What the binary does.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Some(command) }) => match command {
            Command::Serve(args) => serve::main(args),
            Command::Check(args) => check::main(&args),
            Command::Convert(args) => convert::main(&args),
            Command::Schema(args) => schema::main(&args),
            Command::Trace(args) => trace::main(&args),
        },
        // Whoever asks for nothing wants to see it work. Parsed, so that the environment has its say.
        Ok(Cli { command: None }) => match ServeArgs::try_parse_from(["tidegate serve"]) {
            Ok(args) => serve::main(args),
            Err(error) => usage(&error),
        },
        Err(error) => usage(&error),
    }
}

fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}
