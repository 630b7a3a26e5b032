//! Runs the futures of one node, in the order in which they were woken. No threads, no runtime, no timers.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::StoreError;
use tidegate::store::{Reply, ReplyFuture};

pub(super) type BackgroundFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The futures of a node.
#[derive(Default)]
pub(super) struct Tasks {
    tasks: Vec<Option<Task>>,
    free: Vec<usize>,
    ready: Arc<ReadyQueue>,
}

struct Task {
    kind: TaskKind,
    wake_flag: Arc<WakeFlag>,
    waker: Waker,
}

enum TaskKind {
    /// The decision of a request, with its number.
    Request(usize, ReplyFuture),
    Background(BackgroundFuture),
}

#[derive(Default)]
struct ReadyQueue(Mutex<Vec<usize>>);

struct WakeFlag {
    index: usize,
    is_queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::Relaxed) {
            self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.index);
        }
    }
}

impl Tasks {
    pub(super) fn add_request(&mut self, number: usize, future: ReplyFuture) {
        self.add(TaskKind::Request(number, future));
    }

    pub(super) fn add_background(&mut self, future: BackgroundFuture) {
        self.add(TaskKind::Background(future));
    }

    fn add(&mut self, kind: TaskKind) {
        let index = self.free.pop().unwrap_or(self.tasks.len());
        let wake_flag =
            Arc::new(WakeFlag { index, is_queued: AtomicBool::new(false), ready: self.ready.clone() });
        wake_flag.wake_by_ref();
        let waker = Waker::from(wake_flag.clone());
        let task = Some(Task { kind, wake_flag, waker });
        match self.tasks.get_mut(index) {
            Some(slot) => *slot = task,
            None => self.tasks.push(task),
        }
    }

    /// Polls the tasks that were woken. Returns the requests that are decided, or `None` if no task was woken.
    pub(super) fn poll_woken(&mut self) -> Option<Vec<(usize, Result<Reply, StoreError>)>> {
        let woken = std::mem::take(&mut *self.ready.0.lock().unwrap_or_else(PoisonError::into_inner));
        if woken.is_empty() {
            return None;
        }
        let mut decided = Vec::new();
        for index in woken {
            // A task that is gone may have been woken, and its place may have another one: polling that is harmless.
            let Some(task) = self.tasks.get_mut(index).and_then(Option::as_mut) else { continue };
            task.wake_flag.is_queued.store(false, Ordering::Relaxed);
            let waker = task.waker.clone();
            let mut context = Context::from_waker(&waker);
            let is_done = match &mut task.kind {
                TaskKind::Background(future) => future.as_mut().poll(&mut context).is_ready(),
                TaskKind::Request(number, future) => match future.as_mut().poll(&mut context) {
                    Poll::Ready(reply) => {
                        decided.push((*number, reply));
                        true
                    }
                    Poll::Pending => false,
                },
            };
            if is_done {
                self.tasks[index] = None;
                self.free.push(index);
            }
        }
        Some(decided)
    }
}
