//! Any bytes as commands of the Redis protocol. Nothing panics, nothing past the bounds is a command, and the same bytes
//! are the same commands however they are split.
//!
//! The first byte says how they are split.

use tidegate_server::serve::resp::{
    ARGUMENTS_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Parsed, Parser, ProtocolError,
    STRANGER_ARGUMENTS_MAX, Trust,
};

/// Commands, and what ended them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Understood {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

/// Parses the bytes whole and in pieces.
pub fn resp(bytes: &[u8]) {
    let Some((split, bytes)) = bytes.split_first() else { return };
    for trust in [Trust::Known, Trust::Stranger] {
        let whole = understand(bytes, trust, bytes.len());
        for piece in [1, usize::from(*split) + 1] {
            assert_eq!(understand(bytes, trust, piece), whole, "in pieces of {piece}");
        }
        for command in &whole.commands {
            let together: usize = command.iter().map(Vec::len).sum();
            assert!((1..=ARGUMENTS_MAX).contains(&command.len()));
            assert!(together <= COMMAND_BYTES_MAX.max(INLINE_BYTES_MAX));
        }
        if let Some(error) = whole.error {
            let said = error.to_string();
            assert!(said.starts_with("Protocol error: ") && !said.contains(['\r', '\n']));
            assert!(error != ProtocolError::StrangersArguments || trust == Trust::Stranger);
        }
    }
}

fn understand(bytes: &[u8], trust: Trust, piece: usize) -> Understood {
    let (mut parser, mut understood) = (Parser::default(), Understood::default());
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + piece);
        loop {
            match parser.parse(&bytes[start..end], trust) {
                Ok(Parsed::Partial) => break,
                Ok(Parsed::Nothing { length }) => start += length,
                Ok(Parsed::Command { length }) => {
                    let arguments = parser.arguments(&bytes[start..end]);
                    let is_array = bytes[start] == b'*';
                    assert!(trust == Trust::Known || !is_array || arguments.len() <= STRANGER_ARGUMENTS_MAX);
                    understood.commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                    start += length;
                }
                Err(error) => return Understood { error: Some(error), ..understood },
            }
            assert!(start <= end);
        }
    }
    understood
}
