//! The protocols of the listeners.

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP with JSON.
    Http,
    /// Envoy's rate limit service over gRPC.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// HTTP for operators.
    Admin,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Http, Self::Grpc, Self::Resp, Self::Admin];

    /// The name in flags, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Admin => "admin",
        }
    }
}
