//! Answers through streams that keep what is written to them until they are flushed, as encryption does.

use std::task::Waker;

use tokio::io::{AsyncReadExt as _, BufWriter, DuplexStream, duplex};

use super::*;

/// What fits into the stream that keeps it, and what then fits on the way, in bytes.
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

/// All of it is in the stream at once, and little of it on its way: the rest goes as the client reads.
#[tokio::test]
async fn buffered_bytes_are_flushed() {
    let (mut stream, mut client) = duplex_stream();
    let mut output = output(10_000);
    let mut context = Context::from_waker(Waker::noop());
    assert!(output.poll_write(&mut stream, &mut context).is_pending());
    assert_eq!(output.pending_bytes(), 0, "the stream has taken all of it");
    let expected = format!("$10000\r\n{}\r\n", "x".repeat(10_000));
    assert_eq!(read_while_writing(expected.len(), &mut output, &mut stream, &mut client).await, expected);
    // And there is nothing more to do.
    assert_eq!(output.poll_write(&mut stream, &mut context), Poll::Ready(Ok(())));
}

/// More comes while what was before is on its way.
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

/// A client that does not read what the stream keeps for it is gone after a while, as any other.
#[tokio::test]
async fn a_client_that_does_not_read_times_out() {
    let (mut stream, _client) = duplex_stream();
    let mut output = output(1_000);
    output.timeout = Duration::from_millis(20);
    assert_eq!(output.write(&mut stream).await, Err(ClientGone));
}

/// So many bytes, as the client hears them while the rest is written; or what it hears until nothing more comes.
async fn read_while_writing(
    bytes: usize,
    output: &mut OutputBuffer,
    stream: &mut BufWriter<DuplexStream>,
    client: &mut DuplexStream,
) -> String {
    let mut heard = Vec::new();
    let listening = async { while heard.len() < bytes && client.read_buf(&mut heard).await.is_ok() {} };
    let all = async { tokio::join!(output.write(stream), listening).0 };
    let written = tokio::time::timeout(Duration::from_secs(5), all).await;
    assert_eq!(written, Ok(Ok(())), "{} of {bytes} bytes came", heard.len());
    String::from_utf8(heard).expect("text")
}
