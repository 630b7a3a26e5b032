//! The grpc listener.

use std::sync::Arc;

use super::listening::{Serves, Stream};
use super::{App, Protocol};

/// Speaks grpc.
pub struct Grpc {
    app: Arc<App>,
}

impl Grpc {
    /// In front of this.
    pub fn new(app: Arc<App>) -> Self {
        Self { app }
    }
}

impl Serves for Grpc {
    const PROTOCOL: Protocol = Protocol::Grpc;

    async fn serve(&self, stream: Stream) {
        let _ = (&self.app, stream);
    }
}
