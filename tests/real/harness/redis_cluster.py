"""Redis Cluster: masters, each with a replica."""

from redis.crc import key_slot

from .redis_server import NOT_YET, RedisServer, is_in_step
from .tidegate import keep_port
from .waiting import wait_for

SLOTS = 16_384


class RedisCluster:
    """Six nodes by default. At first, the first three are masters."""

    def __init__(self, directory, *, masters=3, node_timeout_ms=1_000, program="redis-server"):
        self.nodes, self.kept_ports = [], []
        try:
            for number in range(2 * masters):
                self.nodes.append(self._node(directory / f"node-{number}", program))
            self._meet()
            self._share_slots(masters)
            self._follow(masters)
            wait_for("the cluster is up", self.is_whole)
            for node in self.nodes:
                node.ask("CONFIG", "SET", "cluster-node-timeout", node_timeout_ms)
        except BaseException:
            self.stop()
            self.close()
            raise

    def _node(self, directory, program):
        directory.mkdir(parents=True)
        bus_port = keep_port()
        self.kept_ports.append(bus_port)
        return RedisServer(
            directory,
            program=program,
            cluster_enabled="yes",
            cluster_port=bus_port.getsockname()[1],
            cluster_config_file="nodes.conf",
            # A shorter timeout lets nodes find each other sooner.
            cluster_node_timeout=1_000,
        )

    def _meet(self):
        first, *others = self.nodes
        for number, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, bus_port in zip(others, self.kept_ports[1:], strict=True):
            first.ask("CLUSTER", "MEET", "127.0.0.1", node.port, bus_port.getsockname()[1])
        wait_for("every node knows all others", lambda: all(self._knows_all(node) for node in self.nodes))

    def _knows_all(self, node):
        return len([known for known in nodes_seen_by(node) if "handshake" not in known["flags"]]) == len(self.nodes)

    def _share_slots(self, masters):
        for number, node in enumerate(self.nodes[:masters]):
            node.ask(
                "CLUSTER", "ADDSLOTSRANGE", SLOTS * number // masters, SLOTS * (number + 1) // masters - 1
            )

    def _follow(self, masters):
        for number, replica in enumerate(self.nodes[masters:]):
            replica.ask("CLUSTER", "REPLICATE", self.nodes[number].ask("CLUSTER", "MYID"))

    @property
    def url(self):
        return "redis-cluster://" + ",".join(node.address for node in self.nodes)

    def running(self):
        return [node for node in self.nodes if node.process.child.poll() is None]

    def masters(self):
        return [node for node in self.running() if node.info("replication")["role"] == "master"]

    def replicas(self):
        return [node for node in self.running() if node.info("replication")["role"] == "slave"]

    def is_whole(self):
        """Every node reports all slots as served, has heard that from at least half of the nodes, and replicas are in sync."""
        try:
            served = all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.running())
            replicas = self.replicas()
            followed = len(replicas) * 2 == len(self.running()) and all(map(is_in_step, replicas))
            # WAIT and failover ignore a replica that its master does not know yet.
            known = all(node.info("replication")["connected_slaves"] == 1 for node in self.masters())
            return served and followed and known
        except NOT_YET:
            return False

    def master_of(self, key):
        """The node that currently serves a key."""
        return self.server_of_slot(key_slot(key.encode()))

    def server_of_slot(self, slot):
        for seen in nodes_seen_by(next(node for node in self.running() if not node.is_paused)):
            if "master" in seen["flags"] and any(first <= slot <= last for first, last in seen["slots"]):
                return self.node(seen["port"])
        raise AssertionError(f"no node serves slot {slot}")

    def node(self, port):
        return next(node for node in self.nodes if node.port == port)

    def keys(self, pattern="*"):
        """All keys of the masters."""
        return sorted(key for master in self.masters() for key in master.keys(pattern))

    def move_slot(self, slot, to, *, pause=lambda: None):
        """Moves a slot as `redis-cli --cluster reshard` does: key by key. Calls `pause` while the slot is half moved."""
        source = self.server_of_slot(slot)
        source_id, target_id = source.ask("CLUSTER", "MYID"), to.ask("CLUSTER", "MYID")
        to.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id)
        pause()
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1):
            source.ask("MIGRATE", "127.0.0.1", to.port, keys[0], 0, 10_000)
            pause()
        for node in (to, source, *self.masters()):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", target_id)

    def stop(self):
        for node in self.nodes:
            node.stop()

    def close(self):
        for each in (*self.nodes, *self.kept_ports):
            each.close()


def nodes_seen_by(node):
    """Parses CLUSTER NODES: id, port, flags and slot ranges of each node."""

    def taken_apart(line):
        node_id, address, flags, _master, _ping, _pong, _epoch, _link, *slots = line.split()
        ranges = [part.partition("-") for part in slots if not part.startswith("[")]
        return {
            "id": node_id,
            "port": int(address.partition("@")[0].rpartition(":")[2]),
            "flags": flags.split(","),
            "slots": [(int(first), int(last or first)) for first, _, last in ranges],
        }

    return [taken_apart(line) for line in node.ask("CLUSTER", "NODES").splitlines()]
