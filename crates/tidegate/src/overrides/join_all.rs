//! Reads several records at the same time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// How many records are read at the same time.
pub(super) const AT_ONCE_MAX: usize = 64;

/// Waits for a few futures at the same time. Each wake-up polls all that are pending.
pub(super) async fn join_all<'a, T>(
    mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
) -> Vec<T> {
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => all = Poll::Pending,
                }
            }
        }
        all
    })
    .await;
    outputs.into_iter().flatten().collect()
}
