//! The parser on whole and on split input.

use super::*;

/// All commands, and the error that ended them, if `bytes` arrive in pieces of these lengths, repeated.
fn commands(bytes: &[u8], pieces: &[usize], trust: AuthState) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut parser, mut commands) = (Parser::default(), Vec::new());
    let (mut start, mut end) = (0, 0);
    for piece in pieces.iter().cycle() {
        end = bytes.len().min(end + piece.max(&1));
        loop {
            match parser.parse(&bytes[start..end], trust) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Empty { length }) => start += length,
                Ok(Parsed::Command { length }) => {
                    let arguments = parser.arguments(&bytes[start..end]);
                    commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    start += length;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
        if end == bytes.len() {
            break;
        }
    }
    (commands, None)
}

/// Parses `bytes` whole, byte by byte and in pieces.
#[track_caller]
fn assert_commands(bytes: &[u8], expected: &[&[&[u8]]], error: Option<ProtocolError>) {
    for pieces in [[usize::MAX >> 1, 1], [1, 1], [2, 3], [7, 1]] {
        let (commands_read, ended) = commands(bytes, &pieces, AuthState::Authenticated);
        let commands_read: Vec<Vec<&[u8]>> =
            commands_read.iter().map(|one| one.iter().map(Vec::as_slice).collect()).collect();
        assert_eq!(
            (commands_read.as_slice(), ended),
            (expected.iter().map(|one| one.to_vec()).collect::<Vec<_>>().as_slice(), error)
        );
    }
}

#[test]
fn arrays_of_bulk_strings() {
    assert_commands(
        b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n*0\r\n*-1\r\n*1\r\n$0\r\n\r\n",
        &[&[b"ECHO", b"\r\n"], &[b""]],
        None,
    );
}

#[test]
fn lines() {
    assert_commands(
        b"PING\r\n\r\n  ECHO \t a\0b \n\"PI\\x4eG\" 'it\\'s' a\"b c\"\r\nECHO \"\" \"\\n\\r\\t\\b\\a\\\"\\q\\x4\"\r\n",
        &[
            &[b"PING"],
            &[b"ECHO", b"a", b"b"],
            &[b"PING", b"it's", b"ab c"],
            &[b"ECHO", b"", b"\n\r\t\x08\x07\"qx4"],
        ],
        None,
    );
}

#[test]
fn protocol_errors() {
    use ProtocolError as E;
    let long_count = [b"*", "1".repeat(21).as_bytes()].concat();
    let long_bulk = [b"*1\r\n$", "1".repeat(21).as_bytes()].concat();
    let long_line = vec![b'a'; INLINE_BYTES_MAX + 1];
    let long_ended = [vec![b'a'; INLINE_BYTES_MAX + 1], b"\r\n".to_vec()].concat();
    let too_many = format!("*{}\r\n", arguments_max() + 1);
    let too_large = format!("*1\r\n${}\r\n", COMMAND_BYTES_MAX + 1);
    let together = format!("*2\r\n$1\r\na\r\n${COMMAND_BYTES_MAX}\r\n");
    let crowded = "a ".repeat(arguments_max() + 1) + "\r\n";
    let cases: [(&[u8], ProtocolError); 33] = [
        (b"*a\r\n", E::InvalidCount),
        (b"*\r\n", E::InvalidCount),
        (b"*+1\r\n", E::InvalidCount),
        (b"*01\r\n", E::InvalidCount),
        (b"*-0\r\n", E::InvalidCount),
        (b"*1\r1", E::InvalidCount),
        (b"*99999999999999999999\r\n", E::InvalidCount),
        (too_many.as_bytes(), E::InvalidCount),
        (&long_count, E::CountTooLong),
        (b"*1\n$4\nPING\n*1\n$4\nPING\n", E::CountTooLong),
        (b"*1\r\n$a\r\n", E::InvalidBulkLength),
        (b"*1\r\n$\r\n", E::InvalidBulkLength),
        (b"*1\r\n$-1\r\n", E::InvalidBulkLength),
        (b"*1\r\n$04\r\nPING\r\n", E::InvalidBulkLength),
        (b"*1\r\n$9223372036854775807\r\n", E::InvalidBulkLength),
        (b"*1\r\n$9223372036854775808\r\n", E::InvalidBulkLength),
        (b"*1\r\n$-9223372036854775807\r\n", E::InvalidBulkLength),
        (too_large.as_bytes(), E::InvalidBulkLength),
        (together.as_bytes(), E::InvalidBulkLength),
        (&long_bulk, E::BulkLengthTooLong),
        (b"*1\r\n$4\r\nPINGxx", E::MissingBulkEnd),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", E::ExpectedBulk { got: b'*' }),
        (b"*1\r\n:4\r\n", E::ExpectedBulk { got: b':' }),
        (b"*1\r\n\r\n", E::ExpectedBulk { got: b'\r' }),
        (&long_line, E::LineTooLong),
        (&long_ended, E::LineTooLong),
        (crowded.as_bytes(), E::TooManyLineArguments),
        (b"PING \"a\r\n", E::UnbalancedQuotes),
        (b"PING 'a\r\n", E::UnbalancedQuotes),
        (b"PING \"a\"b\r\n", E::UnbalancedQuotes),
        (b"PING \"a\\\"\r\n", E::UnbalancedQuotes),
        (b"\x16\x03\x01\x02\x00", E::WrongProtocol(WrongProtocol::Tls)),
        (b"\x16", E::WrongProtocol(WrongProtocol::Tls)),
    ];
    for (bytes, error) in cases {
        assert_commands(bytes, &[], Some(error));
    }
}

#[test]
fn lines_of_http() {
    for line in
        ["POST / HTTP/1.1", "post", "Host: example.org", "host:", "GET / HTTP/1.1", "get /", "PRI * HTTP/2.0"]
    {
        let bytes = format!("{line}\r\nPING\r\n");
        assert_commands(bytes.as_bytes(), &[], Some(ProtocolError::WrongProtocol(WrongProtocol::Http)));
    }
    // Without arguments, or as an array, it is a command.
    assert_commands(b"GET\r\n*2\r\n$3\r\nGET\r\n$1\r\n/\r\n", &[&[b"GET"], &[b"GET", b"/"]], None);
}

#[test]
fn unauthenticated_clients_have_lower_limits() {
    use ProtocolError as E;
    let ten = format!("*10\r\n{}", "$1\r\na\r\n".repeat(10));
    assert_eq!(commands(ten.as_bytes(), &[9], AuthState::Unauthenticated).0.len(), 1);
    assert_eq!(commands(b"*11\r\n", &[9], AuthState::Unauthenticated).1, Some(E::UnauthenticatedArguments));
    let large = format!("*1\r\n${}\r\n", UNAUTHENTICATED_BYTES_MAX + 1);
    assert_eq!(commands(large.as_bytes(), &[9], AuthState::Unauthenticated).1, Some(E::UnauthenticatedBulk));
    assert_eq!(
        commands(b"*1\r\n$2000000\r\n", &[9], AuthState::Unauthenticated).1,
        Some(E::InvalidBulkLength)
    );
}

/// The largest command, byte by byte. This test is slow if the parser reads old bytes again.
#[test]
fn the_largest_command() {
    let arguments = arguments_max();
    let sizes =
        [1, COMMAND_BYTES_MAX - arguments + 1].into_iter().chain(std::iter::repeat_n(1, arguments - 2));
    let mut bytes = format!("*{arguments}\r\n").into_bytes();
    for size in sizes {
        bytes.extend_from_slice(format!("${size}\r\n").as_bytes());
        bytes.extend(std::iter::repeat_n(b'x', size));
        bytes.extend_from_slice(b"\r\n");
    }
    let (commands_read, error) = commands(&bytes, &[1], AuthState::Authenticated);
    assert_eq!((commands_read.len(), commands_read[0].len(), error), (1, arguments, None));
}
