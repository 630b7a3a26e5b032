//! Clients that vanish without closing: the server closes their connections, and keeps those of live clients.

use std::io::{ErrorKind, Result};
use std::time::Duration;

use bytes::BufMut as _;
use tidegate_server::serve::Bounds;
use tidegate_server::serve::rls::Details;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::raw_client::{LONG, framed};
use crate::grpc::server::Server;

const RULES: &str = "domain: api\nrules: []";
const SOON: Duration = Duration::from_millis(50);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// The flag of a reply to a ping.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// HTTP/2 by hand, because a library would answer pings itself.
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
    /// Watches the server's health, without other calls. The client's first bytes have a timeout too, which a busy
    /// machine may miss, so this retries.
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
        // POST, http, and two headers whose names are in HPACK's static table.
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
                // The client was silent for too long: the server pings it or sends GOAWAY.
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

    /// The next frame, or an error if the server closed the connection.
    async fn next(&mut self) -> Result<Frame> {
        timeout(LONG, self.read()).await.expect("neither a frame nor the end in time")
    }

    async fn read(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).await?;
        let stream_id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Ok(Frame { kind: head[3], flags: head[4], stream_id, payload })
    }

    /// Waits for a ping, or for the end of the connection.
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
        let ping = watching.expect_ping().await.expect("no ping");
        watching.send(Frame { flags: ACK, ..ping }).await.unwrap();
    }
    watching.expect_ping().await.expect("no second ping");
}

#[tokio::test]
async fn a_client_that_ignores_pings_is_disconnected() {
    let bounds = Bounds { idle_timeout: SOON, header_timeout: SOON, ..Bounds::default() };
    let server = Server::with(RULES, bounds, Details::default()).await;
    let mut watching = Frames::connect_watching(&server).await;
    watching.expect_ping().await.expect("no ping");
    assert!(watching.expect_ping().await.is_err(), "pinged twice");
    server.connections.close();
    timeout(LONG, server.connections.wait()).await.expect("the connection did not end");
}
