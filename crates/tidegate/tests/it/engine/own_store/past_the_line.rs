//! Who checks does not stand in line.

use tidegate::Timestamp;
use tidegate::rules::AnswerKind;

use crate::engine::delay::{SLOW, fixture_with_rule, passed, rules};
use crate::engine::setup::Setup;

#[test]
fn a_longer_max_wait_does_not_extend_a_deadline() {
    let bench = fixture_with_rule(Setup::Local, SLOW);
    let mut tasks = bench.tasks();
    let all = bench.spawn_requests(&mut tasks, "user=1", 6);
    tasks.run_woken();
    // Somebody takes a unit past the line, so the last one in it is a second too late.
    tasks.run_up_to(Timestamp::from_nanos(1_000_000_000));
    assert_eq!(bench.check("user=1").kind, AnswerKind::Allowed);
    bench.reload(&rules(&SLOW.replace("5s", "50s")));
    tasks.run();
    assert_eq!(passed(&tasks, &all), [true, true, true, true, true, false]);
}
