//! Names by which the wait queues know what a limiter gives.

pub(crate) use crate::limiter::{Admitted as Holding, Granted as Admitted};
