"""Clients of the three protocols. Each keeps a connection open and returns the decision as one word."""

import grpc
import redis
import requests
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from redis.backoff import NoBackoff
from redis.retry import Retry

from .waiting import DEADLINE_S

SERVICE = "envoy.service.ratelimit.v3.RateLimitService"


def redis_client(**more):
    """A client that waits for an answer. By default redis-py retries after five seconds, and would be charged twice."""
    settings = {"socket_timeout": DEADLINE_S, "socket_connect_timeout": DEADLINE_S, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis(**{**settings, **more})


class OverHttp:
    protocol = "http"

    def __init__(self, server):
        self.session = requests.Session()
        self.url = server.url + "/v1/check"

    def check(self, domain, attributes, cost=1):
        body = {"domain": domain, "attributes": attributes, "cost": cost}
        response = self.session.post(self.url, json=body, timeout=DEADLINE_S)
        if response.status_code not in (200, 429):
            raise AssertionError(f"{response.status_code}: {response.text}")
        return "denied" if response.status_code == 429 else response.json()["decision"]

    def close(self):
        self.session.close()


class OverResp:
    protocol = "resp"

    def __init__(self, server):
        self.redis = redis_client(port=server.resp_port, decode_responses=True)

    def check(self, domain, attributes, cost=1):
        parts = [part for pair in attributes.items() for part in pair]
        return self.redis.execute_command("TIDEGATE.CHECK", domain, *parts, "COST", cost)[0]

    def close(self):
        self.redis.close()


class Reflected:
    """Messages and methods from the gRPC reflection of the server, or of another one if it has no reflection."""

    def __init__(self, target, described_by=None):
        # Not shared, so that every client has its own connection.
        self.channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        self.database = described_by.database if described_by else ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def method(self, service, name):
        """A function that takes the request as protojson and returns the reply as a message."""
        described = self.pool.FindServiceByName(service).FindMethodByName(name)
        request = message_factory.GetMessageClass(described.input_type)
        reply = message_factory.GetMessageClass(described.output_type)
        call = self.channel.unary_unary(
            f"/{service}/{name}",
            request_serializer=lambda body: json_format.ParseDict(body, request()).SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return lambda body, timeout=DEADLINE_S: call(body, timeout=timeout)

    def close(self):
        self.channel.close()


class OverGrpc:
    """Envoy's rate limit service. Its OK becomes `allowed`, its OVER_LIMIT `denied`."""

    protocol = "grpc"

    def __init__(self, server):
        self.reflected = Reflected(server.grpc)
        self.should_rate_limit = self.reflected.method(SERVICE, "ShouldRateLimit")

    def ask(self, domain, *descriptors, **more):
        """Returns the reply. A descriptor is a dictionary of entries, or the protojson descriptor."""
        return self.should_rate_limit(
            {"domain": domain, "descriptors": [described(each) for each in descriptors], **more}
        )

    def check(self, domain, attributes, cost=1):
        reply = self.ask(domain, {**described(attributes), "hits_addend": cost})
        return {1: "allowed", 2: "denied"}[reply.overall_code]

    def close(self):
        self.reflected.close()


def described(descriptor):
    if "entries" in descriptor and isinstance(descriptor["entries"], list):
        return descriptor
    return {"entries": [{"key": key, "value": value} for key, value in descriptor.items()]}


CLIENTS = (OverHttp, OverResp, OverGrpc)
