"""A Redis or Valkey server, on a port that it keeps across restarts."""

import redis

from .asking import redis_client
from .processes import Process
from .tidegate import keep_port
from .waiting import wait_for

NOT_YET = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.BusyLoadingError)


class RedisServer:
    """A running server. Options are Redis' own: RedisServer(directory, requirepass="x", maxmemory="1gb").

    With `tls`, a pair of certificate and key, the server uses only TLS, and clients trust `authority`.
    """

    def __init__(self, directory, *, program="redis-server", words=(), tls=None, authority=None, **options):
        self.program, self.directory, self.words, self.options = program, directory, list(words), options
        self.kept_port = keep_port()
        self.port = self.kept_port.getsockname()[1]
        self.tls, self.authority = tls, authority
        self.starts = 0
        self.is_paused = False
        self.start()

    def start(self):
        self.starts += 1
        command = [self.program, *self.words]
        for name, value in {**self.defaults(), **self._listening(), **self.options}.items():
            command += [f"--{name.replace('_', '-')}", value]
        self.process = Process(command, self.directory / f"redis-{self.starts}")
        try:
            wait_for(f"{self.program} answers", self._answers)
        except BaseException:
            self.process.kill()
            raise

    def defaults(self):
        return {"bind": "127.0.0.1", "dir": self.directory, "save": "", "repl-diskless-sync-delay": 0}

    def _listening(self):
        if self.tls is None:
            return {"port": self.port}
        certificate, key = self.tls
        return {
            "port": 0,
            "tls-port": self.port,
            "tls-cert-file": certificate,
            "tls-key-file": key,
            "tls-ca-cert-file": self.authority,
            "tls-auth-clients": "no",
        }

    def _answers(self):
        self.process.must_run()
        try:
            with self.client() as client:
                return client.ping()
        except NOT_YET:
            return False

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        """The URL for `--store`."""
        password = self.options.get("requirepass")
        return f"{'redis' if self.tls is None else 'rediss'}://{f':{password}@' if password else ''}{self.address}"

    def client(self, **more):
        """A client for tests. It waits for answers and does not retry."""
        # Old servers support only this version of the protocol.
        settings = {"port": self.port, "protocol": 2, "decode_responses": True}
        settings["password"] = self.options.get("requirepass")
        if self.tls is not None:
            settings |= {"ssl": True, "ssl_ca_certs": str(self.authority)}
        return redis_client(**{**settings, **more})

    def ask(self, *command):
        """Sends one command on a new connection."""
        with self.client() as client:
            return client.execute_command(*command)

    def info(self, section):
        with self.client() as client:
            return client.info(section)

    def keys(self, pattern="*"):
        with self.client() as client:
            return sorted(client.scan_iter(pattern, count=1000))

    def pause(self):
        """Suspends the server. Its connections stay open, as on a machine that hangs."""
        self.process.suspend()
        self.is_paused = True

    def resume(self):
        self.process.resume()
        self.is_paused = False

    def kill(self):
        self.process.kill()
        self.is_paused = False

    def restart(self):
        """Starts the server again after it was killed or stopped, with the data on its disk, if any."""
        self.process.stop()
        self.start()

    def stop(self):
        if self.is_paused:
            self.resume()
        # Its data is in memory only, so a graceful stop is not needed.
        self.process.kill()

    def close(self):
        self.kept_port.close()


def replica_of(master, directory, **options):
    """Starts a replica and waits until it is in sync."""
    replica = RedisServer(directory, replicaof=f"127.0.0.1 {master.port}", **options)
    try:
        wait_for("the replica is in sync", lambda: is_in_step(replica))
    except BaseException:
        replica.stop()
        raise
    return replica


def is_in_step(replica):
    """Whether a replica has all data of its master, so that it could take over."""
    return replica.info("replication").get("master_link_status") == "up"
