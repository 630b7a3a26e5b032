//! Clients that are gone without a word: their connections are closed, and those of clients that are there are not.

use std::io::{ErrorKind, Result};
use std::time::Duration;

use bytes::BufMut as _;
use tidegate_server::serve::Bounds;
use tidegate_server::serve::rls::Details;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::grpc::raw::{LONG, framed};
use crate::grpc::server::Server;

const RULES: &str = "domain: api\nrules: []";
const SOON: Duration = Duration::from_millis(50);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// Of a ping, that it is the answer to one.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// HTTP/2 by hand: what a library would answer by itself is not answered here.
struct Frames {
    stream: TcpStream,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream_id: u32,
    payload: Vec<u8>,
}

impl Frames {
    /// Watches the server's health, with no other call. What a client says first has to come in time, too, which a machine
    /// that has other things to do may not manage at once.
    async fn connect_watching(server: &Server) -> Self {
        loop {
            let stream = TcpStream::connect(server.address).await.unwrap();
            if let Ok(frames) = (Self { stream }).watch().await {
                return frames;
            }
        }
    }

    async fn watch(mut self) -> Result<Self> {
        self.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        self.send(Frame { kind: SETTINGS, flags: 0, stream_id: 0, payload: vec![] }).await?;
        // POST, http, and two headers whose names stand in the table of HPACK.
        let mut headers = vec![0x83, 0x86];
        for (name, value) in
            [(&[0x04][..], "/grpc.health.v1.Health/Watch"), (&[0x0f, 0x10], "application/grpc")]
        {
            headers.extend_from_slice(name);
            headers.put_u8(u8::try_from(value.len()).unwrap());
            headers.extend_from_slice(value.as_bytes());
        }
        self.send(Frame { kind: HEADERS, flags: END_HEADERS, stream_id: 1, payload: headers }).await?;
        let question = framed(b"").to_vec();
        self.send(Frame { kind: DATA, flags: END_STREAM, stream_id: 1, payload: question }).await?;
        loop {
            match self.next().await?.kind {
                DATA => return Ok(self),
                // It was silent for too long already: it is asked whether it is there, or told to go.
                PING | GOAWAY => return Err(ErrorKind::TimedOut.into()),
                _ => {}
            }
        }
    }

    async fn send(&mut self, frame: Frame) -> Result<()> {
        let mut bytes = Vec::new();
        bytes.put_uint(frame.payload.len() as u64, 3);
        bytes.extend_from_slice(&[frame.kind, frame.flags]);
        bytes.put_u32(frame.stream_id);
        bytes.extend_from_slice(&frame.payload);
        self.stream.write_all(&bytes).await
    }

    /// The next frame; an error if the server hung up.
    async fn next(&mut self) -> Result<Frame> {
        timeout(LONG, self.read()).await.expect("a frame, or the end, in time")
    }

    async fn read(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).await?;
        let stream_id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Ok(Frame { kind: head[3], flags: head[4], stream_id, payload })
    }

    /// The server asks whether anybody is there, or hangs up.
    async fn expect_ping(&mut self) -> Result<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == PING && frame.flags & ACK == 0 {
                return Ok(frame);
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_answers_pings_stays() {
    let bounds = Bounds { idle_timeout: SOON, header_timeout: LONG, ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let mut watching = Frames::connect_watching(&server).await;
    for _ in 0..3 {
        let ping = watching.expect_ping().await.expect("it is asked whether it is there");
        watching.send(Frame { flags: ACK, ..ping }).await.unwrap();
    }
    watching.expect_ping().await.expect("it is asked again");
}

#[tokio::test]
async fn a_client_that_ignores_pings_is_disconnected() {
    let bounds = Bounds { idle_timeout: SOON, header_timeout: SOON, ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let mut watching = Frames::connect_watching(&server).await;
    watching.expect_ping().await.expect("it is asked whether it is there");
    assert!(watching.expect_ping().await.is_err(), "it is asked once");
    server.connections.close();
    timeout(LONG, server.connections.wait()).await.expect("the connection is over");
}
