//! A TCP proxy that holds inserts back, as a slow network or a paused server does.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// The name of the command in a message.
const INSERT: &[u8] = b"insert\0";
/// Larger than the messages of these tests, so that one read gets a whole message.
const READ_BYTES: usize = 64 << 10;

#[derive(Default)]
struct State {
    is_holding: bool,
    held: usize,
}

/// A proxy in front of a server. Its threads end with the connections.
pub struct Proxy {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Proxy {
    pub fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { continue };
                    forward(client, server, &state);
                }
            }
        });
        Self { port, state }
    }

    pub fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    /// From now on, inserts wait for `release`.
    pub fn hold_inserts(&self) {
        self.state.0.lock().unwrap().is_holding = true;
    }

    /// How many inserts have been held.
    pub fn held(&self) -> usize {
        self.state.0.lock().unwrap().held
    }

    /// Sends the inserts that wait.
    pub fn release(&self) {
        self.state.0.lock().unwrap().is_holding = false;
        self.state.1.notify_all();
    }
}

fn forward(client: TcpStream, server: TcpStream, state: &Arc<(Mutex<State>, Condvar)>) {
    let (mut from_client, mut to_server) =
        (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let state = Arc::clone(state);
    std::thread::spawn(move || {
        let mut message = vec![0; READ_BYTES];
        while let Ok(bytes @ 1..) = from_client.read(&mut message) {
            if message[..bytes].windows(INSERT.len()).any(|window| window == INSERT) {
                let mut guard = state.0.lock().unwrap();
                guard.held += usize::from(guard.is_holding);
                drop(state.1.wait_while(guard, |state| state.is_holding).unwrap());
            }
            if to_server.write_all(&message[..bytes]).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut from_server, mut to_client) = (server, client);
        // The client may be gone. The server is read nevertheless, so that it executes what it was sent.
        let mut message = vec![0; READ_BYTES];
        while let Ok(bytes @ 1..) = from_server.read(&mut message) {
            let _ = to_client.write_all(&message[..bytes]);
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
