//! `PING`, `SELECT`, `RESET`.

use super::{Context, wrong_number_of_arguments};
use crate::serve::resp::parse::Arguments;
use crate::serve::resp::reply::{Replies, Version};
use crate::serve::resp::session::Session;

pub(super) fn ping(arguments: &Arguments<'_>, replies: &mut Replies) {
    match (arguments.get(1), arguments.len()) {
        (None, _) => replies.simple("PONG"),
        (Some(message), 2) => replies.bulk(message),
        _ => wrong_number_of_arguments("ping", replies),
    }
}

/// There is one database.
pub(super) fn select(arguments: &Arguments<'_>, replies: &mut Replies) {
    match super::throttle::integer(arguments.get(1).unwrap_or_default()) {
        Some(0) => replies.simple("OK"),
        Some(_) => replies.error("ERR DB index is out of range"),
        None => replies.error("ERR value is not an integer or out of range"),
    }
}

pub(super) fn reset(context: &mut Context<'_, '_>) {
    *context.session = Session::new(context.session.id, context.server.trust_at_first());
    context.replies.speak(Version::Resp2);
    context.replies.simple("RESET");
}
