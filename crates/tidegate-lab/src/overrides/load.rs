//! Decisions of random keys over the Redis protocol.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use super::node::{DOMAIN, OVERRIDE_LIMIT};

/// Commands in a pipeline.
const PIPELINE: u64 = 16;
/// An odd number, so that adding it visits all keys before one comes again.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

pub(super) struct Load {
    stream: TcpStream,
    keys: u64,
    state: u64,
    commands: String,
    replies: Vec<u8>,
}

impl Load {
    pub fn connect(port: u16, keys: u64) -> Result<Self, String> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
            .map_err(|error| format!("cannot connect to the server: {error}"))?;
        Ok(Self { stream, keys, state: 1, commands: String::new(), replies: vec![0; 64 << 10] })
    }

    /// A decision for each key, in order.
    pub fn send_each(&mut self) -> Result<(), String> {
        let mut next = 0;
        self.send_keys(self.keys, |_, _| {
            next += 1;
            next - 1
        })
    }

    /// Decisions for random keys.
    pub fn send(&mut self, decisions: u64) -> Result<(), String> {
        self.send_keys(decisions, |state, keys| {
            *state = state.wrapping_add(STRIDE);
            // The upper half of a product is spread evenly over all keys.
            let mixed = *state ^ (*state >> 29);
            ((u128::from(mixed.wrapping_mul(STRIDE)) * u128::from(keys)) >> 64) as u64
        })
    }

    fn send_keys(
        &mut self,
        decisions: u64,
        mut next_key: impl FnMut(&mut u64, u64) -> u64,
    ) -> Result<(), String> {
        let mut left = decisions;
        while left > 0 {
            let batch = left.min(PIPELINE);
            self.commands.clear();
            for _ in 0..batch {
                let key = next_key(&mut self.state, self.keys);
                // Writing to a string does not fail.
                let _ = write!(
                    self.commands,
                    "*4\r\n$14\r\nTIDEGATE.CHECK\r\n${}\r\n{DOMAIN}\r\n$4\r\nuser\r\n$8\r\n{key:08}\r\n",
                    DOMAIN.len()
                );
            }
            self.stream.write_all(self.commands.as_bytes()).map_err(|error| error.to_string())?;
            self.read_replies(batch)?;
            left -= batch;
        }
        Ok(())
    }

    /// Every reply is an array that begins with the decision, and all requests are allowed.
    fn read_replies(&mut self, expected: u64) -> Result<(), String> {
        let (mut seen, mut filled) = (0, 0);
        while seen < expected {
            let bytes = self.stream.read(&mut self.replies[filled..]).map_err(|error| error.to_string())?;
            if bytes == 0 {
                return Err("the server closed the connection (hint: look into its log)".to_owned());
            }
            filled += bytes;
            let text = &self.replies[..filled];
            if text.windows(6).any(|window| window == b"denied" || window == b"\r\n-ERR") {
                return Err(format!(
                    "the server denied a request of {OVERRIDE_LIMIT}: {:?}",
                    String::from_utf8_lossy(text)
                ));
            }
            seen = text.windows(7).filter(|window| *window == b"allowed").count() as u64;
            // The last reply must be complete: it ends with a line.
            if seen == expected && !text.ends_with(b"\r\n") {
                seen -= 1;
            }
        }
        Ok(())
    }
}
