"""``…/{topic}/subscription``: the subscriptions of a topic."""

from django.http import HttpRequest, HttpResponse

from engine.admin.api.arguments import OnSubscription
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    RESET_CURSOR,
    ExpireMessages,
    ResetCursor,
)
from engine.admin.api.subscriptions import DELETE_SUBSCRIPTION, DeleteSubscription
from engine.base.errors import InvalidField
from gateway.http.bodies import flag, json_answer, json_body, no_content, object_body, string_map
from gateway.rest.base import AdminResource
from gateway.rest.messages import message_answer, message_position, required_position
from gateway.rest.rights import CONSUME, CONSUME_SUBSCRIPTION
from gateway.rest.topics import TopicPathResource
from gateway.services.admin import cursors, messages, names, subscriptions

COUNT_MAX = (1 << 31) - 1


def checked_count(value: int, field: str, low: int = 1) -> int:
    """Return ``value``, a count from ``low`` to COUNT_MAX. Raises InvalidField."""
    if not low <= value <= COUNT_MAX:
        raise InvalidField(field, f"must be from {low} to {COUNT_MAX}")
    return value


class SubscriptionsResource(TopicPathResource):
    """The names of a topic's subscriptions."""

    read_rights = CONSUME

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: subscriptions.names(engine, name)))


class SubscriptionResource(TopicPathResource):
    """The creation of a subscription at a position, and its deletion."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"DELETE"})

    async def put(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        body = json_body(request)
        position = message_position(body)
        given = body.get("properties") if isinstance(body, dict) else None
        properties = string_map(given, "properties")
        replicated = flag(request, "replicated")
        await self.work(
            lambda engine: subscriptions.create(
                engine, name, subscription, position, properties, replicated=replicated
            )
        )
        return no_content()

    async def delete(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        force = flag(request, "force")
        args = DeleteSubscription(name, subscription, force)
        await self.work(
            lambda engine: subscriptions.on_any(
                engine, DELETE_SUBSCRIPTION, args, "Subscription not found"
            )
        )
        return no_content()


class SubscriptionPropertiesResource(TopicPathResource):
    """The properties that users set on a subscription."""

    read_rights = write_rights = CONSUME_SUBSCRIPTION

    async def get(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        return json_answer(
            await self.work(lambda engine: subscriptions.properties(engine, name, subscription))
        )

    async def put(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        properties = string_map(object_body(request), "properties")
        await self.work(
            lambda engine: subscriptions.set_properties(engine, name, subscription, properties)
        )
        return no_content()


class SkipResource(TopicPathResource):
    """The acknowledgement of the next messages."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, subName: str, numMessages: int, **path: str
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        count = checked_count(numMessages, "numMessages", low=0)
        await self.work(lambda engine: cursors.skip(engine, name, subscription, count))
        return no_content()


class SkipAllResource(TopicPathResource):
    """The acknowledgement of all messages."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        args = OnSubscription(name, subscription)
        await self.work(lambda engine: subscriptions.on_any(engine, CLEAR_BACKLOG, args))
        return no_content()


class ResetToTimeResource(TopicPathResource):
    """A seek to the first message published at or after a time."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, subName: str, timestamp: int, **path: str
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        if timestamp < 0:
            raise InvalidField("timestamp", "must not be negative")
        args = ResetCursor(name, subscription, timestamp)
        await self.work(lambda engine: subscriptions.on_any(engine, RESET_CURSOR, args))
        return no_content()


class ResetToPositionResource(TopicPathResource):
    """A seek to a message."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        position = required_position(request)
        await self.work(
            lambda engine: cursors.reset_to_position(engine, name, subscription, position)
        )
        return no_content()


class ExpireResource(TopicPathResource):
    """The acknowledgement of messages older than an age."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, subName: str, expireTimeInSeconds: int, **path: str
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        seconds = checked_count(expireTimeInSeconds, "expireTimeInSeconds")
        args = ExpireMessages(name, subscription, seconds)
        await self.work(lambda engine: subscriptions.on_any(engine, EXPIRE_MESSAGES, args))
        return no_content()


class ExpireToPositionResource(TopicPathResource):
    """The acknowledgement of all messages up to one."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})

    async def post(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        position = required_position(request)
        await self.work(
            lambda engine: cursors.expire_to_position(engine, name, subscription, position)
        )
        return no_content()


class ExpireAllResource(TopicPathResource):
    """The acknowledgement of messages older than an age, for every subscription of a topic."""

    write_rights = CONSUME
    for_operators = frozenset({"POST"})

    async def post(
        self, request: HttpRequest, expireTimeInSeconds: int, **path: str
    ) -> HttpResponse:
        name = self.name(**path)
        seconds = checked_count(expireTimeInSeconds, "expireTimeInSeconds")
        await self.work(lambda engine: cursors.expire_all(engine, name, seconds))
        return no_content()


class AnalyzeBacklogResource(TopicPathResource):
    """An analysis of the backlog, which reads its messages."""

    read_rights = CONSUME_SUBSCRIPTION
    reading_methods = frozenset({"POST"})

    async def post(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        position = message_position(json_body(request))
        return json_answer(
            await self.work(
                lambda engine: cursors.analyze_backlog(engine, name, subscription, position)
            )
        )


class ReplicatedResource(TopicPathResource):
    """The switch whether the subscription's state is replicated to other clusters."""

    read_rights = write_rights = CONSUME_SUBSCRIPTION

    async def get(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        return json_answer(
            await self.work(lambda engine: subscriptions.replicated(engine, name, subscription))
        )

    async def post(self, request: HttpRequest, subName: str, **path: str) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        wanted = json_body(request)
        if not isinstance(wanted, bool):
            raise InvalidField("body", "expected true or false")
        await self.work(
            lambda engine: subscriptions.replicate(engine, name, subscription, replicated=wanted)
        )
        return no_content()


class PeekResource(TopicPathResource):
    """The nth unacknowledged message of a subscription."""

    read_rights = CONSUME_SUBSCRIPTION
    shows_payloads = frozenset({"GET"})

    async def get(
        self, request: HttpRequest, subName: str, messagePosition: int, **path: str
    ) -> HttpResponse:
        name, subscription = self.name(**path), names.subscription_name(subName)
        nth = checked_count(messagePosition, "messagePosition")
        return message_answer(
            await self.work(lambda engine: messages.peek(engine, name, subscription, nth))
        )


_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_SUBSCRIPTION = f"{_TOPIC}/subscription/{{subName}}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"{_TOPIC}/subscriptions", SubscriptionsResource),
    (_SUBSCRIPTION, SubscriptionResource),
    (f"{_SUBSCRIPTION}/properties", SubscriptionPropertiesResource),
    (f"{_SUBSCRIPTION}/skip/{{numMessages}}", SkipResource),
    (f"{_SUBSCRIPTION}/skip_all", SkipAllResource),
    (f"{_SUBSCRIPTION}/resetcursor/{{timestamp}}", ResetToTimeResource),
    (f"{_SUBSCRIPTION}/resetcursor", ResetToPositionResource),
    (f"{_SUBSCRIPTION}/expireMessages/{{expireTimeInSeconds}}", ExpireResource),
    (f"{_SUBSCRIPTION}/expireMessages", ExpireToPositionResource),
    (f"{_TOPIC}/all_subscription/expireMessages/{{expireTimeInSeconds}}", ExpireAllResource),
    (f"{_SUBSCRIPTION}/analyzeBacklog", AnalyzeBacklogResource),
    (f"{_SUBSCRIPTION}/replicatedSubscriptionStatus", ReplicatedResource),
    (f"{_SUBSCRIPTION}/position/{{messagePosition}}", PeekResource),
]
