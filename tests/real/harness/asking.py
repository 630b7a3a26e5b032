"""One question, three protocols: each client keeps a connection open and answers with the decision, in one word."""

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
    """A client that waits for an answer. As they come, they ask once more after five seconds, and are charged twice."""
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
    """Messages and methods as the server describes them itself, over gRPC reflection."""

    def __init__(self, target):
        # Without sharing, every client in a test has a connection of its own.
        self.channel = grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)])
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = descriptor_pool.DescriptorPool(self.database)

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(name))

    def method(self, service, name):
        """A function that takes the request as protojson, and hands the reply over as a message."""
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
    """Envoy's rate limit service. It says OK or OVER_LIMIT: what is not denied is called allowed here."""

    protocol = "grpc"

    def __init__(self, server):
        self.reflected = Reflected(server.grpc)
        self.should_rate_limit = self.reflected.method(SERVICE, "ShouldRateLimit")

    def ask(self, domain, *descriptors, **more):
        """Each descriptor a dictionary of entries, or the descriptor itself. The reply."""
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
