"""nginx, with a configuration as text."""

import socket

from .processes import Process
from .waiting import wait_for


class Nginx:
    """A running nginx. Its configuration listens on `port`, and clients use `url`."""

    def __init__(self, binary, directory, config, port):
        path = directory / "nginx.conf"
        path.write_text(config)
        self.port, self.url = port, f"http://127.0.0.1:{port}/"
        self.process = Process([binary, "-p", directory, "-c", path], directory / "nginx")
        try:
            wait_for("nginx listens", self._listens)
        except BaseException:
            self.process.kill()
            raise

    def _listens(self):
        self.process.must_run()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        return self.process.stop()
