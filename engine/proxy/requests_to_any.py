"""Requests of connections that name no broker: answered by the brokers, for the client's role.

The brokers judge each request by the rights of the proxy and of the client, so nothing is judged here.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from google.protobuf.message import Message

from engine.auth.rights import AUTHENTICATED
from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.net.routing import Route, Routes, refused
from engine.proxy.proxy_counters import Counters
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import CodedError, ProtocolViolation, RefusedError, ServerError
from engine.wire.states import REQUESTS, CommandType

log = logging.getLogger(__name__)

TOO_MANY = "Too many concurrent lookup and partitionsMetadata requests"
ELSEWHERE = "Not served by the proxy itself: connect to the broker that a lookup names"
NOT_LOGGED_IN = "The proxy cannot log in at the brokers"
NO_WATCHERS = "The proxy has no topic list watchers"


class OldBrokerError(CodedError):
    """The brokers do not know a field that the request needs."""

    code = ServerError.NotAllowedError


class LookupClient(Protocol):
    """The client of a lookup connection."""

    def upstream(self) -> PulsarClient:
        """Return the client of the brokers that acts for it."""
        ...

    @property
    def peer_name(self) -> str: ...

    @property
    def forwards(self) -> bool:
        """True where the client's own credentials are sent to brokers."""
        ...


Refuse = Callable[[int, int, str], bytes]
"""Builds the answer to a refused request, of its id, the code and the text."""


class RequestsToAny:
    """The requests of one connection. ``in_flight_max`` limits those of all connections, which ``counters`` count."""

    def __init__(self, client: LookupClient, counters: Counters, in_flight_max: int) -> None:
        self._client = client
        self._counters = counters
        self._in_flight_max = in_flight_max

    async def lookup(self, body: pb.CommandLookupTopic) -> bytes:
        """Return the owner's address and that it is reached through the proxy. The address is the same for clients in
        TLS and in clear, because the scheme of the URL is the proxy's business."""

        async def ask() -> bytes:
            url = await self._client.upstream().owner_url(body.topic)
            return commands.lookup_connect(
                body.request_id, url, url, proxy_through_service_url=True
            )

        return await self._count("lookup", body, ask, commands.lookup_failed)

    async def partitioned_metadata(self, body: pb.CommandPartitionedTopicMetadata) -> bytes:
        def check(link: BrokerLink) -> None:
            features = link.features
            if (
                not body.metadata_auto_creation_enabled
                and not features.supports_get_partitioned_metadata_without_auto_creation
            ):
                raise OldBrokerError("The brokers would create the topic")

        return await self._pass_on(
            "partitions_metadata",
            CommandType.PARTITIONED_METADATA,
            body,
            commands.partitioned_metadata_failed,
            check,
        )

    async def topics_of_namespace(self, body: pb.CommandGetTopicsOfNamespace) -> bytes:
        kind = CommandType.GET_TOPICS_OF_NAMESPACE
        return await self._pass_on("get_topics_of_namespace", kind, body, commands.error)

    async def schema(self, body: pb.CommandGetSchema) -> bytes:
        kind = CommandType.GET_SCHEMA
        return await self._pass_on("get_schema", kind, body, commands.schema_failed)

    async def _pass_on(
        self,
        counted: str,
        kind: CommandType,
        body: Any,
        refuse: Refuse,
        check: Callable[[BrokerLink], None] = lambda link: None,
    ) -> bytes:
        """Return any broker's answer to the client's command as it is, but for the id of the request."""

        def frame(link: BrokerLink, request_id: int) -> bytes:
            check(link)
            copy = type(body).FromString(body.SerializeToString())
            copy.request_id = request_id
            return commands.with_body(kind, copy)

        async def ask() -> bytes:
            answer: Message = await self._client.upstream().answer_of_any(frame)
            answer.request_id = body.request_id  # type: ignore[attr-defined]
            # The number of an answer is that of its request plus one.
            return commands.with_body(kind + 1, answer)

        return await self._count(counted, body, ask, refuse)

    async def _count(
        self, kind: str, body: Any, ask: Callable[[], Awaitable[bytes]], refuse: Refuse
    ) -> bytes:
        counters = self._counters
        counters.requests[kind] += 1
        if counters.in_flight >= self._in_flight_max:
            counters.rejected[kind] += 1
            return refuse(body.request_id, ServerError.ServiceNotReady, TOO_MANY)
        counters.in_flight += 1
        try:
            return await ask()
        except (RefusedError, OldBrokerError) as error:
            if error.code == ServerError.AuthenticationError and not self._client.forwards:
                log.error("the brokers refuse the proxy's own credentials: %s", error)
                return refuse(body.request_id, ServerError.ServiceNotReady, NOT_LOGGED_IN)
            return refuse(body.request_id, error.code, str(error))
        except (MagnetarError, OSError) as error:  # OSError: of a token's file
            log.info("%s not answered client=%s: %s", kind, self._client.peer_name, error)
            return refuse(body.request_id, ServerError.ServiceNotReady, str(error))
        finally:
            counters.in_flight -= 1


def _violation(family: object, body: Any) -> bytes:
    raise ProtocolViolation(f"{type(body).__name__} on a connection that names no broker")


def _others() -> Routes:
    """Return the routes of the commands for brokers: those with an answer are refused, others end the connection."""
    routes: dict[int, Route] = {}
    for kind in REQUESTS:
        body: Any = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type
        has_answer = "request_id" in body.fields_by_name and kind not in UNANSWERED
        text = NO_WATCHERS if kind in WATCHES else ELSEWHERE
        routes[kind] = refused(text) if has_answer else Route(_violation, AUTHENTICATED)
    return routes


UNANSWERED = (CommandType.ACK,)
"""Commands whose id of a request is optional."""
WATCHES = (CommandType.WATCH_TOPIC_LIST, CommandType.WATCH_TOPIC_LIST_CLOSE)
ROUTES: Routes = {
    **_others(),
    CommandType.LOOKUP: Route(RequestsToAny.lookup, AUTHENTICATED),
    CommandType.PARTITIONED_METADATA: Route(RequestsToAny.partitioned_metadata, AUTHENTICATED),
    CommandType.GET_TOPICS_OF_NAMESPACE: Route(RequestsToAny.topics_of_namespace, AUTHENTICATED),
    CommandType.GET_SCHEMA: Route(RequestsToAny.schema, AUTHENTICATED),
}
