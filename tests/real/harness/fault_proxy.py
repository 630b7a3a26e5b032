"""A proxy between Tidegate and Redis that simulates failures of the network."""

import asyncio
import socket
import struct
import threading

from .waiting import DEADLINE_S

CHUNK_BYTES = 1 << 16


class FaultProxy:
    """Forwards connections to a port of this machine. Methods change its behaviour at any time:

    `passes()` forwards; `delays(ms)` delays in each direction; `stalls()` forwards nothing but keeps connections open;
    `resets()` and `closes()` end all connections, and new ones immediately.
    """

    def __init__(self, target_port):
        self.target_port = target_port
        self.connections = 0
        self.links = set()
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.passes()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}"

    def passes(self):
        self._set("pass", 0)

    def delays(self, ms):
        self._set("delay", ms)

    def stalls(self):
        self._set("stall", 0)

    def resets(self):
        self._set("reset", 0)

    def closes(self):
        self._set("close", 0)

    def resets_once(self):
        """Resets the existing connections. New ones pass."""
        self._on_the_loop(self._end_links, "reset")

    def stop(self):
        self._on_the_loop(self._end_links, "close")
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(DEADLINE_S)
        self.listener.close()

    def _set(self, mode, delay_ms):
        def change():
            self.mode, self.delay_s = mode, delay_ms / 1000
            self.flowing.clear() if mode == "stall" else self.flowing.set()
            if mode in ("reset", "close"):
                self._end_links(mode)

        self._on_the_loop(change)

    def _on_the_loop(self, function, *arguments):
        """Runs a function on the event loop and waits for it."""
        done = threading.Event()

        def call():
            function(*arguments)
            done.set()

        self.loop.call_soon_threadsafe(call)
        assert done.wait(DEADLINE_S), "the proxy does not answer"

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.mode, self.delay_s = "pass", 0
        self.flowing = asyncio.Event()
        self.loop.run_until_complete(asyncio.start_server(self._accept, sock=self.listener))
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def _end_links(self, how):
        for writer in list(self.links):
            end(writer, how)
        self.links.clear()

    async def _accept(self, reader, writer):
        self.connections += 1
        if self.mode in ("reset", "close"):
            end(writer, self.mode)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            end(writer, "reset")
            return
        self.links |= {writer, far_writer}
        try:
            await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.links -= {writer, far_writer}
            end(writer, "close")
            end(far_writer, "close")

    async def _forward(self, reader, writer):
        """Each chunk is delayed on its own, so chunks keep their distance in time."""
        chunks = asyncio.Queue()

        async def deliver():
            while (item := await chunks.get()) is not None:
                due, chunk = item
                await asyncio.sleep(max(0, due - self.loop.time()))
                await self.flowing.wait()
                writer.write(chunk)
                await writer.drain()

        delivering = asyncio.ensure_future(deliver())
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await self.flowing.wait()
                chunks.put_nowait((self.loop.time() + self.delay_s, chunk))
            chunks.put_nowait(None)
            await delivering
        finally:
            delivering.cancel()
        # When one side closes, close the other side too.
        raise ConnectionResetError


def end(writer, how):
    """Ends a connection: `reset` with RST, which loses data in flight, `close` with FIN."""
    if how == "reset" and (sock := writer.get_extra_info("socket")) is not None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # Already closed.
        writer.transport.abort()
    else:
        writer.close()
