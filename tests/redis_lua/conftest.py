import pytest

from script import Script, Server


@pytest.fixture(scope="session")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def script(server):
    server.client.flushall()
    return Script(server)
