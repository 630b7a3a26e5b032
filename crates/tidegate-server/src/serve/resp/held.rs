//! A request that a rule holds, while its client may go away.

use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// What is read ahead of the answer at most, in bytes. Past that, whether the client is still there is not known.
pub(super) const AHEAD_BYTES_MAX: usize = 64 << 10;
const READ_BYTES: usize = 4 << 10;

/// How the wait ended.
pub(super) enum Ended<R> {
    /// With an answer.
    Answered(R),
    /// The client has gone.
    Gone,
}

/// Waits for an answer; what comes in meanwhile is put into `ahead`.
pub(super) async fn wait<F: Future>(
    mut answer: Pin<&mut F>,
    stream: &mut (impl AsyncRead + Unpin),
    ahead: &mut Vec<u8>,
) -> Ended<F::Output> {
    loop {
        ahead.reserve(READ_BYTES);
        tokio::select! {
            biased;
            answer = answer.as_mut() => return Ended::Answered(answer),
            read = stream.read_buf(ahead), if ahead.len() < AHEAD_BYTES_MAX => match read {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Ended::Gone,
            },
        }
    }
}
