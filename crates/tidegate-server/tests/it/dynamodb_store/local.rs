//! DynamoDB Local: Amazon's own implementation of the API for tests, in Java. `scripts/install-test-parts` installs it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tidegate_testing::redis_server::free_port;

use crate::serve::server::{Answer, connect};
use crate::support::wait_until;

/// Another process may take the free port before the server does.
const ATTEMPTS_MAX: usize = 5;
const MAIN_CLASS: &str = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner";

/// A server with its tables in memory. It ends when this is dropped, and at the latest when this process ends.
pub struct DynamoLocal {
    /// A shell that runs the server until its standard input is closed.
    shell: Child,
    pub port: u16,
}

impl DynamoLocal {
    /// The server that most tests share. Each test uses tables of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<DynamoLocal> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A server for one test, which may stop it.
    pub fn start() -> Self {
        (0..ATTEMPTS_MAX).find_map(|_| Self::start_on(free_port())).expect("DynamoDB Local runs on some port")
    }

    /// A server on this port, or `None` if it ends at once.
    pub fn start_on(port: u16) -> Option<Self> {
        let is_forbidden = std::env::var_os("TEST_WITHOUT_SERVERS").is_some();
        assert!(
            !is_forbidden,
            "this test starts DynamoDB Local: add its module to the list in scripts/check"
        );
        let directory = directory();
        let is_installed = directory.with_extension("installed").exists();
        assert!(is_installed, "{} is missing: run scripts/install-test-parts", directory.display());
        // The shell ends the server when its input is closed, which the end of this process does too.
        let script = format!(
            "java -Xmx512m -XX:TieredStopAtLevel=1 -Djava.library.path='{0}' -cp '{0}/*' {MAIN_CLASS} -inMemory -disableTelemetry \
             -port {port} >/dev/null 2>&1 & server=$!; exec 3<&0; (read -r _ <&3; kill $server 2>/dev/null) & wait $server",
            directory.display()
        );
        let shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn();
        let mut this = Self { shell: shell.expect("sh runs"), port };
        let mut has_ended = false;
        wait_until("DynamoDB Local listens", || {
            has_ended = !this.is_running();
            has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        (!has_ended).then_some(this)
    }

    fn is_running(&mut self) -> bool {
        matches!(self.shell.try_wait(), Ok(None))
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The URL of a config store. The table is created by the first call.
    pub fn url(&self, table: &str) -> String {
        format!("dynamodb://{table}?region=eu-central-1&endpoint={}&create=true", self.endpoint())
    }

    /// Sends a request, and returns the reply.
    pub fn call(&self, operation: &str, body: &Value) -> Value {
        let Answer { status, body } = self.try_call(operation, body);
        assert_eq!(status, 200, "{operation}: {body}");
        body.parse().expect("it is JSON")
    }

    /// Sends a request. The server does not check the signature, but uses the key and the region to find tables.
    fn try_call(&self, operation: &str, body: &Value) -> Answer {
        use std::io::{Read as _, Write as _};
        let body = body.to_string();
        let mut connection = connect(&format!("127.0.0.1:{}", self.port));
        write!(
            connection,
            "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/x-amz-json-1.0\r\n\
             x-amz-target: DynamoDB_20120810.{operation}\r\nx-amz-date: 20260101T000000Z\r\n\
             authorization: AWS4-HMAC-SHA256 Credential={KEY}/20260101/eu-central-1/dynamodb/aws4_request, \
             SignedHeaders=host, Signature=00\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
            KEY = super::ACCESS_KEY_ID,
        )
        .expect("the server reads");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("the server answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, body: body.to_owned() }
    }

    /// Puts an item, as another program would.
    pub fn put_item(&self, table: &str, item: &Value) {
        self.call("PutItem", &json!({ "TableName": table, "Item": item }));
    }

    pub fn delete_item(&self, table: &str, partition: &str, sort: &str) {
        let key = json!({ "pk": { "S": partition }, "sk": { "S": sort } });
        self.call("DeleteItem", &json!({ "TableName": table, "Key": key }));
    }

    /// The sort keys of all items in a partition.
    pub fn sort_keys(&self, table: &str, partition: &str) -> Vec<String> {
        let query = json!({
            "TableName": table,
            "ConsistentRead": true,
            "KeyConditionExpression": "pk = :partition",
            "ExpressionAttributeValues": { ":partition": { "S": partition } },
        });
        let items = self.call("Query", &query);
        let items = items["Items"].as_array().expect("a list");
        items.iter().map(|item| item["sk"]["S"].as_str().expect("a string").to_owned()).collect()
    }
}

impl Drop for DynamoLocal {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Where `scripts/install-test-parts` puts it.
fn directory() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory");
    target.join("real/dynamodb-local")
}
