//! A server on a free port, and clients that send and read raw bytes.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tidegate::rules;
use tidegate::rules::{Descriptor, Entry, Request};
use tidegate_server::serve::failed_logins::FailedLogins;
use tidegate_server::serve::listen::{AcceptOptions, Address, Listener};
use tidegate_server::serve::resp::{Resp, RespBounds, RespSecrets};
use tidegate_server::serve::settings::Secret;
use tidegate_server::serve::{App, Protocol};
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

use crate::support::wait_until;

/// Longer than anything here takes, on any machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// Options of a server.
#[derive(Default)]
pub struct Options<'a> {
    pub rules: &'a str,
    pub bounds: RespBounds,
    pub password: Option<&'a str>,
    pub admin_token: Option<&'a str>,
    pub failed_login_delay: Duration,
}

/// A server. It ends with its runtime.
pub struct Server {
    pub app: Arc<App>,
    pub address: SocketAddr,
    runtime: Runtime,
    tasks: TaskTracker,
}

/// A connection.
pub struct Client {
    stream: TcpStream,
}

impl Server {
    pub fn start(options: &Options<'_>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let domains = match options.rules {
            "" => Vec::new(),
            text => rules::parse("rules.yaml", text).expect("these are rules").domains,
        };
        let app = App::in_memory(domains).expect("they go together");
        let failed_logins = FailedLogins::with_delay(options.failed_login_delay);
        let app = Arc::new(App { failed_logins, ..app });
        let any: Address = "127.0.0.1:0".parse().expect("an address");
        let listener = runtime.block_on(Listener::bind(Protocol::Resp, &any)).expect("a free port");
        let listener = listener.expect("it is not off");
        let Address::Tcp(address) = *listener.address() else { panic!("{}", listener.address()) };
        let secret = |text: Option<&str>| text.map(|text| text.parse::<Secret>().expect("it is not empty"));
        let secrets =
            RespSecrets { password: secret(options.password), admin_token: secret(options.admin_token) };
        let resp = Resp::with_options(Arc::clone(&app), options.bounds, secrets);
        let tasks = TaskTracker::new();
        let letting_in = AcceptOptions { connections_max: 100, tls: None, tasks: tasks.clone() };
        runtime.spawn(listener.run(Arc::clone(&app), resp, letting_in));
        Self { app, address, runtime, tasks }
    }

    /// With these rules and default options.
    pub fn with_rules(rules: &str) -> Self {
        Self::start(&Options { rules, ..Options::default() })
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        stream.set_write_timeout(Some(DEADLINE)).expect("a socket");
        Client { stream }
    }

    /// Waits until all connections have ended.
    pub fn wait_for_connections(&self) {
        self.tasks.close();
        let ended = self.runtime.block_on(async { tokio::time::timeout(DEADLINE, self.tasks.wait()).await });
        ended.expect("connections end");
    }

    /// Waits until this many requests are in wait queues.
    #[track_caller]
    pub fn wait_until_waiting(&self, requests: u64) {
        wait_until(&format!("{requests} held requests"), || self.app.engine.waiting_requests() == requests);
    }

    /// Forgets the usage of this key, so that the head of its queue is admitted.
    pub fn reset(&self, domain: &str, entries: &[Entry<'_>]) {
        let descriptors = [Descriptor::new(entries, 1)];
        let request = Request { domain, descriptors: &descriptors };
        self.runtime.block_on(self.app.engine.reset(&request)).expect("a plan has room for it");
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.tasks.len()
    }
}

impl Client {
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("it reads");
    }

    /// Asserts the next reply, byte for byte.
    #[track_caller]
    pub fn expect_reply(&mut self, bytes: impl AsRef<[u8]>) {
        let expected = bytes.as_ref();
        let mut received = vec![0; expected.len()];
        let mut length = 0;
        while length < received.len() && received[..length] == expected[..length] {
            match self.stream.read(&mut received[length..]) {
                // The process was stopped for a while, and continues.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => match read.expect("an answer in time") {
                    0 => break,
                    read => length += read,
                },
            }
        }
        assert_eq!(printable(&received[..length]), printable(expected));
    }

    /// Asserts that the connection is closed without further bytes.
    #[track_caller]
    pub fn expect_end(&mut self) {
        assert_eq!(self.until_end(), "");
    }

    /// Reads everything until the connection is closed.
    #[track_caller]
    pub fn until_end(&mut self) -> String {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            // With unread bytes, the end is a reset.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("it is not closed: {error}"),
        }
        printable(&rest)
    }

    /// Like [`send`](Self::send), but the connection may already be closed.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends a command as an array, and asserts the reply.
    #[track_caller]
    pub fn assert_reply(&mut self, command: &[&str], answer: impl AsRef<[u8]>) {
        self.send(encode_array(command));
        self.expect_reply(answer);
    }

    /// Sends a command as an array, and returns its reply.
    pub fn call(&mut self, command: &[&str]) -> String {
        self.send(encode_array(command));
        self.read_reply()
    }

    /// Reads one complete reply, as it was encoded.
    pub fn read_reply(&mut self) -> String {
        let line = self.line();
        let mut answer = line.clone() + "\r\n";
        let number = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'$' | b'=' if number() >= 0 => {
                let mut bytes = vec![0; usize::try_from(number()).expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("all of it");
                answer += &String::from_utf8(bytes).expect("text");
            }
            b'*' | b'~' => (0..number()).for_each(|_| answer += &self.read_reply()),
            b'%' => (0..2 * number()).for_each(|_| answer += &self.read_reply()),
            _ => {}
        }
        answer
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("an answer in time");
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("text")
    }

    /// Asserts that nothing has arrived.
    #[track_caller]
    pub fn assert_silent(&mut self) {
        self.stream.set_nonblocking(true).expect("a socket");
        let read = self.stream.read(&mut [0]);
        assert_eq!(read.expect_err("no answer").kind(), ErrorKind::WouldBlock);
        self.stream.set_nonblocking(false).expect("a socket");
    }

    /// Closes the sending side, and keeps reading.
    pub fn stop_sending(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    }

    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}

/// A command encoded as clients send it.
pub fn encode_array(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        bytes.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
    }
    bytes
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
