//! The resp listener.

use std::sync::Arc;

use super::listening::{Serves, Stream};
use super::{App, Protocol};

/// Speaks resp.
pub struct Resp {
    app: Arc<App>,
}

impl Resp {
    /// In front of this.
    pub fn new(app: Arc<App>) -> Self {
        Self { app }
    }
}

impl Serves for Resp {
    const PROTOCOL: Protocol = Protocol::Resp;

    async fn serve(&self, stream: Stream) {
        let _ = (&self.app, stream);
    }
}
