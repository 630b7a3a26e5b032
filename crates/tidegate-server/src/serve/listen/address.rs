//! The address of a listener.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a listener: `127.0.0.1:8080`, `tls:0.0.0.0:8443`, `unix:/run/tidegate.sock`, `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address and a port. Port 0 means any free port.
    Tcp(SocketAddr),
    /// The same with TLS.
    Tls(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
    /// No listener.
    Off,
}

/// The text is not an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    text: String,
}

impl Address {
    /// Whether only processes on this machine can connect.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) | Self::Off => true,
        }
    }

    /// Whether the two addresses cannot be bound at the same time.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one) | Self::Tls(one), Self::Tcp(other) | Self::Tls(other)) => {
                one == other && one.port() != 0
            }
            (Self::Unix(one), Self::Unix(other)) => one == other,
            _ => false,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError { text: text.to_owned() };
        let socket = |text: &str| {
            // `:8080` means this machine.
            match text.strip_prefix("localhost").unwrap_or(text) {
                port if port.starts_with(':') => format!("127.0.0.1{port}").parse(),
                _ => text.parse::<SocketAddr>(),
            }
            .map_err(|_| error())
        };
        match text.split_once(':') {
            _ if text == "off" => Ok(Self::Off),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(PathBuf::from(path))),
            Some(("unix", _)) => Err(error()),
            Some(("tls", address)) => socket(address).map(Self::Tls),
            _ => socket(text).map(Self::Tcp),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Off => f.write_str("off"),
        }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a listen address (hint: 127.0.0.1:8080, port 0 for any; tls:0.0.0.0:8443; \
             unix:/run/tidegate.sock; off)",
            self.text
        )
    }
}

impl std::error::Error for AddressError {}
