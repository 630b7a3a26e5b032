//! What every lease store promises, over etcd.

use super::setup::{EtcdCluster, store};
use crate::lease_suite::Node;

async fn three_nodes() -> (EtcdCluster, [Node; 3]) {
    let cluster = EtcdCluster::start(1);
    let nodes = [store(&cluster).await, store(&cluster).await, store(&cluster).await];
    (cluster, nodes.map(Node::new))
}

crate::lease_suite::lease_suite!(three_nodes);
