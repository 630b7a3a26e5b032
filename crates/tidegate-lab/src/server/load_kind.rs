//! The kinds of load: a protocol, and how many requests are in flight.

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP, the protocol of Redis.
    Resp,
    /// HTTP/1.1 with JSON.
    Http,
    /// gRPC.
    Grpc,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// RESP, 50 connections, one command in flight on each.
    Resp,
    /// RESP, 50 connections, 16 commands in flight on each.
    RespPipelined,
    /// HTTP/1.1, 50 connections, one request in flight on each.
    Http,
    /// gRPC, 50 connections, one stream in flight on each.
    GrpcWide,
    /// gRPC, 8 connections, 16 streams in flight on each.
    GrpcDeep,
}

/// How many requests are in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub connections: u32,
    pub per_connection: u32,
}

impl LoadKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::Resp, Self::RespPipelined, Self::Http, Self::GrpcWide, Self::GrpcDeep];

    /// The name for `--only`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::RespPipelined => "resp-p16",
            Self::Http => "http",
            Self::GrpcWide => "grpc-50x1",
            Self::GrpcDeep => "grpc-8x16",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Resp => "RESP, 50 connections",
            Self::RespPipelined => "RESP, 50 connections, pipeline of 16",
            Self::Http => "HTTP, 50 connections",
            Self::GrpcWide => "gRPC, 50 connections x 1 stream",
            Self::GrpcDeep => "gRPC, 8 connections x 16 streams",
        }
    }

    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Resp | Self::RespPipelined => Protocol::Resp,
            Self::Http => Protocol::Http,
            Self::GrpcWide | Self::GrpcDeep => Protocol::Grpc,
        }
    }

    pub(crate) const fn in_flight(self) -> InFlight {
        let (connections, per_connection) = match self {
            Self::Resp | Self::Http | Self::GrpcWide => (50, 1),
            Self::RespPipelined => (50, 16),
            Self::GrpcDeep => (8, 16),
        };
        InFlight { connections, per_connection }
    }
}
