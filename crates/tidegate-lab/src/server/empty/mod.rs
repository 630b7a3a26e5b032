//! Servers that decide nothing: what is left when the limiter is taken out of a server.
//!
//! They are made of what Tidegate's listeners are made of, or of what one would make them of first: tokio, hyper, tonic.
//! They run as a process of their own, all three in one, and answer every request alike.

#[cfg(feature = "peers")]
mod grpc;
#[cfg(feature = "peers")]
mod http;
#[cfg(feature = "peers")]
mod resp;

use std::net::SocketAddr;
use std::process::ExitCode;

/// Where to listen.
#[derive(Clone, Copy, Debug)]
pub struct Empty {
    /// The protocol of Redis.
    pub resp: SocketAddr,
    /// HTTP/1.1.
    pub http: SocketAddr,
    /// gRPC.
    pub grpc: SocketAddr,
}

/// Serves until it is killed.
#[cfg(feature = "peers")]
pub fn run(empty: Empty) -> ExitCode {
    let served = tokio::runtime::Runtime::new().and_then(|runtime| {
        runtime.block_on(async {
            let (resp, http) = (bind(empty.resp).await?, bind(empty.http).await?);
            tokio::spawn(grpc::serve(empty.grpc));
            tokio::spawn(resp::serve(resp));
            http::serve(http).await
        })
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// There are none without the feature `peers`.
#[cfg(not(feature = "peers"))]
pub fn run(_empty: Empty) -> ExitCode {
    eprintln!(
        "this program was built without servers that decide nothing (hint: build it with --features peers)"
    );
    ExitCode::FAILURE
}

#[cfg(feature = "peers")]
async fn bind(address: SocketAddr) -> std::io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(address).await
}
