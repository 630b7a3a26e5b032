//! Commands of one connection whose replies come later. They run at the same time: a command does not wait for the reply
//! of an earlier one. Replies keep the order of the commands.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;

use super::reply::Replies;
use crate::serve::future_set::FutureSet;

/// Maximum number of commands in flight per connection.
const IN_FLIGHT_MAX: usize = 256;
/// Maximum bytes kept for them. A single command may exceed it.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 10;

/// A reply that comes later.
pub(crate) type ReplyFuture<'s> = Pin<Box<dyn Future<Output = Replies> + Send + 's>>;

pub(crate) struct InFlightCommands<'s> {
    futures: FutureSet<InFlightCommand<'s>>,
    /// One for each unanswered command, in order.
    slots: VecDeque<ReplySlot>,
    /// The number of the first slot, counted since the connection began.
    first_number: u64,
    /// Bytes kept for them.
    bytes: usize,
    /// What the unanswered commands do in the store.
    access: StoreAccess,
}

/// What a command does in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreAccess {
    /// It charges.
    Write,
    /// It frees units. Later commands wait for it, because they must see these units.
    Release,
    /// It only reads. The store may handle concurrent operations in any order, and a read would show that order, so
    /// reads are not in flight together with writes.
    Read,
}

struct InFlightCommand<'s> {
    number: u64,
    reply: ReplyFuture<'s>,
}

struct ReplySlot {
    reply: Option<Replies>,
    bytes: usize,
}

/// Whether another command may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Some,
    /// Not before a reply arrives.
    None,
}

impl<'s> InFlightCommands<'s> {
    pub fn new() -> Self {
        Self {
            futures: FutureSet::new(),
            slots: VecDeque::new(),
            first_number: 0,
            bytes: 0,
            access: StoreAccess::Write,
        }
    }

    /// Whether all commands are answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes kept for unanswered commands.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is room for another command.
    pub fn room(&self) -> Room {
        if self.slots.len() < IN_FLIGHT_MAX && self.bytes < IN_FLIGHT_BYTES_MAX {
            Room::Some
        } else {
            Room::None
        }
    }

    /// Whether there is room for another command with this access.
    pub fn room_for(&self, access: StoreAccess) -> Room {
        match (self.access, access) {
            _ if self.is_empty() => self.room(),
            (StoreAccess::Write, StoreAccess::Write | StoreAccess::Release)
            | (StoreAccess::Read, StoreAccess::Read) => self.room(),
            _ => Room::None,
        }
    }

    /// Adds a command that keeps `bytes`. It starts at the next poll, after the commands before it.
    pub fn push_future(&mut self, access: StoreAccess, reply: ReplyFuture<'s>, bytes: usize) {
        self.access = access;
        let number = self.first_number + self.slots.len() as u64;
        self.slots.push_back(ReplySlot { reply: None, bytes });
        self.bytes += bytes;
        self.futures.add(InFlightCommand { number, reply });
    }

    /// Adds a finished reply behind the unfinished ones.
    pub fn push_reply(&mut self, reply: Replies) {
        self.slots.push_back(ReplySlot { reply: Some(reply), bytes: 0 });
    }

    /// Polls the commands, and appends finished replies up to the first unfinished one.
    pub fn poll(&mut self, context: &Context<'_>, replies: &mut Replies) {
        let Self { futures, slots, first_number, bytes, .. } = self;
        futures.poll(context, |command, context| {
            command.reply.as_mut().poll(context).map(|reply| {
                let index = usize::try_from(command.number - *first_number).unwrap_or(usize::MAX);
                if let Some(slot) = slots.get_mut(index) {
                    slot.reply = Some(reply);
                }
            })
        });
        while let Some(ReplySlot { reply: Some(reply), bytes: slot_bytes }) = slots.front_mut() {
            replies.append(reply);
            *bytes -= *slot_bytes;
            *first_number += 1;
            slots.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::Waker;

    use tokio::sync::oneshot;

    use super::super::reply::RespVersion;
    use super::*;

    fn reply_of(text: &str) -> Replies {
        let mut replies = Replies::new(RespVersion::Resp2);
        replies.simple_string(text);
        replies
    }

    fn poll_replies(in_flight: &mut InFlightCommands<'_>) -> String {
        let mut replies = Replies::new(RespVersion::Resp2);
        in_flight.poll(&Context::from_waker(Waker::noop()), &mut replies);
        String::from_utf8(replies.bytes().to_vec()).unwrap()
    }

    #[test]
    fn replies_keep_the_order_of_commands() {
        let mut in_flight = InFlightCommands::new();
        let (first, answered) = oneshot::channel();
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("a"))), 1);
        in_flight.push_future(StoreAccess::Write, Box::pin(async { answered.await.unwrap() }), 1);
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("c"))), 1);
        assert_eq!(poll_replies(&mut in_flight), "+a\r\n");
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("d"))), 1);
        assert_eq!(poll_replies(&mut in_flight), "");
        first.send(reply_of("b")).unwrap();
        assert_eq!(poll_replies(&mut in_flight), "+b\r\n+c\r\n+d\r\n");
        assert!(in_flight.is_empty() && in_flight.bytes == 0);
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("e"))), 1);
        assert_eq!(poll_replies(&mut in_flight), "+e\r\n");
    }

    #[test]
    fn count_and_bytes_are_bounded() {
        let mut in_flight = InFlightCommands::new();
        for _ in 0..IN_FLIGHT_MAX {
            assert_eq!(in_flight.room(), Room::Some);
            in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("x"))), 1);
        }
        assert_eq!(in_flight.room(), Room::None);
        poll_replies(&mut in_flight);
        assert_eq!(in_flight.room(), Room::Some);
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("x"))), IN_FLIGHT_BYTES_MAX);
        assert_eq!(in_flight.room(), Room::None);
    }

    #[test]
    fn reads_and_writes_are_not_mixed() {
        let mut in_flight = InFlightCommands::new();
        for (access, other) in
            [(StoreAccess::Write, StoreAccess::Read), (StoreAccess::Read, StoreAccess::Write)]
        {
            assert_eq!(in_flight.room_for(access), Room::Some);
            in_flight.push_future(access, Box::pin(ready(reply_of("x"))), 1);
            assert_eq!((in_flight.room_for(access), in_flight.room_for(other)), (Room::Some, Room::None));
            poll_replies(&mut in_flight);
        }
    }

    #[test]
    fn commands_after_a_release_wait_for_it() {
        let mut in_flight = InFlightCommands::new();
        in_flight.push_future(StoreAccess::Write, Box::pin(ready(reply_of("x"))), 1);
        assert_eq!(in_flight.room_for(StoreAccess::Release), Room::Some);
        in_flight.push_future(StoreAccess::Release, Box::pin(ready(reply_of("x"))), 1);
        for access in [StoreAccess::Write, StoreAccess::Read, StoreAccess::Release] {
            assert_eq!(in_flight.room_for(access), Room::None);
        }
        poll_replies(&mut in_flight);
        assert_eq!(in_flight.room_for(StoreAccess::Write), Room::Some);
    }
}
