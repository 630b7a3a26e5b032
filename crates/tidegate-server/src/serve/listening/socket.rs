//! A socket that is bound, and why one is not.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener, UnixSocket, UnixStream};

use super::{Address, Stream};
use crate::serve::Protocol;

/// Who may connect to a Unix socket: its owner and its group.
const UNIX_MODE: u32 = 0o660;
/// How many connections may wait to be taken; as many as for TCP.
const UNIX_BACKLOG: u32 = 1024;

/// A socket that is bound.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix { socket: UnixListener, _file: SocketFile },
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    protocol: Protocol,
    address: Address,
    problem: String,
    hint: String,
}

/// The file of a Unix socket, gone when it is dropped, unless somebody has put another in its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: FileIdentity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl Socket {
    /// Binds, and says which address it became; none if it is `off`.
    pub async fn bind(protocol: Protocol, address: &Address) -> Result<Option<(Self, Address)>, BindError> {
        let failed = |error: io::Error| BindError::from_io(protocol, address, &error);
        match address {
            Address::Off => Ok(None),
            Address::Tcp(wanted) | Address::Tls(wanted) => {
                let socket = TcpListener::bind(wanted).await.map_err(failed)?;
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

    /// The next connection.
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(socket) => {
                let (stream, _) = socket.accept().await?;
                // It fails if the client is gone, which is no reason to keep others waiting.
                let _ = stream.set_nodelay(true);
                Ok(Stream::Tcp(stream))
            }
            Self::Unix { socket, .. } => Ok(Stream::Unix(socket.accept().await?.0)),
        }
    }
}

/// A socket with a file that says who may connect. Nobody can until it is listened on, so there is no moment at which
/// somebody else gets in, whatever the process makes files with.
fn bind_unix(path: &Path) -> io::Result<(UnixSocket, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    fs::set_permissions(path, fs::Permissions::from_mode(UNIX_MODE))?;
    Ok((socket, file))
}

/// Makes room for a socket where a server that is dead has left one. Nothing else is touched.
async fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let what = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        what => what?,
    };
    if !what.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}

fn identity(path: &Path) -> io::Result<FileIdentity> {
    fs::symlink_metadata(path).map(|what| FileIdentity { device: what.dev(), inode: what.ino() })
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
                "another process listens on it; stop it, or name another path".to_owned()
            }
            (io::ErrorKind::AddrInUse, _) => format!(
                "another process listens on it; stop it, choose another port (--{flag} 127.0.0.1:0 takes any that is \
                 free), or do without (--{flag} off)"
            ),
            (io::ErrorKind::AlreadyExists, _) => "name a path where nothing is yet".to_owned(),
            (io::ErrorKind::AddrNotAvailable, _) => "this machine has no such address".to_owned(),
            (io::ErrorKind::PermissionDenied, Address::Unix(_)) => {
                "check who may write to its directory".to_owned()
            }
            (io::ErrorKind::PermissionDenied, _) => "choose a port from 1024 up".to_owned(),
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

    /// By the time that anybody can connect, the file says who may.
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
