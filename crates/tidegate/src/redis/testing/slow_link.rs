//! A way to a server that takes its time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Listens on a port of its own and passes everything on. What comes back is held for a while.
pub(crate) struct SlowLink {
    pub port: u16,
    held_ms: Arc<AtomicU64>,
    passing: Passing,
    accepting: JoinHandle<()>,
}

/// What passes bytes on.
type Passing = Arc<Mutex<JoinSet<()>>>;

impl SlowLink {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let held_ms = Arc::new(AtomicU64::new(0));
        let passing = Passing::default();
        let (own, held, tasks) =
            (listener.local_addr().expect("an address").port(), held_ms.clone(), passing.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                    pass_on(client, server, held.clone(), &mut tasks.lock().expect("a lock"));
                }
            }
        });
        Self { port: own, held_ms, passing, accepting }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// All connections break.
    pub fn cut(&self) {
        self.passing.lock().expect("a lock").abort_all();
    }

    /// How long replies are held from now on.
    pub fn hold(&self, held: Duration) {
        self.held_ms.store(u64::try_from(held.as_millis()).expect("not that long"), Relaxed);
    }
}

impl Drop for SlowLink {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn pass_on(client: TcpStream, server: TcpStream, held_ms: Arc<AtomicU64>, tasks: &mut JoinSet<()>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tasks.spawn(async move {
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
    });
    let (replies, mut due) = tokio::sync::mpsc::channel::<(Instant, Vec<u8>)>(1000);
    tasks.spawn(async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let at = Instant::now() + Duration::from_millis(held_ms.load(Relaxed));
            if replies.send((at, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    });
    tasks.spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
}
