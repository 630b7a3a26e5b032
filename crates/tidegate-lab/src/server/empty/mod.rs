//! Servers without a limiter, to see what the rest of a server costs.
//!
//! They use common libraries: tokio, hyper and tonic. All three run in one separate process and always send the same
//! answer.

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
pub struct EmptyServerAddresses {
    /// RESP.
    pub resp: SocketAddr,
    /// HTTP/1.1.
    pub http: SocketAddr,
    /// gRPC.
    pub grpc: SocketAddr,
}

/// Serves until the process is killed.
#[cfg(feature = "peers")]
pub fn run(addresses: EmptyServerAddresses) -> ExitCode {
    let served = tokio::runtime::Runtime::new().and_then(|runtime| {
        runtime.block_on(async {
            let (resp, http) = (bind(addresses.resp).await?, bind(addresses.http).await?);
            tokio::spawn(grpc::serve(addresses.grpc));
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

/// Fails: these servers need the feature `peers`.
#[cfg(not(feature = "peers"))]
pub fn run(_addresses: EmptyServerAddresses) -> ExitCode {
    eprintln!("this program was built without the empty servers (hint: build it with --features peers)");
    ExitCode::FAILURE
}

#[cfg(feature = "peers")]
async fn bind(address: SocketAddr) -> std::io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(address).await
}
