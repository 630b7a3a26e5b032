//! The smallest executor. It polls a task only if the task was woken, and counts polls. When no task is runnable, it
//! moves the clock to the next instant of a sleeper.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tidegate::{Clock, ManualClock, Timestamp};

/// A task of an [`Executor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task(usize);

/// The output of a task, and when it was done.
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

    /// Adds a task. It is polled for the first time when tasks are run next.
    pub fn spawn(&mut self, future: impl Future<Output = T> + 'a) -> Task {
        let task = self.tasks.len();
        self.tasks.push(TaskState { future: Some(Box::pin(future)), finished: None, polls: 0 });
        self.runnable.lock().unwrap().push_back(task);
        Task(task)
    }

    /// Drops the future of a task, in any state.
    pub fn drop_task(&mut self, task: Task) {
        self.tasks[task.0].future = None;
    }

    /// Polls the woken tasks, until there are none.
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

    /// Runs until everything due before `instant` is done, then moves the clock there without polling.
    pub fn run_up_to(&mut self, instant: Timestamp) {
        self.run_woken();
        while let Some(next) = self.clock.next_wake().filter(|next| *next < instant) {
            self.clock.set(next);
            self.run_woken();
        }
        self.clock.set(instant);
    }

    /// Runs until everything due at `instant` is done.
    pub fn run_until(&mut self, instant: Timestamp) {
        self.run_up_to(instant);
        self.run_woken();
    }

    /// Runs until no task sleeps. A task that is not done by then waits for something that does not come.
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

    /// Takes the output of a task.
    pub fn take(&mut self, task: Task) -> Option<T> {
        self.tasks[task.0].finished.take().map(|finished| finished.output)
    }

    /// All finished tasks, in the order in which they finished.
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
