//! The share of one of several nodes: together the nodes admit what the limit does, and no more.

use std::num::NonZeroU32;

use proptest::prelude::*;
use tidegate_core::{AlgorithmName, Counter, Limit};

use crate::properties::{limits, proptest_config};
use crate::subject::Subject;

proptest! {
    #![proptest_config(proptest_config(750))]

    #[test]
    fn shares_add_up_to_no_more_than_the_limit(spec in limits::any_algorithm(), nodes in 1..200_u32) {
        let whole = Subject::from_spec(&spec).limit().clone();
        let nodes = NonZeroU32::new(nodes).unwrap();
        let share = whole.node_share(nodes);
        let together = |units: u64| units * u64::from(nodes.get());
        let (units, all_units) = (share.rate().limit(), whole.rate().limit());
        prop_assert_eq!(units == 0, all_units == 0);
        if all_units >= u64::from(nodes.get()) {
            prop_assert!(together(units) <= all_units && together(units + 1) > all_units);
        } else {
            prop_assert!(units <= 1);
        }
        // Of a queue, each node also releases one unit immediately, which does not wait.
        let of_queue = u64::from(spec.algorithm == Some(AlgorithmName::LeakyBucket) && all_units > 0);
        let (capacity, all_capacity) = (share.capacity() - of_queue, whole.capacity() - of_queue);
        prop_assert!(together(capacity) <= all_capacity.max(u64::from(nodes.get())));
        prop_assert_eq!(capacity == 0, all_capacity == 0);
    }

    /// A share is a limit like any other: it uses the same counter, and its text can be read back.
    #[test]
    fn a_share_counts_where_the_whole_does(spec in limits::any_algorithm(), nodes in 1..200_u32) {
        let whole = Subject::from_spec(&spec).limit().clone();
        let nodes = NonZeroU32::new(nodes).unwrap();
        let counter = Counter::new("rule", 0, whole.clone());
        let share = counter.node_share(nodes);
        prop_assert_eq!(share.id(), counter.id());
        prop_assert_eq!(share.limit(), &whole.node_share(nodes));
        prop_assert_eq!(share.limit().to_string().parse::<Limit>(), Ok(share.limit().clone()));
        prop_assert_eq!(whole.node_share(NonZeroU32::MIN), whole);
    }
}
