//! The binary `tidegate`.

mod check;
mod cli;
mod convert;
mod output;
mod request_json;
mod schema;
mod shown;
mod size;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(Cli { command: Some(command) }) => match command {
            Command::Check(args) => check::main(&args),
            Command::Convert(args) => convert::main(&args),
            Command::Schema(args) => schema::main(&args),
            Command::Trace(args) => trace::main(&args),
        },
        Ok(Cli { command: None }) => {
            // Whoever asks for nothing wants to know what there is. A reader that went away does not.
            let _ = Cli::command().print_help();
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
