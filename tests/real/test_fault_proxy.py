"""The fault proxy fails in each of its modes."""

import time

import pytest
import redis
from harness.asking import redis_client


def test_each_way_to_fail(redis_server, fault_proxy):
    proxy = fault_proxy(redis_server())
    with redis_client(port=proxy.port) as client, redis_client(port=proxy.port, socket_timeout=0.2) as impatient:
        assert client.ping()
        proxy.delays(50)
        began = time.monotonic()
        assert client.ping()
        assert time.monotonic() - began >= 0.1, "there and back"
        proxy.stalls()
        with pytest.raises(redis.TimeoutError):
            impatient.ping()
        proxy.passes()
        assert client.ping()
        for fail in (proxy.resets, proxy.closes):
            fail()
            for _ in range(2):
                with pytest.raises(redis.ConnectionError):
                    client.ping()
            proxy.passes()
            assert client.ping()
        before = proxy.connections
        proxy.resets_once()
        try:
            client.ping()  # The client may have noticed the reset before it sends.
        except redis.ConnectionError:
            pass
        assert client.ping()
        assert proxy.connections == before + 1
