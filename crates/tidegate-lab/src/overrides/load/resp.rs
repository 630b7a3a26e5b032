//! The Redis protocol: one connection, whose commands are sent as a pipeline.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use super::{Connection, wrong_reply};
use crate::overrides::node::DOMAIN;
use crate::server::check::connect;

pub(super) struct RespConnection {
    stream: TcpStream,
    commands: String,
    replies: Vec<u8>,
}

impl RespConnection {
    pub fn connect(port: u16) -> io::Result<Self> {
        Ok(Self { stream: connect(port)?, commands: String::new(), replies: vec![0; 64 << 10] })
    }

    /// Every reply is an array that begins with the decision.
    fn read_replies(&mut self, expected: usize) -> Result<(), String> {
        let (mut seen, mut filled) = (0, 0);
        while seen < expected {
            let bytes = self.stream.read(&mut self.replies[filled..]).map_err(|error| error.to_string())?;
            if bytes == 0 {
                return Err("the server closed the connection (hint: look into its log)".to_owned());
            }
            filled += bytes;
            let text = &self.replies[..filled];
            if text.windows(6).any(|window| window == b"denied" || window == b"\r\n-ERR") {
                return Err(wrong_reply(text));
            }
            seen = text.windows(7).filter(|window| *window == b"allowed").count();
            // The last reply must be complete: it ends with a line.
            if seen == expected && !text.ends_with(b"\r\n") {
                seen -= 1;
            }
        }
        Ok(())
    }
}

impl Connection for RespConnection {
    fn decide(&mut self, keys: &[u64]) -> Result<(), String> {
        self.commands.clear();
        for key in keys {
            // Writing to a string does not fail.
            let _ = write!(
                self.commands,
                "*4\r\n$14\r\nTIDEGATE.CHECK\r\n${}\r\n{DOMAIN}\r\n$4\r\nuser\r\n$8\r\n{key:08}\r\n",
                DOMAIN.len()
            );
        }
        self.stream.write_all(self.commands.as_bytes()).map_err(|error| error.to_string())?;
        self.read_replies(keys.len())
    }
}
