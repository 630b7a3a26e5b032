//! Who checks does not stand in line.

use tidegate::Timestamp;
use tidegate::rules::Fate;

use crate::engine::delay::{SLOW, bench, passed, rules};
use crate::engine::setup::Setup;

#[test]
fn a_deadline_holds_though_the_rule_would_wait_longer_now() {
    let bench = bench(Setup::Own, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.come(&mut tasks, "user=1", 6);
    tasks.run_woken();
    // Somebody takes a unit past the line, so the last one in it is a second too late.
    tasks.run_up_to(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(bench.ask("user=1").fate, Fate::Allowed);
    bench.reload(&rules(&SLOW.replace("5s", "50s")));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, false]);
}
