//! Shutdown: started calls are finished, and connections are closed.

use tokio::time::timeout;

use super::raw_client::{Call, LONG, RawClient, framed_request};
use crate::grpc::server::{OK, Server, descriptor, request, send};

const RULES: &str = "
domain: api
rules:
  - { name: slow, match: { do: nap }, limit: '{algorithm: gcra, limit: 1, per: 30m}', action: { delay: { max_wait: 1h } } }
";

#[tokio::test]
async fn idle_connections_are_closed() {
    let server = Server::with_rules(RULES).await;
    let mut raw = RawClient::connect(server.address).await;
    let body = vec![framed_request(&request([descriptor(&[("user", "42")])]))];
    assert_eq!(raw.call(Call { body, ..Call::default() }).await.unwrap().status().0, "0");
    server.app.drain.begin();
    let closed = timeout(LONG, raw.closed).await.expect("the connection was not closed").unwrap();
    assert!(closed.is_ok(), "{closed:?}");
    server.connections.close();
    timeout(LONG, server.connections.wait()).await.expect("a connection did not end");
}

#[tokio::test]
async fn started_calls_are_finished() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    let nap = || request([descriptor(&[("do", "nap")])]);
    assert_eq!(send(&mut client, nap()).await.overall_code, OK);
    let mut other = client.clone();
    let waiting = tokio::spawn(async move { send(&mut other, nap()).await.overall_code });
    server.wait_until_waiting(1).await;
    // Another call, which does not wait, follows it on the same connection.
    send(&mut client, request([descriptor(&[("user", "42")])])).await;
    server.app.drain.begin();
    server.release_all();
    assert_eq!(waiting.await.unwrap(), OK);
    drop(client);
    server.connections.close();
    timeout(LONG, server.connections.wait()).await.expect("a connection did not end");
}
