//! The command line.

use clap::{Parser, Subcommand};

use crate::check::CheckArgs;
use crate::convert::ConvertArgs;
use crate::schema::SchemaArgs;
use crate::trace::TraceArgs;

/// A rate limiter: tools to choose limits and to see what they do.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Check(CheckArgs),
    Convert(ConvertArgs),
    Schema(SchemaArgs),
    Trace(TraceArgs),
}
