//! RESP, parsed only as far as needed to count commands.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The reply of redis-cell to an allowed request.
const REPLY: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
const READ_BYTES: usize = 16 << 10;
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// Serves until the process is killed.
pub(super) async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(answer(stream));
    }
}

/// Replies to each command, with one write for all commands of one read.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let (mut input, mut output) = (Vec::with_capacity(READ_BYTES), Vec::with_capacity(READ_BYTES));
    while input.len() < COMMAND_BYTES_MAX && stream.read_buf(&mut input).await? > 0 {
        let mut taken = 0;
        while let Some(length) = command_length(&input[taken..]) {
            taken += length;
            output.extend_from_slice(REPLY);
        }
        input.drain(..taken);
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}

/// The length of the first command; `None` if it is incomplete.
fn command_length(input: &[u8]) -> Option<usize> {
    let (words, mut at) = number_line(input, b'*')?;
    for _ in 0..words {
        let (length, used) = number_line(&input[at..], b'$')?;
        at += used + length + b"\r\n".len();
    }
    (at <= input.len()).then_some(at)
}

/// Reads a line like `*3`. Returns its number and its length.
fn number_line(input: &[u8], kind: u8) -> Option<(usize, usize)> {
    if *input.first()? != kind {
        return None;
    }
    let mut number = 0_usize;
    for (at, byte) in input.iter().enumerate().skip(1) {
        match byte {
            b'0'..=b'9' => number = number.checked_mul(10)?.checked_add(usize::from(byte - b'0'))?,
            b'\r' if input.get(at + 1) == Some(&b'\n') => return Some((number, at + 2)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::command_length;

    #[test]
    fn only_complete_commands_are_counted() {
        let two = b"*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!(command_length(two), Some(21));
        assert_eq!(command_length(&two[21..]), Some(14));
        assert!((0..21).all(|cut| command_length(&two[..cut]).is_none()));
        assert_eq!(command_length(b"PING\r\n"), None);
    }
}
