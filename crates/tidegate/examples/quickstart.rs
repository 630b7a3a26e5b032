//! Limits in action, mostly on a clock that this program moves: `cargo run --release --example quickstart`.

use std::time::Duration;

use tidegate::{Limiter, LimiterError, ManualClock, Timestamp};

fn main() -> Result<(), LimiterError> {
    let noon = Timestamp::from_nanos(1_767_268_800_000_000_000);

    println!(
        "One client sends 30 requests, one every 50 ms. Four limits of about 5 a second see it like this:\n"
    );
    for limit in [
        "5/s burst 8",
        "{algorithm: fixed_window, limit: 5, per: 1s}",
        "{algorithm: sliding_window, limit: 5, per: 1s}",
        "{algorithm: sliding_log, limit: 5, per: 1s}",
    ] {
        let clock = ManualClock::at(noon);
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build()?;
        let picture: String = (0..30)
            .map(|_| {
                let allowed = limiter.check("client", 1).is_allowed();
                clock.advance(Duration::from_millis(50));
                if allowed { '#' } else { '.' }
            })
            .collect();
        println!("  {picture}  {limit}");
    }
    println!("  |0 s                |1 s           # allowed, . denied\n");

    println!("Several limits are all-or-nothing, and a decision says what to do next:\n");
    let clock = ManualClock::at(noon);
    let limiter = Limiter::builder()
        .limit("{limit: 2, per: 1s, name: burst}")
        .limit("{algorithm: sliding_log, limit: 3, per: 1m, name: minute}")
        .clock(clock.clone())
        .build()?;
    for second in 0..3 {
        for _ in 0..3 {
            let decision = limiter.check("user:42", 1);
            let decided =
                limiter.limits().nth(decision.decided_by).and_then(|limit| limit.name()).unwrap_or("?");
            if decision.is_allowed() {
                println!("  at {second} s: allowed, {} left (of {decided})", decision.remaining);
            } else {
                println!("  at {second} s: denied by {decided}, try again in {}", decision.retry_after);
            }
        }
        clock.advance(Duration::from_secs(1));
    }

    println!("\nA leaky bucket lets bursts in and evens them out:\n");
    let clock = ManualClock::at(noon);
    let limiter = Limiter::builder()
        .limit("{algorithm: leaky_bucket, limit: 10, per: 1s, queue: 3}")
        .clock(clock)
        .build()?;
    for request in 1..=5 {
        let decision = limiter.check("printer", 1);
        if decision.is_allowed() {
            println!("  request {request}: hold it for {}", decision.delay);
        } else {
            println!("  request {request}: the queue is full for {}", decision.retry_after);
        }
    }

    println!("\nA program can also wait for its turn, in real time, first come first served:\n");
    let limiter = Limiter::new("10/s burst 2")?;
    for request in 1..=5 {
        match limiter.acquire_within_blocking("crawler", 1, Duration::from_secs(1)) {
            Ok(admitted) => println!("  request {request}: admitted after {:?}", admitted.waited()),
            Err(refused) => println!("  request {request}: {refused}"),
        }
    }

    println!("\nA concurrency limit bounds how many run at a time. Units are held and released:\n");
    let limiter = Limiter::new("{algorithm: concurrency, limit: 2, ttl: 30s}")?;
    let mut slots = Vec::new();
    for job in 1..=4 {
        match limiter.try_acquire("reports", 1) {
            Ok(slot) => {
                println!("  job {job}: runs, {} left", slot.decision().remaining);
                slots.push(slot);
            }
            Err(refused) => {
                println!("  job {job}: {refused}; the first one ends");
                drop(slots.remove(0));
            }
        }
    }
    Ok(())
}
