//! Requests of one connection that are asked together, where a store answers later: their answers are given in the order of
//! the requests, and those that came after a request do not wait for its answer to be asked.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context;

use super::reply::Replies;
use crate::serve::sleepers::Sleepers;

/// The most requests of a connection that are asked at a time.
const ASKED_MAX: usize = 256;
/// The most bytes of them that are kept meanwhile; one may be larger by itself.
const ASKED_BYTES_MAX: usize = 256 << 10;

/// An answer that comes later.
pub(super) type Answering<'s> = Pin<Box<dyn Future<Output = Replies> + Send + 's>>;

/// Requests that are asked together.
pub(super) struct Together<'s> {
    asked: Sleepers<Asked<'s>>,
    /// One for each request that is not answered, in their order.
    places: VecDeque<Place>,
    /// The number of the first of them, counted from when the connection began.
    first: u64,
    /// What is kept of them.
    bytes: usize,
    /// What those are asked for that are not answered.
    asks: Asks,
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// To charge.
    Charges,
    /// To say what is there. A store may answer what it is asked at the same time in another order, of which this would
    /// tell: so it is not asked together with what charges.
    Looks,
}

struct Asked<'s> {
    number: u64,
    answering: Answering<'s>,
}

struct Place {
    answer: Option<Replies>,
    bytes: usize,
}

/// Whether one more is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Some,
    /// Not before another is answered.
    None,
}

impl<'s> Together<'s> {
    /// None yet.
    pub fn new() -> Self {
        Self { asked: Sleepers::new(), places: VecDeque::new(), first: 0, bytes: 0, asks: Asks::Charges }
    }

    /// Whether all are answered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether there is room for one more.
    pub fn room(&self) -> Room {
        if self.places.len() < ASKED_MAX && self.bytes < ASKED_BYTES_MAX { Room::Some } else { Room::None }
    }

    /// Whether there is room for one more that asks for this.
    pub fn room_for(&self, asks: Asks) -> Room {
        if self.is_empty() || self.asks == asks { self.room() } else { Room::None }
    }

    /// Asks one more, of which so many bytes are kept, when this is polled next: after those before it.
    pub fn ask(&mut self, asks: Asks, answering: Answering<'s>, bytes: usize) {
        self.asks = asks;
        let number = self.first + self.places.len() as u64;
        self.places.push_back(Place { answer: None, bytes });
        self.bytes += bytes;
        self.asked.add(Asked { number, answering });
    }

    /// Adds an answer that is there, behind those that are not.
    pub fn add(&mut self, answer: Replies) {
        self.places.push_back(Place { answer: Some(answer), bytes: 0 });
    }

    /// Asks those that were not, and hands on what is answered, up to the first that is not.
    pub fn poll(&mut self, context: &Context<'_>, replies: &mut Replies) {
        let Self { asked, places, first, bytes, .. } = self;
        asked.poll(context, |one, context| {
            one.answering.as_mut().poll(context).map(|answer| {
                let place = usize::try_from(one.number - *first).unwrap_or(usize::MAX);
                if let Some(place) = places.get_mut(place) {
                    place.answer = Some(answer);
                }
            })
        });
        while let Some(Place { answer: Some(answer), bytes: kept }) = places.front_mut() {
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

    use super::super::reply::Version;
    use super::*;

    fn said(text: &str) -> Replies {
        let mut replies = Replies::new(Version::Resp2);
        replies.simple(text);
        replies
    }

    fn polled(together: &mut Together<'_>) -> String {
        let mut replies = Replies::new(Version::Resp2);
        together.poll(&Context::from_waker(Waker::noop()), &mut replies);
        String::from_utf8(replies.bytes().to_vec()).unwrap()
    }

    #[test]
    fn answers_come_in_the_order_of_the_requests() {
        let mut together = Together::new();
        let (first, answered) = oneshot::channel();
        together.ask(Asks::Charges, Box::pin(ready(said("a"))), 1);
        together.ask(Asks::Charges, Box::pin(async { answered.await.unwrap() }), 1);
        together.ask(Asks::Charges, Box::pin(ready(said("c"))), 1);
        assert_eq!(polled(&mut together), "+a\r\n");
        together.ask(Asks::Charges, Box::pin(ready(said("d"))), 1);
        assert_eq!(polled(&mut together), "");
        first.send(said("b")).unwrap();
        assert_eq!(polled(&mut together), "+b\r\n+c\r\n+d\r\n");
        assert!(together.is_empty() && together.bytes == 0);
        together.ask(Asks::Charges, Box::pin(ready(said("e"))), 1);
        assert_eq!(polled(&mut together), "+e\r\n");
    }

    #[test]
    fn there_are_so_many_at_most_and_so_many_bytes_of_them() {
        let mut together = Together::new();
        for _ in 0..ASKED_MAX {
            assert_eq!(together.room(), Room::Some);
            together.ask(Asks::Charges, Box::pin(ready(said("x"))), 1);
        }
        assert_eq!(together.room(), Room::None);
        polled(&mut together);
        assert_eq!(together.room(), Room::Some);
        together.ask(Asks::Charges, Box::pin(ready(said("x"))), ASKED_BYTES_MAX);
        assert_eq!(together.room(), Room::None);
    }

    #[test]
    fn what_looks_is_not_asked_together_with_what_charges() {
        let mut together = Together::new();
        for (asks, other) in [(Asks::Charges, Asks::Looks), (Asks::Looks, Asks::Charges)] {
            assert_eq!(together.room_for(asks), Room::Some);
            together.ask(asks, Box::pin(ready(said("x"))), 1);
            assert_eq!((together.room_for(asks), together.room_for(other)), (Room::Some, Room::None));
            polled(&mut together);
        }
    }
}
