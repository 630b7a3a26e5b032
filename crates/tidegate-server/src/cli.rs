//! The command line.

use clap::{Parser, Subcommand};

use crate::check::CheckArgs;
use crate::convert::ConvertArgs;
use crate::schema::SchemaArgs;
use crate::serve::ServeArgs;
use crate::trace::TraceArgs;

/// A rate limiter: a server, and tools to choose limits. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
pub enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    Convert(ConvertArgs),
    Schema(SchemaArgs),
    Trace(TraceArgs),
}
