//! A proxy in front of a server that delays replies.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Listens on its own port and forwards everything. Replies are delayed.
pub(crate) struct SlowProxy {
    pub port: u16,
    behaviour: Arc<ProxyBehaviour>,
    forward_tasks: ForwardTasks,
    accept_task: JoinHandle<()>,
}

/// What the proxy does with the traffic.
#[derive(Default)]
struct ProxyBehaviour {
    delay_ms: AtomicU64,
    /// Disconnects a client that sends this.
    forbidden: Mutex<Option<Vec<u8>>>,
}

/// The tasks that forward bytes.
type ForwardTasks = Arc<Mutex<JoinSet<()>>>;

impl SlowProxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let own_port = listener.local_addr().expect("an address").port();
        let (behaviour, forward_tasks) = (Arc::<ProxyBehaviour>::default(), ForwardTasks::default());
        let (shared, tasks) = (behaviour.clone(), forward_tasks.clone());
        let accept_task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                    tasks.lock().expect("a lock").spawn(forward(client, server, shared.clone()));
                }
            }
        });
        Self { port: own_port, behaviour, forward_tasks, accept_task }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Breaks all connections.
    pub fn disconnect_all(&self) {
        self.forward_tasks.lock().expect("a lock").abort_all();
    }

    /// From now on, disconnects a client that sends this.
    pub fn disconnect_on(&self, bytes: &str) {
        *self.behaviour.forbidden.lock().expect("a lock") = Some(bytes.as_bytes().to_vec());
    }

    /// From now on, disconnects no client because of what it sends.
    pub fn allow_all(&self) {
        *self.behaviour.forbidden.lock().expect("a lock") = None;
    }

    /// Sets the delay of replies from now on.
    pub fn set_delay(&self, delay: Duration) {
        self.behaviour.delay_ms.store(u64::try_from(delay.as_millis()).expect("not that long"), Relaxed);
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

/// Forwards until one side closes, or the client sends forbidden bytes.
async fn forward(client: TcpStream, server: TcpStream, behaviour: Arc<ProxyBehaviour>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (replies, mut due) = tokio::sync::mpsc::channel::<(Instant, Vec<u8>)>(1000);
    let forward_requests = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if behaviour.is_forbidden(&buffer[..length])
                || to_server.write_all(&buffer[..length]).await.is_err()
            {
                return;
            }
        }
    };
    let delay_replies = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let at = Instant::now() + Duration::from_millis(behaviour.delay_ms.load(Relaxed));
            if replies.send((at, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let send_replies = async {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = forward_requests => {}
        () = delay_replies => {}
        () = send_replies => {}
    }
}

impl ProxyBehaviour {
    fn is_forbidden(&self, sent: &[u8]) -> bool {
        let forbidden = self.forbidden.lock().expect("a lock");
        forbidden.as_ref().is_some_and(|bytes| sent.windows(bytes.len()).any(|window| window == bytes))
    }
}
