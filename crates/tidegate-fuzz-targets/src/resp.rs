//! Any bytes as commands of the Redis protocol. Nothing panics, no command exceeds the bounds, and the same bytes give
//! the same commands however they are split.
//!
//! The first byte selects the split.

use tidegate_server::serve::resp::{
    AuthState, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, ProtocolError,
    UNAUTHENTICATED_ARGUMENTS_MAX, arguments_max,
};

/// The parsed commands, and the error that ended them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ParsedCommands {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

/// Parses the bytes in one piece and in several.
pub fn resp(bytes: &[u8]) {
    let Some((split, bytes)) = bytes.split_first() else { return };
    for auth in [AuthState::Authenticated, AuthState::Unauthenticated] {
        let whole = parse_in_pieces(bytes, auth, bytes.len());
        for piece in [1, usize::from(*split) + 1] {
            assert_eq!(parse_in_pieces(bytes, auth, piece), whole, "in pieces of {piece}");
        }
        for command in &whole.commands {
            let bytes_total: usize = command.iter().map(Vec::len).sum();
            assert!((1..=arguments_max()).contains(&command.len()));
            assert!(bytes_total <= COMMAND_BYTES_MAX.max(INLINE_BYTES_MAX));
        }
        if let Some(error) = whole.error {
            let message = error.to_string();
            assert!(message.starts_with("Protocol error: ") && !message.contains(['\r', '\n']));
            assert!(error != ProtocolError::UnauthenticatedArguments || auth == AuthState::Unauthenticated);
        }
    }
}

fn parse_in_pieces(bytes: &[u8], auth: AuthState, piece: usize) -> ParsedCommands {
    let (mut parser, mut parsed) = (Parser::default(), ParsedCommands::default());
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + piece);
        loop {
            match parser.parse(&bytes[start..end], auth) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Empty { length }) => start += length,
                Ok(Parsed::Command { length }) => {
                    let arguments = parser.arguments(&bytes[start..end]);
                    let is_array = bytes[start] == b'*';
                    assert!(
                        auth == AuthState::Authenticated
                            || !is_array
                            || arguments.len() <= UNAUTHENTICATED_ARGUMENTS_MAX
                    );
                    parsed.commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    start += length;
                }
                Err(error) => return ParsedCommands { error: Some(error), ..parsed },
            }
            assert!(start <= end);
        }
    }
    parsed
}
