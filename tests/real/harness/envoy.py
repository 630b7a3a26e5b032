"""Envoy with the rate limit filter, in front of an upstream."""

import json

import requests

from .processes import Process
from .waiting import DEADLINE_S, wait_for


def by_header(descriptor_key, header=None):
    """An action that makes an entry from a header, by default the header `x-KEY`."""
    return {"request_headers": {"header_name": header or f"x-{descriptor_key}", "descriptor_key": descriptor_key}}


def descriptor(*keys, **more):
    """A descriptor with an entry for each header `x-KEY`. Envoy sends no descriptor if one header is missing."""
    return {"actions": [by_header(key) for key in keys], **more}


def get(envoy, path="", **headers):
    """A request with the headers `x-NAME: VALUE`."""
    headers = {"x-" + name.replace("_", "-"): str(value) for name, value in headers.items()}
    return requests.get(envoy.url + path, headers=headers, timeout=DEADLINE_S)


def statuses(envoy, times, path="", **headers):
    return [get(envoy, path, **headers).status_code for _ in range(times)]


class Envoy:
    """A running Envoy, with a configuration as text or as data. Clients use `url`."""

    def __init__(self, binary, directory, config):
        # JSON is valid YAML.
        path = directory / "envoy.yaml"
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=1))
        self.access_log = directory / "access.log"
        admin = directory / "admin-address"
        self.process = Process(
            [
                binary,
                "-c",
                path,
                "--concurrency",
                "1",
                "--use-dynamic-base-id",
                "--admin-address-path",
                admin,
                "--log-level",
                "warning",
                "--file-flush-interval-msec",
                "50",
            ],
            directory / "envoy",
        )
        try:
            self.admin = "http://" + wait_for("Envoy's admin address", lambda: self._read(admin))
            wait_for("Envoy is live", lambda: self._ask("/ready", "LIVE"))
            listeners = wait_for("Envoy listens", lambda: self._listeners())
        except BaseException:
            self.process.kill()
            raise
        address = listeners[0]["local_address"]["socket_address"]
        self.url = f"http://127.0.0.1:{address['port_value']}/"

    def _read(self, path):
        self.process.must_run()
        return path.read_text().strip() if path.exists() else None

    def _ask(self, path, expected):
        try:
            return expected in requests.get(self.admin + path, timeout=DEADLINE_S).text
        except requests.ConnectionError:
            self.process.must_run()
            return False

    def _listeners(self):
        return requests.get(self.admin + "/listeners?format=json", timeout=DEADLINE_S).json().get("listener_statuses")

    def counter(self, name):
        """One of Envoy's own counters."""
        text = requests.get(self.admin + "/stats?filter=" + name, timeout=DEADLINE_S).text
        return sum(int(line.rsplit(": ", 1)[1]) for line in text.splitlines())

    def logged(self):
        """The complete lines of the access log so far."""
        if not self.access_log.exists():
            return []
        complete, _, _ = self.access_log.read_text().rpartition("\n")
        return [json.loads(line) for line in complete.splitlines() if line.strip()]

    def stop(self):
        return self.process.stop()


RATELIMIT = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit"
PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute"
MANAGER = (
    "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)
ROUTER = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
FILE_LOG = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"
# Longer than any test waits.
LONG = "3600s"
HTTP_OPTIONS = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def config(directory, grpc_port, upstream_port, rate_limits, *, domain="edge", ratelimit=None, filters=()):
    """Envoy's configuration: `filters` come before the rate limit filter, `ratelimit` is merged into it.

    By default Envoy waits 20 ms for the rate limit service and then lets the request through. A busy machine may need
    longer, so the timeout here is long.

    The rate limits are in the per-route configuration of the filter, because only there Envoy supports `hits_addend`.
    Below `/on-the-route` they are in the route itself, which is the usual place.
    """
    limiter = {
        "@type": RATELIMIT,
        "domain": domain,
        "timeout": LONG,
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "tidegate"}},
        },
        **(ratelimit or {}),
    }
    log = {
        "name": "file",
        "typed_config": {
            "@type": FILE_LOG,
            "path": str(directory / "access.log"),
            "log_format": {
                "json_format": {
                    "status": "%RESPONSE_CODE%",
                    "flags": "%RESPONSE_FLAGS%",
                    "metadata": "%DYNAMIC_METADATA(envoy.filters.http.ratelimit)%",
                }
            },
        },
    }
    manager = {
        "@type": MANAGER,
        "stat_prefix": "edge",
        "access_log": [log],
        "access_log_options": {"flush_access_log_on_new_request": False},
        "http_filters": [
            *filters,
            {"name": "envoy.filters.http.ratelimit", "typed_config": limiter},
            {"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}},
        ],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/on-the-route"},
                            "route": {"cluster": "upstream", "timeout": LONG, "rate_limits": rate_limits},
                        },
                        {
                            "match": {"prefix": "/"},
                            "route": {"cluster": "upstream", "timeout": LONG},
                            "typed_per_filter_config": {
                                "envoy.filters.http.ratelimit": {"@type": PER_ROUTE, "rate_limits": rate_limits}
                            },
                        },
                    ],
                }
            ]
        },
    }
    return {
        "admin": {"address": address(0)},
        "static_resources": {
            "listeners": [
                {
                    "name": "edge",
                    "address": address(0),
                    "filter_chains": [
                        {
                            "filters": [
                                {
                                    "name": "envoy.filters.network.http_connection_manager",
                                    "typed_config": manager,
                                }
                            ]
                        }
                    ],
                }
            ],
            "clusters": [cluster("upstream", upstream_port, {}), cluster("tidegate", grpc_port, http2())],
        },
    }


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def http2():
    return {
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": HTTP_OPTIONS,
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        }
    }


def cluster(name, port, more):
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": LONG,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}],
        },
        **more,
    }
