//! A limiter in memory, and its methods: `cargo run --example limiter`.

use std::time::Duration;

use tidegate::{Limiter, Refused};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}

/// Calls each method once.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    // For each key: bursts of 3, then 50 a second, and at most 100 in any hour.
    let limiter = Limiter::builder()
        .limit("50/s burst 3")
        .limit("{algorithm: sliding_log, limit: 100, per: 1h}")
        .build()?;

    // Decide immediately.
    let decision = limiter.check("user:42", 1);
    println!("allowed: {}, {} left", decision.is_allowed(), decision.remaining);

    // A charge that is refunded unless the work succeeds.
    let reservation = limiter.reserve("user:42", 1)?;
    if work() {
        reservation.commit();
    }

    // Wait, as long as necessary or for a maximum time.
    for request in 1..=3 {
        let admitted = limiter.acquire_blocking("user:42", 1)?;
        println!("request {request} waited for {:?}", admitted.waited());
    }
    match limiter.acquire_within_blocking("user:42", 3, Duration::from_millis(1)) {
        Ok(admitted) => println!("admitted after {:?}", admitted.waited()),
        Err(Refused::TooLong { wait }) => println!("the wait would have been {wait:?}"),
        Err(refused) => println!("{refused}"),
    }
    Ok(())
}

fn work() -> bool {
    true
}
