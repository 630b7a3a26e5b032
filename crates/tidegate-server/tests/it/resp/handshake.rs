//! What clients send when they connect, byte for byte, in both versions.

use crate::resp::{Client, Options, Server};

const OK: &str = "+OK\r\n";

fn client(server: &Server, version: u8) -> Client {
    let mut client = server.connect();
    if version == 3 {
        client.call(&["HELLO", "3"]);
    }
    client
}

#[test]
fn small_commands() {
    let server = Server::start(&Options::default());
    for version in [2, 3] {
        let null = if version == 3 { "_\r\n" } else { "$-1\r\n" };
        let mut client = client(&server, version);
        for (command, answer) in [
            (&["PING"] as &[&str], "+PONG\r\n"),
            (&["pInG", "a"], "$1\r\na\r\n"),
            (&["PING", "a", "b"], "-ERR wrong number of arguments for 'ping' command\r\n"),
            (&["ECHO", ""], "$0\r\n\r\n"),
            (&["ECHO"], "-ERR wrong number of arguments for 'echo' command\r\n"),
            (&["SELECT", "0"], OK),
            (&["SELECT", "1"], "-ERR DB index is out of range\r\n"),
            (&["SELECT", "-1"], "-ERR DB index is out of range\r\n"),
            (&["SELECT", "a"], "-ERR value is not an integer or out of range\r\n"),
            (&["CLIENT"], "-ERR wrong number of arguments for 'client' command\r\n"),
            (&["CLIENT", "FOO"], "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.\r\n"),
            (&["CLIENT", "ID", "3"], "-ERR wrong number of arguments for 'client|id' command\r\n"),
            (&["CLIENT", "GETNAME"], null),
            (&["CLIENT", "SETNAME"], "-ERR wrong number of arguments for 'client|setname' command\r\n"),
            (&["CLIENT", "SETNAME", "me"], OK),
            (&["client", "getname"], "$2\r\nme\r\n"),
            (&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], OK),
            (&["CLIENT", "SETINFO", "lib-ver", "5.0"], OK),
            (&["CLIENT", "SETINFO", "LIB", "x"], "-ERR Unrecognized option 'LIB'\r\n"),
            (&["CLIENT", "NO-EVICT", "ON"], OK),
            (&["CLIENT", "NO-EVICT", "x"], "-ERR syntax error\r\n"),
            (&["CLIENT", "NO-TOUCH", "off"], OK),
            (&["CLIENT", "REPLY", "ON"], OK),
            (&["CLIENT", "REPLY", "x"], "-ERR syntax error\r\n"),
            (&["CLIENT", "TRACKING", "OFF"], OK),
            (
                &["CLIENT", "TRACKING", "ON", "BCAST"],
                "-ERR CLIENT TRACKING is not supported: there are no keys to cache\r\n",
            ),
            (&["COMMAND", "COUNT"], ":23\r\n"),
            (&["COMMAND", "GETKEYS", "CL.THROTTLE", "k", "1", "1", "60"], "*1\r\n$1\r\nk\r\n"),
            (&["COMMAND", "GETKEYS", "cl.throttle", "k"], "*1\r\n$1\r\nk\r\n"),
            (
                &["COMMAND", "GETKEYS", "CL.THROTTLE"],
                "-ERR Invalid number of arguments specified for command\r\n",
            ),
            (
                &["COMMAND", "GETKEYS", "TIDEGATE.CHECK", "api", "user", "1"],
                "-ERR The command has no key arguments\r\n",
            ),
            (&["COMMAND", "GETKEYS", "GET", "k"], "-ERR Invalid command specified\r\n"),
            (&["COMMAND", "GETKEYS"], "-ERR wrong number of arguments for 'command|getkeys' command\r\n"),
            (&["COMMAND", "COUNT", "1"], "-ERR wrong number of arguments for 'command|count' command\r\n"),
            (&["COMMAND", "FOO"], "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.\r\n"),
            (&["CONFIG"], "-ERR wrong number of arguments for 'config' command\r\n"),
            (&["CONFIG", "GET"], "-ERR wrong number of arguments for 'config|get' command\r\n"),
            (&["CONFIG", "SET", "save", ""], "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n"),
            (&["RESET", "1"], "-ERR wrong number of arguments for 'reset' command\r\n"),
        ] {
            client.assert_reply(command, answer);
        }
        let id: String = client.call(&["CLIENT", "ID"]).trim().trim_start_matches(':').into();
        let line =
            format!("id={id} name=me db=0 user=default resp={version} lib-name=redis-py lib-ver=5.0\n");
        let info = client.call(&["CLIENT", "INFO"]);
        match version {
            2 => assert_eq!(info, format!("${}\r\n{line}\r\n", line.len())),
            _ => assert_eq!(info, format!("={}\r\ntxt:{line}\r\n", line.len() + 4)),
        }
        client.assert_reply(&["RESET"], "+RESET\r\n");
        client.assert_reply(&["CLIENT", "GETNAME"], "$-1\r\n");
        client.assert_reply(&["QUIT", "now"], OK);
        client.expect_end();
    }
}

#[test]
fn names_have_no_spaces() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    for name in ["a b", "a\nb", "\u{e4}", &"a".repeat(257)] {
        for command in [&["CLIENT", "SETNAME", name] as &[&str], &["HELLO", "3", "SETNAME", name]] {
            client.assert_reply(
                command,
                "-ERR Client names cannot contain spaces, newlines or special characters, nor have more than 256 \
                 bytes.\r\n",
            );
        }
    }
    client.assert_reply(&["CLIENT", "SETNAME", &"a".repeat(256)], OK);
    // A failed HELLO changes nothing.
    client.assert_reply(&["COMMAND", "DOCS", "nosuch"], "*0\r\n");
}

#[test]
fn hello() {
    let server = Server::start(&Options::default());
    let mut client = server.connect();
    let body = |version: u8| {
        format!(
            "$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n${}\r\n{}\r\n$5\r\nproto\r\n:{version}\r\n$2\r\nid\r\n:1\r\n\
             $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n",
            env!("CARGO_PKG_VERSION").len(),
            env!("CARGO_PKG_VERSION"),
        )
    };
    client.assert_reply(&["HELLO"], format!("*14\r\n{}", body(2)));
    client.assert_reply(&["HELLO", "3"], format!("%7\r\n{}", body(3)));
    client.assert_reply(&["HELLO"], format!("%7\r\n{}", body(3)));
    client.assert_reply(
        &["HELLO", "3", "AUTH", "default", "any", "SETNAME", "me"],
        format!("%7\r\n{}", body(3)),
    );
    client.assert_reply(&["CLIENT", "GETNAME"], "$2\r\nme\r\n");
    client.assert_reply(&["HELLO", "2", "setname", "you"], format!("*14\r\n{}", body(2)));
    client.assert_reply(&["CLIENT", "GETNAME"], "$3\r\nyou\r\n");
    for (command, error) in [
        (&["HELLO", "1"] as &[&str], "NOPROTO unsupported protocol version"),
        (&["HELLO", "4"], "NOPROTO unsupported protocol version"),
        (&["HELLO", "x"], "ERR Protocol version is not an integer or out of range"),
        (&["HELLO", "3", "FOO"], "ERR Syntax error in HELLO option 'FOO'"),
        (&["HELLO", "3", "SETNAME"], "ERR Syntax error in HELLO option 'SETNAME'"),
        (&["HELLO", "3", "AUTH", "default"], "ERR Syntax error in HELLO option 'AUTH'"),
        (
            &["HELLO", "3", "AUTH", "bob", "x"],
            "WRONGPASS invalid username-password pair or user is disabled.",
        ),
    ] {
        client.assert_reply(command, format!("-{error}\r\n"));
    }
    client.assert_reply(&["CLIENT", "GETNAME"], "$3\r\nyou\r\n");
}

/// What redis-benchmark asks when it starts.
#[test]
fn config() {
    let server = Server::start(&Options::default());
    for (version, one, three, none) in [(2, "*2", "*6", "*0"), (3, "%1", "%3", "%0")] {
        let mut client = client(&server, version);
        client.assert_reply(&["CONFIG", "GET", "save"], format!("{one}\r\n$4\r\nsave\r\n$0\r\n\r\n"));
        client.assert_reply(
            &["CONFIG", "GET", "appendonly"],
            format!("{one}\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
        );
        client.assert_reply(&["CONFIG", "GET", "maxmemory"], format!("{none}\r\n"));
        assert!(client.call(&["CONFIG", "GET", "*"]).starts_with(three));
    }
}

#[test]
fn command_list() {
    let server = Server::start(&Options::default());
    let mut client = client(&server, 2);
    client.assert_reply(
        &["COMMAND", "INFO", "cl.throttle", "nosuch", "PING"],
        "*3\r\n*10\r\n$11\r\ncl.throttle\r\n:-1\r\n*3\r\n+write\r\n+denyoom\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
         *0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n*10\r\n$4\r\nping\r\n:-1\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n*0\r\n*0\r\n*0\r\n*0\r\n",
    );
    client.assert_reply(
        &["COMMAND", "DOCS", "echo", "nosuch"],
        "*2\r\n$4\r\necho\r\n*8\r\n$7\r\nsummary\r\n$19\r
Returns the message\r
$5\r\nsince\r\n$5\r\n0.1.0\r\n\
         $5\r\ngroup\r\n$10\r\nconnection\r\n$9\r\narguments\r\n*1\r\n*4\r\n$4\r\nname\r\n$7\r\nmessage\r\n\
         $4\r\ntype\r\n$6\r\nstring\r\n",
    );
    for version in [2, 3] {
        let mut client = self::client(&server, version);
        let all = client.call(&["COMMAND"]);
        assert!(all.starts_with("*23\r\n*10\r\n"), "{all}");
        assert_eq!(client.call(&["COMMAND", "INFO"]), all);
        let docs = client.call(&["COMMAND", "DOCS"]);
        assert!(docs.starts_with(if version == 2 { "*46\r\n" } else { "%23\r\n" }), "{docs}");
        for command in ["CLIENT", "COMMAND", "CONFIG"] {
            let help = client.call(&[command, "HELP"]);
            assert!(help.contains(&format!("+{command} <subcommand> ")), "{help}");
        }
        assert!(client.call(&["COMMAND", "LIST"]).contains("tidegate.check"));
    }
}

#[test]
fn info() {
    let server = Server::start(&Options::default());
    let mut client = client(&server, 2);
    client.assert_reply(&["INFO", "nosuch"], "$0\r\n\r\n");
    client.assert_reply(&["INFO", "Persistence"], "$26\r\n# Persistence\r\nloading:0\r\n\r\n");
    let all = client.call(&["INFO"]);
    for line in [
        "# Server\r\nredis_version:7.0.0\r\n",
        "\r\nredis_mode:standalone\r\n",
        "\r\nloading:0\r\n",
        "\r\nrole:master\r\n",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    client.call(&["HELLO", "3"]);
    client.assert_reply(
        &["INFO", "replication"],
        "=52\r\ntxt:# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n",
    );
}
