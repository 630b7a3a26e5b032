//! The smallest executor: a task is polled when it was woken and not otherwise, polls are counted, and when nobody
//! is runnable the clock moves to the next instant that somebody sleeps for.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::{Clock, ManualClock, Timestamp};

/// A task of an [`Executor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task(usize);

/// What a task came to, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOutput<T> {
    pub at: Timestamp,
    pub output: T,
}

pub struct Executor<'a, T> {
    clock: ManualClock,
    tasks: Vec<TaskState<'a, T>>,
    runnable: Arc<Mutex<VecDeque<usize>>>,
    finished: Vec<Task>,
    /// The most sleepers that the clock ever had after all runnable tasks were polled.
    pub sleepers_max: usize,
}

struct TaskState<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
    finished: Option<TaskOutput<T>>,
    polls: usize,
}

struct TaskWaker {
    task: usize,
    runnable: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let mut runnable = self.runnable.lock().unwrap();
        if !runnable.contains(&self.task) {
            runnable.push_back(self.task);
        }
    }
}

impl<'a, T> Executor<'a, T> {
    pub fn new(clock: &ManualClock) -> Self {
        let runnable = Arc::default();
        Self { clock: clock.clone(), tasks: Vec::new(), runnable, finished: Vec::new(), sleepers_max: 0 }
    }

    /// Adds a task, which is polled for the first time when tasks are run next.
    pub fn spawn(&mut self, future: impl Future<Output = T> + 'a) -> Task {
        let task = self.tasks.len();
        self.tasks.push(TaskState { future: Some(Box::pin(future)), finished: None, polls: 0 });
        self.runnable.lock().unwrap().push_back(task);
        Task(task)
    }

    /// Drops a task's future, wherever it is.
    pub fn drop_task(&mut self, task: Task) {
        self.tasks[task.0].future = None;
    }

    /// Polls whoever was woken, until nobody is.
    pub fn run_woken(&mut self) {
        while let Some(task) = self.next_runnable() {
            let waker = Waker::from(Arc::new(TaskWaker { task, runnable: self.runnable.clone() }));
            let state = &mut self.tasks[task];
            let Some(future) = &mut state.future else { continue };
            state.polls += 1;
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                state.future = None;
                state.finished = Some(TaskOutput { at: self.clock.now(), output });
                self.finished.push(Task(task));
            }
        }
        self.sleepers_max = self.sleepers_max.max(self.clock.sleepers());
    }

    /// Runs until all that is due before `instant` is done, then moves the clock there and polls nobody.
    pub fn run_up_to(&mut self, instant: Timestamp) {
        self.run_woken();
        while let Some(next) = self.clock.next_wake().filter(|next| *next < instant) {
            self.clock.set(next);
            self.run_woken();
        }
        self.clock.set(instant);
    }

    /// Runs until all that is due at `instant` is done.
    pub fn run_until(&mut self, instant: Timestamp) {
        self.run_up_to(instant);
        self.run_woken();
    }

    /// Runs until nobody sleeps. Whoever has not finished by then waits for something that does not come.
    pub fn run(&mut self) {
        self.run_woken();
        while let Some(next) = self.clock.next_wake() {
            self.clock.set(next);
            self.run_woken();
        }
    }

    pub fn finished(&self, task: Task) -> Option<&TaskOutput<T>> {
        self.tasks[task.0].finished.as_ref()
    }

    /// Takes what a task came to.
    pub fn take(&mut self, task: Task) -> Option<T> {
        self.tasks[task.0].finished.take().map(|finished| finished.output)
    }

    /// All that finished, in the order in which they did.
    pub fn completion_order(&self) -> &[Task] {
        &self.finished
    }

    pub fn polls(&self, task: Task) -> usize {
        self.tasks[task.0].polls
    }

    pub fn total_polls(&self) -> usize {
        self.tasks.iter().map(|state| state.polls).sum()
    }

    fn next_runnable(&self) -> Option<usize> {
        self.runnable.lock().unwrap().pop_front()
    }
}
