"""``…/{topic}/subscription``: subscriptions of a topic."""

from django.http import HttpRequest, HttpResponse

from engine.admin import api
from engine.base.errors import InvalidField
from gateway.http.bodies import flag, json_answer, json_body, no_content, object_body, string_map
from gateway.rest.base import AdminView
from gateway.rest.messages import message_answer, message_position, required_position
from gateway.rest.topics import TopicView
from gateway.services import topics

COUNT_MAX = (1 << 31) - 1


def counted(value: int, field: str, low: int = 1) -> int:
    """``value`` when a count may be so. Raises InvalidField."""
    if not low <= value <= COUNT_MAX:
        raise InvalidField(field, f"must be from {low} to {COUNT_MAX}")
    return value


class Subscriptions(TopicView):
    """Names."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.subscriptions(engine, name)))


class Subscription(TopicView):
    """Creation at a position, deletion."""

    async def put(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        body = json_body(request)
        position = message_position(body)
        given = body.get("properties") if isinstance(body, dict) else None
        properties = string_map(given, "properties")
        replicated = flag(request, "replicated")
        await self.work(
            lambda engine: topics.create_subscription(
                engine, name, title, position, properties, replicated=replicated
            )
        )
        return no_content()

    async def delete(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        force = flag(request, "force")
        args = api.DeleteSubscription(name, title, force)
        await self.work(
            lambda engine: topics.on_subscription(
                engine, api.DELETE_SUBSCRIPTION, args, "Subscription not found"
            )
        )
        return no_content()


class Properties(TopicView):
    """What users noted about the subscription."""

    async def get(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        return json_answer(
            await self.work(lambda engine: topics.subscription_properties(engine, name, title))
        )

    async def put(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        properties = string_map(object_body(request), "properties")
        await self.work(
            lambda engine: topics.set_subscription_properties(engine, name, title, properties)
        )
        return no_content()


class Skip(TopicView):
    """Acknowledge the next messages."""

    async def post(
        self, request: HttpRequest, subName: str, numMessages: int, **where: str
    ) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        count = counted(numMessages, "numMessages", low=0)
        await self.work(lambda engine: topics.skip(engine, name, title, count))
        return no_content()


class SkipAll(TopicView):
    """Acknowledge everything."""

    async def post(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        args = api.OnSubscription(name, title)
        await self.work(lambda engine: topics.on_subscription(engine, api.CLEAR_BACKLOG, args))
        return no_content()


class ResetToTime(TopicView):
    """Move to the first message published at or after a time."""

    async def post(
        self, request: HttpRequest, subName: str, timestamp: int, **where: str
    ) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        if timestamp < 0:
            raise InvalidField("timestamp", "must not be negative")
        args = api.ResetCursor(name, title, timestamp)
        await self.work(lambda engine: topics.on_subscription(engine, api.RESET_CURSOR, args))
        return no_content()


class ResetToPosition(TopicView):
    """Move to a message."""

    async def post(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        position = required_position(request)
        await self.work(lambda engine: topics.reset_to_position(engine, name, title, position))
        return no_content()


class Expire(TopicView):
    """Acknowledge messages older than an age."""

    async def post(
        self, request: HttpRequest, subName: str, expireTimeInSeconds: int, **where: str
    ) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        seconds = counted(expireTimeInSeconds, "expireTimeInSeconds")
        args = api.ExpireMessages(name, title, seconds)
        await self.work(lambda engine: topics.on_subscription(engine, api.EXPIRE_MESSAGES, args))
        return no_content()


class ExpireToPosition(TopicView):
    """Acknowledge everything up to a message."""

    async def post(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        position = required_position(request)
        await self.work(lambda engine: topics.expire_to_position(engine, name, title, position))
        return no_content()


class ExpireAll(TopicView):
    """Acknowledge messages older than an age, for every subscription."""

    async def post(
        self, request: HttpRequest, expireTimeInSeconds: int, **where: str
    ) -> HttpResponse:
        name = self.name(**where)
        seconds = counted(expireTimeInSeconds, "expireTimeInSeconds")
        await self.work(lambda engine: topics.expire_all(engine, name, seconds))
        return no_content()


class AnalyzeBacklog(TopicView):
    """How much is still to be acknowledged, by looking at it."""

    reading_methods = frozenset({"POST"})

    async def post(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        position = message_position(json_body(request))
        return json_answer(
            await self.work(lambda engine: topics.analyze_backlog(engine, name, title, position))
        )


class Replicated(TopicView):
    """Whether the subscription's state is to be copied to other clusters."""

    async def get(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        return json_answer(await self.work(lambda engine: topics.replicated(engine, name, title)))

    async def post(self, request: HttpRequest, subName: str, **where: str) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        wanted = json_body(request)
        if not isinstance(wanted, bool):
            raise InvalidField("body", "expected true or false")
        await self.work(lambda engine: topics.replicate(engine, name, title, replicated=wanted))
        return no_content()


class Peek(TopicView):
    """The nth unacknowledged message."""

    async def get(
        self, request: HttpRequest, subName: str, messagePosition: int, **where: str
    ) -> HttpResponse:
        name, title = self.name(**where), topics.subscription_name(subName)
        nth = counted(messagePosition, "messagePosition")
        return message_answer(await self.work(lambda engine: topics.peek(engine, name, title, nth)))


_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_ONE = f"{_TOPIC}/subscription/{{subName}}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (f"{_TOPIC}/subscriptions", Subscriptions),
    (_ONE, Subscription),
    (f"{_ONE}/properties", Properties),
    (f"{_ONE}/skip/{{numMessages}}", Skip),
    (f"{_ONE}/skip_all", SkipAll),
    (f"{_ONE}/resetcursor/{{timestamp}}", ResetToTime),
    (f"{_ONE}/resetcursor", ResetToPosition),
    (f"{_ONE}/expireMessages/{{expireTimeInSeconds}}", Expire),
    (f"{_ONE}/expireMessages", ExpireToPosition),
    (f"{_TOPIC}/all_subscription/expireMessages/{{expireTimeInSeconds}}", ExpireAll),
    (f"{_ONE}/analyzeBacklog", AnalyzeBacklog),
    (f"{_ONE}/replicatedSubscriptionStatus", Replicated),
    (f"{_ONE}/position/{{messagePosition}}", Peek),
]
