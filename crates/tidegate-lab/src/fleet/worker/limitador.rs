//! limitador with its Redis storage. Its only algorithm is a fixed window.

use std::collections::HashMap;

use limitador::AsyncRateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};
use limitador::storage::redis::AsyncRedisStorage;

use super::decider::Decider;

/// A limiter with one limit.
pub(super) struct Limitador {
    limiter: AsyncRateLimiter,
    namespace: Namespace,
}

impl Limitador {
    pub(super) async fn connect(redis_port: u16) -> Result<Self, String> {
        let storage = AsyncRedisStorage::new(&format!("redis://127.0.0.1:{redis_port}")).await;
        let limiter =
            AsyncRateLimiter::new_with_storage(Box::new(storage.map_err(|error| error.to_string())?));
        let user = Expression::parse("user").map_err(|error| error.to_string())?;
        limiter.add_limit(Limit::new("bench", 1_000_000, 60, [], [user]));
        Ok(Self { limiter, namespace: "bench".into() })
    }
}

impl Decider for Limitador {
    async fn decide(&self, key: &str) -> Result<(), String> {
        let context = Context::from(HashMap::from([("user".to_owned(), key.to_owned())]));
        match self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1).await {
            Ok(answer) if !answer.limited => Ok(()),
            Ok(_) => Err("it denied a request within the limit".to_owned()),
            Err(error) => Err(format!("{error:?}")),
        }
    }
}
