//! Connections whose task panics.

use tokio::io::AsyncReadExt as _;

use super::*;

/// Longer than anything here takes, on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

struct Panics;

impl ConnectionHandler for Panics {
    const PROTOCOL: Protocol = Protocol::Resp;

    async fn serve(&self, _: Stream) {
        panic!("on purpose, in a test");
    }
}

/// The connection is counted as closed, and its permit is free again.
#[tokio::test]
async fn a_connection_that_panics_is_closed_and_leaves_nothing_behind() {
    let app = Arc::new(App::in_memory(Vec::new()).unwrap());
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(Protocol::Resp, &any).await.unwrap().unwrap();
    let Address::Tcp(address) = *listener.address() else { panic!("{}", listener.address()) };
    let tasks = TaskTracker::new();
    let options = AcceptOptions { connections_max: 1, tls: None, tasks: tasks.clone() };
    tokio::spawn(listener.run(Arc::clone(&app), Panics, options));
    for closed in 1..=3 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let ended = tokio::time::timeout(DEADLINE, client.read_to_end(&mut Vec::new())).await;
        // Closed or reset.
        let _ = ended.expect("the connection was not closed");
        // The stream is closed before the task has ended.
        let gone = async {
            while !tasks.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, gone).await.expect("the task did not end");
        let page = app.metrics_page();
        for line in [
            format!("tidegate_connections_total{{protocol=\"resp\"}} {closed}\n"),
            "tidegate_connections{protocol=\"resp\"} 0\n".to_owned(),
        ] {
            assert!(page.contains(&line), "{line}{page}");
        }
    }
}
