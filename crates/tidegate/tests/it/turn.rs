//! How waiting ended, as a plain value that tests compare.

use tidegate::{Admitted, Clock, Decision, Nanos, Refused};

/// How waiting for a limit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Admitted { decision: Decision, waited: Nanos },
    Refused(Refusal),
}

/// Why a request did not wait, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Never,
    TooLong { wait: Option<Nanos> },
    QueueFull,
}

impl Turn {
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

/// Waits for a turn. What a concurrency limit gave stays held for its ttl.
pub async fn turn<'a, C: Clock + 'a>(
    acquiring: impl Future<Output = Result<Admitted<'a, C>, Refused>>,
) -> Turn {
    match acquiring.await {
        Ok(admitted) => {
            let (decision, waited) = (*admitted.decision(), admitted.waited().into());
            std::mem::forget(admitted);
            Turn::Admitted { decision, waited }
        }
        Err(refused) => Turn::Refused(refused.into()),
    }
}
