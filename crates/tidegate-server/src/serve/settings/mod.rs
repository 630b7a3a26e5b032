//! What can be set, by flags, by the environment and in a file.

use std::path::PathBuf;

use clap::Parser;

use super::listening::Address;

/// Runs the server.
#[derive(Clone, Debug, Default, Parser)]
pub struct ServeArgs {
    /// Rules: a file or a directory of them.
    #[arg(long, env = "TIDEGATE_RULES", value_name = "PATH")]
    pub rules: Vec<PathBuf>,
    /// Where to speak HTTP.
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR")]
    pub http: Option<Address>,
    /// Where to speak gRPC.
    #[arg(long, env = "TIDEGATE_GRPC", value_name = "ADDR")]
    pub grpc: Option<Address>,
    /// Where to speak the protocol of Redis.
    #[arg(long, env = "TIDEGATE_RESP", value_name = "ADDR")]
    pub resp: Option<Address>,
}
