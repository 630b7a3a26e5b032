//! What is spoken, and how many requests are under way at once.

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// The protocol of Redis.
    Resp,
    /// HTTP/1.1 with JSON.
    Http,
    /// gRPC.
    Grpc,
}

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The protocol of Redis, 50 connections, one command at a time on each.
    Resp,
    /// The same with 16 commands at a time.
    RespPipelined,
    /// HTTP/1.1, 50 connections, one request at a time on each.
    Http,
    /// gRPC, 50 connections, one stream at a time on each.
    GrpcWide,
    /// gRPC, 8 connections with 16 streams at a time.
    GrpcDeep,
}

/// Connections, and requests under way at once on each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Width {
    pub connections: u32,
    pub at_once: u32,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Resp, Self::RespPipelined, Self::Http, Self::GrpcWide, Self::GrpcDeep];

    /// As `--only` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resp => "resp",
            Self::RespPipelined => "resp-p16",
            Self::Http => "http",
            Self::GrpcWide => "grpc-50x1",
            Self::GrpcDeep => "grpc-8x16",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Resp => "RESP, 50 connections",
            Self::RespPipelined => "RESP, 50 connections, pipeline of 16",
            Self::Http => "HTTP, 50 connections",
            Self::GrpcWide => "gRPC, 50 connections x 1 stream",
            Self::GrpcDeep => "gRPC, 8 connections x 16 streams",
        }
    }

    pub(super) const fn wire(self) -> Wire {
        match self {
            Self::Resp | Self::RespPipelined => Wire::Resp,
            Self::Http => Wire::Http,
            Self::GrpcWide | Self::GrpcDeep => Wire::Grpc,
        }
    }

    pub(super) const fn width(self) -> Width {
        let (connections, at_once) = match self {
            Self::Resp | Self::Http | Self::GrpcWide => (50, 1),
            Self::RespPipelined => (50, 16),
            Self::GrpcDeep => (8, 16),
        };
        Width { connections, at_once }
    }
}
