//! Sends decisions to a node over the Redis protocol.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// A connection to a node.
pub(super) struct Client {
    stream: TcpStream,
    commands: String,
    replies: Vec<u8>,
}

/// The decisions of a pipeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub admitted: u64,
    /// Made without Redis, because it did not answer in time.
    pub degraded: u64,
}

/// How long a node may take to reply. A node that is stopped replies when it goes on.
const REPLY_MAX: Duration = Duration::from_secs(20);
const REPLY_BYTES_MAX: usize = 256 << 10;

impl Client {
    pub fn connect(port: u16) -> Result<Self, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(REPLY_MAX)).map(|()| stream)
        });
        let stream = stream.map_err(|error| format!("cannot connect to a node: {error}"))?;
        Ok(Self { stream, commands: String::new(), replies: vec![0; REPLY_BYTES_MAX] })
    }

    /// Decides a request of each of these users, in one pipeline.
    pub fn check(&mut self, users: impl IntoIterator<Item = u64>) -> io::Result<Decided> {
        self.commands.clear();
        let mut expected = 0;
        for user in users {
            expected += 1;
            // Writing to a string does not fail.
            let _ = write!(
                self.commands,
                "*4\r\n$14\r\nTIDEGATE.CHECK\r\n$3\r\napi\r\n$4\r\nuser\r\n$8\r\n{user:08}\r\n"
            );
        }
        self.stream.write_all(self.commands.as_bytes())?;
        let mut filled = 0;
        loop {
            let bytes = self.stream.read(&mut self.replies[filled..])?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += bytes;
            let text = &self.replies[..filled];
            let count =
                |word: &[u8]| text.windows(word.len()).filter(|window| *window == word).count() as u64;
            let (allowed, denied) = (count(b"allowed"), count(b"denied"));
            // The last reply must be complete: it ends with a line.
            if allowed + denied >= expected && text.ends_with(b"\r\n") {
                return Ok(Decided { admitted: allowed, degraded: count(b"degraded") });
            }
        }
    }
}
