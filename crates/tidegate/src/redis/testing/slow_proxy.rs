//! A way to a server that takes its time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Listens on a port of its own and passes everything on. What comes back is held for a while.
pub(crate) struct SlowProxy {
    pub port: u16,
    behaviour: Arc<ProxyBehaviour>,
    forward_tasks: ForwardTasks,
    accept_task: JoinHandle<()>,
}

/// What it does to what it passes on.
#[derive(Default)]
struct ProxyBehaviour {
    delay_ms: AtomicU64,
    /// Whoever sends this is cut off.
    forbidden: Mutex<Option<Vec<u8>>>,
}

/// What passes bytes on.
type ForwardTasks = Arc<Mutex<JoinSet<()>>>;

impl SlowProxy {
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let (manners, passing) = (Arc::<ProxyBehaviour>::default(), ForwardTasks::default());
        let (own, kept, tasks) =
            (listener.local_addr().expect("an address").port(), manners.clone(), passing.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                    tasks.lock().expect("a lock").spawn(forward(client, server, kept.clone()));
                }
            }
        });
        Self { port: own, behaviour: manners, forward_tasks: passing, accept_task: accepting }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// All connections break.
    pub fn disconnect_all(&self) {
        self.forward_tasks.lock().expect("a lock").abort_all();
    }

    /// From now on a connection breaks when somebody sends this.
    pub fn disconnect_on(&self, offence: &str) {
        *self.behaviour.forbidden.lock().expect("a lock") = Some(offence.as_bytes().to_vec());
    }

    /// From now on nobody is cut off for what is sent.
    pub fn allow_all(&self) {
        *self.behaviour.forbidden.lock().expect("a lock") = None;
    }

    /// How long replies are held from now on.
    pub fn set_delay(&self, held: Duration) {
        self.behaviour.delay_ms.store(u64::try_from(held.as_millis()).expect("not that long"), Relaxed);
    }
}

impl Drop for SlowProxy {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

/// Until one side hangs up, or says what it must not.
async fn forward(client: TcpStream, server: TcpStream, manners: Arc<ProxyBehaviour>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (replies, mut due) = tokio::sync::mpsc::channel::<(Instant, Vec<u8>)>(1000);
    let requests = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if manners.is_forbidden(&buffer[..length])
                || to_server.write_all(&buffer[..length]).await.is_err()
            {
                return;
            }
        }
    };
    let held = async {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            let at = Instant::now() + Duration::from_millis(manners.delay_ms.load(Relaxed));
            if replies.send((at, buffer[..length].to_vec())).await.is_err() {
                return;
            }
        }
    };
    let passed = async {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to_client.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = held => {}
        () = passed => {}
    }
}

impl ProxyBehaviour {
    fn is_forbidden(&self, sent: &[u8]) -> bool {
        let offence = self.forbidden.lock().expect("a lock");
        offence.as_ref().is_some_and(|offence| sent.windows(offence.len()).any(|part| part == offence))
    }
}
