//! Binds sockets, with errors that say what to do.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};

use super::{Address, Stream};
use crate::serve::Protocol;

/// Permissions of a Unix socket: its owner and its group may connect.
const UNIX_MODE: u32 = 0o660;
/// Maximum number of connections waiting to be accepted, as for TCP.
const UNIX_BACKLOG: u32 = 1024;

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix { socket: UnixListener, _file: SocketFile },
}

/// Why an address cannot be bound.
#[derive(Debug)]
pub struct BindError {
    protocol: Protocol,
    address: Address,
    problem: String,
    hint: String,
}

/// The file of a Unix socket. Removed when dropped, unless it was replaced by another file.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl Socket {
    /// Binds an address. Returns the socket and the actual address, or `None` if the address is `off`.
    pub async fn bind(protocol: Protocol, address: &Address) -> Result<Option<(Self, Address)>, BindError> {
        let failed = |error: io::Error| BindError::from_io(protocol, address, &error);
        match address {
            Address::Off => Ok(None),
            Address::Tcp(ip_address) | Address::Tls(ip_address) => {
                let socket = TcpListener::bind(ip_address).await.map_err(failed)?;
                let bound = socket.local_addr().map_err(failed)?;
                let is_tls = matches!(address, Address::Tls(_));
                let bound = if is_tls { Address::Tls(bound) } else { Address::Tcp(bound) };
                Ok(Some((Self::Tcp(socket), bound)))
            }
            Address::Unix(path) => {
                remove_stale_socket(path).await.map_err(failed)?;
                let (socket, file) = bind_unix(path).map_err(failed)?;
                let socket = socket.listen(UNIX_BACKLOG).map_err(failed)?;
                Ok(Some((Self::Unix { socket, _file: file }, address.clone())))
            }
        }
    }

    /// Accepts a connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                // It fails if the client is gone. The next read reports that.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix { socket, .. } => Ok(Stream::Unix(socket.accept().await?.0)),
        }
    }
}

/// Binds a Unix socket and sets its permissions. Clients can connect only after `listen`, so the permissions are in
/// place before, whatever the umask.
fn bind_unix(path: &Path) -> io::Result<(UnixSocket, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    fs::set_permissions(path, fs::Permissions::from_mode(UNIX_MODE))?;
    Ok((socket, file))
}

/// Removes the socket file that a dead server left behind. Other files are kept.
async fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::symlink_metadata(path).map(|metadata| FileIdentity { device: metadata.dev(), inode: metadata.ino() })
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl BindError {
    fn from_io(protocol: Protocol, address: &Address, error: &io::Error) -> Self {
        let flag = protocol.as_str();
        let hint = match (error.kind(), address) {
            (io::ErrorKind::AddrInUse, Address::Unix(_)) => {
                "another process uses it; stop that process, or choose another path".to_owned()
            }
            (io::ErrorKind::AddrInUse, _) => format!(
                "another process uses it; stop that process, choose another port (--{flag} 127.0.0.1:0 for \
                 any free port), or turn this listener off (--{flag} off)"
            ),
            (io::ErrorKind::AlreadyExists, _) => "choose a path that does not exist".to_owned(),
            (io::ErrorKind::AddrNotAvailable, _) => "this machine has no such address".to_owned(),
            (io::ErrorKind::PermissionDenied, Address::Unix(_)) => {
                "check the permissions of its directory".to_owned()
            }
            (io::ErrorKind::PermissionDenied, _) => "choose a port of 1024 or higher".to_owned(),
            (io::ErrorKind::NotFound, _) => "create its directory".to_owned(),
            _ => "choose another address".to_owned(),
        };
        let problem = match error.kind() {
            io::ErrorKind::AddrInUse => "it is in use".to_owned(),
            _ => error.to_string(),
        };
        Self { protocol, address: address.clone(), problem, hint }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { protocol, address, problem, hint } = self;
        write!(f, "{}: cannot listen on {address}: {problem} (hint: {hint})", protocol.as_str())
    }
}

impl std::error::Error for BindError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Permissions are set before the first client can connect.
    #[tokio::test]
    async fn permissions_are_set_before_connections() {
        let path = std::env::temp_dir().join(format!("tidegate-{}.sock", std::process::id()));
        let (socket, file) = bind_unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, UNIX_MODE);
        let refused = UnixStream::connect(&path).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let _listener = socket.listen(UNIX_BACKLOG).unwrap();
        UnixStream::connect(&path).await.unwrap();
        drop(file);
        assert!(!path.exists());
    }
}
