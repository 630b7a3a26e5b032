//! A transaction whose reply is lost is sent again, and is not done twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate::config::{ConfigStore as _, ConfigWrite, WriteCondition, WriteResult};
use tidegate_testing::config_store::{put, write_one};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::local::DynamoLocal;
use super::{new_table, open};

/// How many replies to transactions are lost.
const LOST: usize = 2;

/// A proxy that passes requests on, and closes the connection instead of the first replies to transactions.
async fn start_proxy(server: &DynamoLocal, lost: Arc<AtomicUsize>) -> u16 {
    let (listener, port) = (TcpListener::bind("127.0.0.1:0").await.expect("a port"), server.port);
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass_on(client, port, Arc::clone(&lost)));
        }
    });
    address.port()
}

async fn pass_on(mut client: TcpStream, port: u16, lost: Arc<AtomicUsize>) {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    while let Some(request) = read_message(&mut client).await {
        server.write_all(&request).await.expect("the server reads");
        let reply = read_message(&mut server).await.expect("the server answers");
        let is_write = request.windows(18).any(|window| window == b"TransactWriteItems");
        if is_write
            && lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            return;
        }
        client.write_all(&reply).await.expect("the client reads");
    }
}

/// A head and a body of `content-length` bytes.
async fn read_message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    let mut length = None;
    loop {
        if length.is_none()
            && let Some(end) = message.windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
            let body = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            length = Some(end + 4 + body.map_or(0, |body| body.trim().parse::<usize>().expect("a number")));
        }
        if length.is_some_and(|length| message.len() >= length) {
            return Some(message);
        }
        if from.read_buf(&mut message).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_without_a_reply_is_not_done_twice() {
    let (server, table) = (DynamoLocal::shared(), new_table());
    let direct = open(&server.url(&table));
    assert_eq!(direct.get("a").await, Ok(None));
    let lost = Arc::new(AtomicUsize::new(LOST));
    let port = start_proxy(server, Arc::clone(&lost)).await;
    let store = open(&format!("dynamodb://{table}?region=eu-central-1&endpoint=http://127.0.0.1:{port}"));
    // A second attempt would find that the key is not absent any more.
    let result = write_one(&store, ConfigWrite { condition: WriteCondition::Absent, ..put("a", b"1") }).await;
    let WriteResult::Written(version) = result else { panic!("{result:?}") };
    assert_eq!(lost.load(Ordering::Relaxed), 0);
    assert_eq!(direct.get("a").await.expect("the store answers").map(|entry| entry.version), Some(version));
    // One entry, and the head.
    assert_eq!(server.sort_keys(&table, "log").len(), 2);
}
