//! What every lease store promises, over memory.

use std::sync::Arc;

use tidegate::MemoryStore;

use crate::lease_suite::Node;

/// One store that three parts of a process share.
async fn three_nodes() -> ((), [Node; 3]) {
    let store = Arc::new(MemoryStore::bounded(1 << 20));
    ((), std::array::from_fn(|_| Node::new(Arc::clone(&store))))
}

crate::lease_suite::lease_suite!(three_nodes);
