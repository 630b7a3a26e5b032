"""The server behind Envoy: answers every request and records its headers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Upstream:
    """Answers 200. A request header `x-answer-NAME: VALUE` comes back as the response header `NAME: VALUE`."""

    def __init__(self):
        seen = self.seen = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                seen.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                for name, value in self.headers.items():
                    if name.lower().startswith("x-answer-"):
                        self.send_header(name[len("x-answer-") :], value)
                self.send_header("content-length", "3")
                self.end_headers()
                self.wfile.write(b"ok\n")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
