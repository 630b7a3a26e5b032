"""A master with replicas, and sentinels that promote a replica when the master is gone."""

from .redis_server import NOT_YET, RedisServer, replica_of
from .waiting import wait_for

NAME = "tide"
DOWN_AFTER_MS = 1_000


class SentinelSet:
    """One master, two replicas, three sentinels."""

    def __init__(self, directory, *, replicas=2, sentinels=3, password=None, program="redis-server"):
        self.password, self.program = password, program
        access = {"program": program} | ({"requirepass": password, "masterauth": password} if password else {})
        self.servers, self.sentinels = [], []
        try:
            self.servers.append(RedisServer(made(directory / "data-0"), **access))
            for number in range(1, replicas + 1):
                self.servers.append(replica_of(self.servers[0], made(directory / f"data-{number}"), **access))
            for number in range(sentinels):
                self.sentinels.append(self._sentinel(made(directory / f"sentinel-{number}")))
            wait_for("the sentinels know each other and the replicas", self._all_is_known)
        except BaseException:
            self.stop()
            self.close()
            raise

    def _sentinel(self, directory):
        # A sentinel rewrites its configuration file.
        path = directory / "sentinel.conf"
        password = f"sentinel auth-pass {NAME} {self.password}\n" if self.password else ""
        path.write_text(
            f"sentinel monitor {NAME} 127.0.0.1 {self.servers[0].port} 2\n"
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {NAME} 6000\n" + password
        )
        return Sentinel(directory, program=self.program, words=[path, "--sentinel"])

    def _all_is_known(self):
        def knows_all(sentinel):
            seen = sentinel.master()
            others, replicas = len(self.sentinels) - 1, len(self.servers) - 1
            return (int(seen["num-other-sentinels"]), int(seen["num-slaves"])) == (others, replicas)

        return all(knows_all(sentinel) for sentinel in self.sentinels)

    @property
    def url(self):
        password = f":{self.password}@" if self.password else ""
        return f"redis+sentinel://{password}{','.join(each.address for each in self.sentinels)}/{NAME}"

    def master(self):
        """The server that the sentinels report as master and that has this role, or None."""
        ports = {int(sentinel.master()["port"]) for sentinel in self.sentinels}
        if len(ports) != 1:
            return None
        [port] = ports
        server = next(server for server in self.servers if server.port == port)
        try:
            return server if server.info("replication")["role"] == "master" else None
        except NOT_YET:
            return None

    def stop(self):
        for each in (*self.sentinels, *self.servers):
            each.stop()

    def close(self):
        for each in (*self.sentinels, *self.servers):
            each.close()


class Sentinel(RedisServer):
    """A sentinel. It has no data, and rejects options for data."""

    def defaults(self):
        return {"bind": "127.0.0.1", "dir": self.directory}

    def master(self):
        flat = self.ask("SENTINEL", "MASTER", NAME)
        return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


def made(directory):
    directory.mkdir(parents=True)
    return directory
