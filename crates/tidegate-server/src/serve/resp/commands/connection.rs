//! `PING`, `SELECT`, `RESET`.

use super::{CommandContext, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::{Replies, RespVersion};
use crate::serve::resp::session::Session;

pub(super) fn ping(arguments: &Arguments<'_>, replies: &mut Replies) {
    match (arguments.get(1), arguments.len()) {
        (None, _) => replies.simple_string("PONG"),
        (Some(message), 2) => replies.bulk(message),
        _ => wrong_number_of_arguments("ping", replies),
    }
}

/// Only database 0 exists.
pub(super) fn select(arguments: &Arguments<'_>, replies: &mut Replies) {
    match super::throttle::parse_integer(arguments.get(1).unwrap_or_default()) {
        Some(0) => replies.simple_string("OK"),
        Some(_) => replies.error("ERR DB index is out of range"),
        None => replies.error("ERR value is not an integer or out of range"),
    }
}

pub(super) fn reset(context: &mut CommandContext<'_, '_>) {
    *context.session = Session::new(context.session.id, context.shared.initial_auth());
    context.replies.set_version(RespVersion::Resp2);
    context.replies.simple_string("RESET");
}
