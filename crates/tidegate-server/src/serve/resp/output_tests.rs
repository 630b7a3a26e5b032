//! Replies through streams that buffer until they are flushed, as TLS does.

use std::task::Waker;

use tokio::io::{AsyncReadExt as _, BufWriter, DuplexStream, duplex};

use super::*;

/// Capacity of the buffering stream, and of the pipe behind it, in bytes.
const STREAM_BUFFER_BYTES: usize = 1 << 20;
const DUPLEX_BYTES: usize = 16;

fn duplex_stream() -> (BufWriter<DuplexStream>, DuplexStream) {
    let (server, client) = duplex(DUPLEX_BYTES);
    (BufWriter::with_capacity(STREAM_BUFFER_BYTES, server), client)
}

fn output(bytes: usize) -> OutputBuffer {
    let mut output = OutputBuffer::new(Duration::from_secs(60));
    output.replies.bulk(&vec![b'x'; bytes]);
    output
}

/// The stream accepts everything, but little fits into the pipe. The rest follows while the client reads.
#[tokio::test]
async fn buffered_bytes_are_flushed() {
    let (mut stream, mut client) = duplex_stream();
    let mut output = output(10_000);
    let mut context = Context::from_waker(Waker::noop());
    assert!(output.poll_write(&mut stream, &mut context).is_pending());
    assert_eq!(output.pending_bytes(), 0, "the stream accepted everything");
    let expected = format!("$10000\r\n{}\r\n", "x".repeat(10_000));
    assert_eq!(read_while_writing(expected.len(), &mut output, &mut stream, &mut client).await, expected);
    // Nothing is left to do.
    assert_eq!(output.poll_write(&mut stream, &mut context), Poll::Ready(Ok(())));
}

/// Replies are added while earlier ones are being sent.
#[tokio::test]
async fn later_replies_follow() {
    let (mut stream, mut client) = duplex_stream();
    let mut output = output(1_000);
    let mut context = Context::from_waker(Waker::noop());
    for number in 0..100 {
        output.replies.integer(number);
        assert!(output.poll_write(&mut stream, &mut context).is_pending());
    }
    let mut expected = format!("$1000\r\n{}\r\n", "x".repeat(1_000));
    (0..100).for_each(|number| expected += &format!(":{number}\r\n"));
    assert_eq!(read_while_writing(expected.len(), &mut output, &mut stream, &mut client).await, expected);
}

/// A client that does not read what the stream buffers times out.
#[tokio::test]
async fn a_client_that_does_not_read_times_out() {
    let (mut stream, _client) = duplex_stream();
    let mut output = output(1_000);
    output.timeout = Duration::from_millis(20);
    assert_eq!(output.write(&mut stream).await, Err(ClientGone));
}

/// Writes while the client reads, until it has this many bytes.
async fn read_while_writing(
    bytes: usize,
    output: &mut OutputBuffer,
    stream: &mut BufWriter<DuplexStream>,
    client: &mut DuplexStream,
) -> String {
    let mut received = Vec::new();
    let reading = async { while received.len() < bytes && client.read_buf(&mut received).await.is_ok() {} };
    let both = async { tokio::join!(output.write(stream), reading).0 };
    let result = tokio::time::timeout(Duration::from_secs(5), both).await;
    assert_eq!(result, Ok(Ok(())), "{} of {bytes} bytes arrived", received.len());
    String::from_utf8(received).expect("text")
}
