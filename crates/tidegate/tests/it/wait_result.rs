//! How a wait ended, as a plain value that tests compare.

use tidegate::{Admitted, Clock, Decision, Nanos, Refused};

/// How a wait for a limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitResult {
    Admitted { decision: Decision, waited: Nanos },
    Refused(Refusal),
}

/// Why a request did not wait, or stopped waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Never,
    TooLong { wait: Option<Nanos> },
    QueueFull,
}

impl WaitResult {
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted { .. })
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Never => Self::Never,
            Refused::TooLong { wait } => Self::TooLong { wait },
            Refused::QueueFull => Self::QueueFull,
            other => panic!("waiting in memory does not end with {other:?}"),
        }
    }
}

/// Waits until the request is admitted. A lease of a concurrency limit stays held for its ttl.
pub async fn wait_result<'a, C: Clock + 'a>(
    acquiring: impl Future<Output = Result<Admitted<'a, C>, Refused>>,
) -> WaitResult {
    match acquiring.await {
        Ok(admitted) => {
            let (decision, waited) = (*admitted.decision(), admitted.waited().into());
            std::mem::forget(admitted);
            WaitResult::Admitted { decision, waited }
        }
        Err(refused) => WaitResult::Refused(refused.into()),
    }
}
