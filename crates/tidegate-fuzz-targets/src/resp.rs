//! Any bytes as commands of the Redis protocol. Nothing panics, nothing past the bounds is a command, and the same bytes
//! are the same commands however they are split.
//!
//! The first byte says how they are split.

use tidegate_server::serve::resp::{
    ARGUMENTS_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, ProtocolError,
    UNAUTHENTICATED_ARGUMENTS_MAX, AuthState,
};

/// Commands, and what ended them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ParsedCommands {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

/// Parses the bytes whole and in pieces.
pub fn resp(bytes: &[u8]) {
    let Some((split, bytes)) = bytes.split_first() else { return };
    for trust in [AuthState::Authenticated, AuthState::Unauthenticated] {
        let whole = parse_in_pieces(bytes, trust, bytes.len());
        for piece in [1, usize::from(*split) + 1] {
            assert_eq!(parse_in_pieces(bytes, trust, piece), whole, "in pieces of {piece}");
        }
        for command in &whole.commands {
            let together: usize = command.iter().map(Vec::len).sum();
            assert!((1..=ARGUMENTS_MAX).contains(&command.len()));
            assert!(together <= COMMAND_BYTES_MAX.max(INLINE_BYTES_MAX));
        }
        if let Some(error) = whole.error {
            let said = error.to_string();
            assert!(said.starts_with("Protocol error: ") && !said.contains(['\r', '\n']));
            assert!(error != ProtocolError::UnauthenticatedArguments || trust == AuthState::Unauthenticated);
        }
    }
}

fn parse_in_pieces(bytes: &[u8], trust: AuthState, piece: usize) -> ParsedCommands {
    let (mut parser, mut understood) = (Parser::default(), ParsedCommands::default());
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + piece);
        loop {
            match parser.parse(&bytes[start..end], trust) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Empty { length }) => start += length,
                Ok(Parsed::Command { length }) => {
                    let arguments = parser.arguments(&bytes[start..end]);
                    let is_array = bytes[start] == b'*';
                    assert!(trust == AuthState::Authenticated || !is_array || arguments.len() <= UNAUTHENTICATED_ARGUMENTS_MAX);
                    understood.commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    start += length;
                }
                Err(error) => return ParsedCommands { error: Some(error), ..understood },
            }
            assert!(start <= end);
        }
    }
    understood
}
