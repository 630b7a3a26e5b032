//! The http listener.

use std::sync::Arc;

use super::listening::{Serves, Stream};
use super::{App, Protocol};

/// Speaks http.
pub struct Http {
    app: Arc<App>,
}

impl Http {
    /// In front of this.
    pub fn new(app: Arc<App>) -> Self {
        Self { app }
    }
}

impl Serves for Http {
    const PROTOCOL: Protocol = Protocol::Http;

    async fn serve(&self, stream: Stream) {
        let _ = (&self.app, stream);
    }
}
