//! What a request came by.

/// What a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// HTTP with JSON.
    Http,
    /// Envoy's rate limit service over gRPC.
    Grpc,
    /// The protocol of Redis.
    Resp,
    /// HTTP, for operators.
    Admin,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Http, Self::Grpc, Self::Resp, Self::Admin];

    /// As it is written in flags, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Admin => "admin",
        }
    }
}
