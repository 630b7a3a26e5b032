//! Where to listen.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Where to listen, as it is written: `127.0.0.1:8080`, `tls:0.0.0.0:8443`, `unix:/run/tidegate.sock`, `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port; port 0 is any that is free.
    Tcp(SocketAddr),
    /// The same, encrypted.
    Tls(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
    /// Nowhere.
    Off,
}

/// It is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    written: String,
}

impl Address {
    /// Whether only what runs on this machine can come in by it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) | Self::Tls(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) | Self::Off => true,
        }
    }

    /// Whether both cannot be listened on at once.
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
        let not = || AddressError { written: text.to_owned() };
        let socket = |text: &str| {
            // Those who write `:8080` mean this machine, as everywhere here.
            match text.strip_prefix("localhost").unwrap_or(text) {
                port if port.starts_with(':') => format!("127.0.0.1{port}").parse(),
                _ => text.parse::<SocketAddr>(),
            }
            .map_err(|_| not())
        };
        match text.split_once(':') {
            _ if text == "off" => Ok(Self::Off),
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(PathBuf::from(path))),
            Some(("unix", _)) => Err(not()),
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
            "`{}` is no address to listen on (hint: 127.0.0.1:8080, port 0 for any; tls:0.0.0.0:8443; \
             unix:/run/tidegate.sock; off)",
            self.written
        )
    }
}

impl std::error::Error for AddressError {}
