//! Requests of one connection that are asked together, where a store answers later: their answers are given in the order of
//! the requests, and those that came after a request do not wait for its answer to be asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;

use super::reply::Replies;
use crate::serve::sleepers::FutureSet;

/// The most requests of a connection that are asked at a time.
const IN_FLIGHT_MAX: usize = 256;
/// The most bytes of them that are kept meanwhile; one may be larger by itself.
const IN_FLIGHT_BYTES_MAX: usize = 256 << 10;

/// An answer that comes later.
pub(super) type ReplyFuture<'s> = Pin<Box<dyn Future<Output = Replies> + Send + 's>>;

/// Requests that are asked together.
pub(super) struct InFlightCommands<'s> {
    futures: FutureSet<InFlightCommand<'s>>,
    /// One for each request that is not answered, in their order.
    slots: VecDeque<ReplySlot>,
    /// The number of the first of them, counted from when the connection began.
    first_number: u64,
    /// What is kept of them.
    bytes: usize,
    /// What those are asked for that are not answered.
    access: StoreAccess,
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreAccess {
    /// To charge.
    Write,
    /// To say what is there. A store may answer what it is asked at the same time in another order, of which this would
    /// tell: so it is not asked together with what charges.
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

/// Whether one more is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    /// Not before another is answered.
    None,
}

impl<'s> InFlightCommands<'s> {
    /// None yet.
    pub fn new() -> Self {
        Self { futures: FutureSet::new(), slots: VecDeque::new(), first_number: 0, bytes: 0, access: StoreAccess::Write }
    }

    /// Whether all are answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether there is room for one more.
    pub fn room(&self) -> Room {
        if self.slots.len() < IN_FLIGHT_MAX && self.bytes < IN_FLIGHT_BYTES_MAX { Room::Some } else { Room::None }
    }

    /// Whether there is room for one more that asks for this.
    pub fn room_for(&self, asks: StoreAccess) -> Room {
        if self.is_empty() || self.access == asks { self.room() } else { Room::None }
    }

    /// Asks one more, of which so many bytes are kept, when this is polled next: after those before it.
    pub fn push_future(&mut self, asks: StoreAccess, answering: ReplyFuture<'s>, bytes: usize) {
        self.access = asks;
        let number = self.first_number + self.slots.len() as u64;
        self.slots.push_back(ReplySlot { reply: None, bytes });
        self.bytes += bytes;
        self.futures.add(InFlightCommand { number, reply: answering });
    }

    /// Adds an answer that is there, behind those that are not.
    pub fn push_reply(&mut self, answer: Replies) {
        self.slots.push_back(ReplySlot { reply: Some(answer), bytes: 0 });
    }

    /// Asks those that were not, and hands on what is answered, up to the first that is not.
    pub fn poll(&mut self, context: &Context<'_>, replies: &mut Replies) {
        let Self { futures: asked, slots: places, first_number: first, bytes, .. } = self;
        asked.poll(context, |one, context| {
            one.reply.as_mut().poll(context).map(|answer| {
                let place = usize::try_from(one.number - *first).unwrap_or(usize::MAX);
                if let Some(place) = places.get_mut(place) {
                    place.reply = Some(answer);
                }
            })
        });
        while let Some(ReplySlot { reply: Some(answer), bytes: kept }) = places.front_mut() {
            replies.append(answer);
            *bytes -= *kept;
            *first += 1;
            places.pop_front();
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

    fn poll_replies(together: &mut InFlightCommands<'_>) -> String {
        let mut replies = Replies::new(RespVersion::Resp2);
        together.poll(&Context::from_waker(Waker::noop()), &mut replies);
        String::from_utf8(replies.bytes().to_vec()).unwrap()
    }

    #[test]
    fn replies_keep_the_order_of_commands() {
        let mut together = InFlightCommands::new();
        let (first, answered) = oneshot::channel();
        together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("a"))), 1);
        together.push_future(StoreAccess::Write, Box::pin(async { answered.await.unwrap() }), 1);
        together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("c"))), 1);
        assert_eq!(poll_replies(&mut together), "+a\r\n");
        together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("d"))), 1);
        assert_eq!(poll_replies(&mut together), "");
        first.send(reply_of("b")).unwrap();
        assert_eq!(poll_replies(&mut together), "+b\r\n+c\r\n+d\r\n");
        assert!(together.is_empty() && together.bytes == 0);
        together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("e"))), 1);
        assert_eq!(poll_replies(&mut together), "+e\r\n");
    }

    #[test]
    fn count_and_bytes_are_bounded() {
        let mut together = InFlightCommands::new();
        for _ in 0..IN_FLIGHT_MAX {
            assert_eq!(together.room(), Room::Some);
            together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("x"))), 1);
        }
        assert_eq!(together.room(), Room::None);
        poll_replies(&mut together);
        assert_eq!(together.room(), Room::Some);
        together.push_future(StoreAccess::Write, Box::pin(ready(reply_of("x"))), IN_FLIGHT_BYTES_MAX);
        assert_eq!(together.room(), Room::None);
    }

    #[test]
    fn reads_and_writes_are_not_mixed() {
        let mut together = InFlightCommands::new();
        for (asks, other) in [(StoreAccess::Write, StoreAccess::Read), (StoreAccess::Read, StoreAccess::Write)] {
            assert_eq!(together.room_for(asks), Room::Some);
            together.push_future(asks, Box::pin(ready(reply_of("x"))), 1);
            assert_eq!((together.room_for(asks), together.room_for(other)), (Room::Some, Room::None));
            poll_replies(&mut together);
        }
    }
}
