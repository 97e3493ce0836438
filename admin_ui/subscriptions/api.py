"""REST of subscriptions: the list of all, and changes of one."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    TOPIC_PATH,
    WINDOW,
    Body,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    Shape,
    SnapshotView,
    actor_of,
    checked,
    query,
)
from admin_ui.params import CAUSES, number, topic_name
from admin_ui.rights import CONSUME, CONSUME_SUBSCRIPTION
from admin_ui.subscriptions import (
    acknowledgement,
    age_target,
    all_subscriptions,
    deletion,
    disconnection,
    holders,
    services,
    shapes,
    tokens,
)
from engine.admin.api.cursors import CursorChange
from engine.admin.api.subscriptions import HOLDER_ROWS_MAX, KEY_CHARS_MAX
from engine.auth.rights import AUTHENTICATED
from engine.base.errors import InvalidField
from engine.base.names import DOMAINS, TopicName, check_subscription
from gateway.http.bodies import json_answer

FILTERS = (
    Parameter("q", "words that the topic's and the subscription's names have, in any case"),
    Parameter("tenant", "exact"),
    Parameter("namespace", "name, or tenant/name"),
    Parameter("domain", "persistent or non-persistent", enum=DOMAINS),
    Parameter("attention", "only those with this problem", enum=CAUSES),
    Parameter("older_s", "least age of the oldest unacknowledged message in seconds", kind=int),
    Parameter("late", "true: only those whose oldest message is older than their target"),
    Parameter("sort", "a field of the rows, '-' in front for descending; default -oldest_age"),
)


class SubscriptionsView(SnapshotView):
    """A window of the filtered and sorted list of all subscriptions."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listSubscriptions",
            shapes.SubscriptionsAnswer,
            parameters=(*FILTERS, *WINDOW),
            errors=(400,),
        )
    }
    selector = all_subscriptions.subscriptions


def _changes(operation: str, body: Shape) -> dict[str, Call]:
    parameters = (*TOPIC_PATH, Parameter("subscription", place="path"))
    return {
        "post": Call(
            operation,
            (shapes.CursorPreview, shapes.CursorReceipt),
            parameters,
            body=body,
            errors=(400, 404, 405, 412),
            refusals=shapes.NotChanged,
        ),
    }


class CursorView(PreviewedView):
    """Move a subscription's position. A request is first a ``preview`` of the change, then makes exactly that change by
    its ``token``."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})
    change: ClassVar[CursorChange]
    body_shape: ClassVar[Shape]

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        check_subscription(subscription)
        body = checked(self.body_shape, request)
        if body["preview"]:
            return await self._preview(request, name, subscription, body)
        if body.get("token"):
            return await self._apply(request, name, subscription, body["token"])
        return await self._at_once(request, name, subscription, body)

    async def _preview(
        self, request: HttpRequest, name: TopicName, subscription: str, body: Body
    ) -> HttpResponse:
        user = actor_of(request)
        preview = await self.work(
            lambda engine: services.preview(
                engine,
                name,
                subscription,
                self.change,
                user,
                count=body.get("count"),
                timestamp=body.get("timestamp"),
                undo=body.get("id"),
            )
        )
        return json_answer(preview)

    async def _apply(
        self, request: HttpRequest, name: TopicName, subscription: str, token: str
    ) -> HttpResponse:
        confirmed = tokens.read(
            self.cluster.name, token, str(name), subscription, self.change, actor_of(request)
        )
        result = await self.work(lambda engine: services.apply(engine, name, confirmed))
        return json_answer(result.body, result.status)

    async def _at_once(
        self, request: HttpRequest, name: TopicName, subscription: str, body: Body
    ) -> HttpResponse:
        raise AssertionError("the body's shape requires a token")


class SkipAllView(CursorView):
    change = "skip-all"
    body_shape = shapes.SkipAllBody
    calls = _changes("skipAll", shapes.SkipAllBody)


class SkipView(CursorView):
    change = "skip"
    body_shape = shapes.SkipBody
    calls = _changes("skip", shapes.SkipBody)


class ResetView(CursorView):
    change = "reset"
    body_shape = shapes.ResetBody
    calls = _changes("reset", shapes.ResetBody)


class UndoView(CursorView):
    """Undo the last change: at once if the cursor can be restored completely, else by preview and token."""

    change = "undo"
    body_shape = shapes.UndoBody
    calls = _changes("undo", shapes.UndoBody)

    async def _at_once(
        self, request: HttpRequest, name: TopicName, subscription: str, body: Body
    ) -> HttpResponse:
        user = actor_of(request)
        result = await self.work(
            lambda engine: services.undo(engine, name, subscription, user, body["id"])
        )
        return json_answer(result.body, result.status)


_SUBSCRIPTION_PATH = (*TOPIC_PATH, Parameter("subscription", place="path"))


class DeleteView(PreviewedView):
    """Delete a subscription. A request is first a ``preview`` of what is lost, then deletes it by the ``token``."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})
    calls = {
        "post": Call(
            "deleteSubscription",
            (shapes.SubscriptionPreview, shapes.SubscriptionReceipt),
            _SUBSCRIPTION_PATH,
            body=shapes.DeleteSubscriptionBody,
            errors=(400, 404, 412),
            refusals=shapes.NotDeleted,
        )
    }

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name, user = topic_name(**where), actor_of(request)
        check_subscription(subscription)
        body = checked(shapes.DeleteSubscriptionBody, request)
        if body["preview"]:
            force = body["force"]
            preview = await self.work(
                lambda engine: deletion.preview(engine, name, subscription, user, force=force)
            )
            return json_answer(preview)
        token = body["token"]
        result = await self.work(
            lambda engine: deletion.apply(engine, name, subscription, user, token)
        )
        return json_answer(result.body, result.status)


class AgeTargetView(ClusterView):
    """The age that a subscription's oldest unacknowledged message is not to exceed."""

    read_rights = write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"PUT"})
    calls = {
        "get": Call(
            "getAgeTarget", shapes.AgeTarget, _SUBSCRIPTION_PATH, errors=(400, 403, 404, 412)
        ),
        "put": Call(
            "setAgeTarget",
            shapes.AgeTarget,
            _SUBSCRIPTION_PATH,
            body=shapes.AgeTargetBody,
            errors=(400, 404, 412),
        ),
    }

    async def get(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        check_subscription(subscription)
        return json_answer(
            await self.work(lambda engine: age_target.target(engine, name, subscription))
        )

    async def put(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        check_subscription(subscription)
        seconds = checked(shapes.AgeTargetBody, request)["seconds"]
        return json_answer(
            await self.work(
                lambda engine: age_target.set_target(engine, name, subscription, seconds)
            )
        )


class DisconnectView(PreviewedView):
    """Disconnect one consumer. A request is first a ``preview`` of the consumer, then disconnects exactly that one by
    the ``token``."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})
    calls = {
        "post": Call(
            "disconnectConsumer",
            (shapes.DisconnectPreview, shapes.DisconnectReceipt),
            _SUBSCRIPTION_PATH,
            body=shapes.DisconnectBody,
            errors=(400, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name, user = topic_name(**where), actor_of(request)
        check_subscription(subscription)
        body = checked(shapes.DisconnectBody, request)
        return await self.previewed(
            body,
            lambda engine: disconnection.preview(
                engine,
                name,
                subscription,
                user,
                name=body["name"],
                address=body.get("address", ""),
                partition=body.get("partition"),
            ),
            lambda engine, token: disconnection.apply(engine, name, subscription, user, token),
        )


class HoldersView(ClusterView):
    """Holders of a subscription's messages, of a key, and delayed messages."""

    read_rights = CONSUME_SUBSCRIPTION
    calls = {
        "get": Call(
            "listHolders",
            shapes.HoldersAnswer,
            (
                *_SUBSCRIPTION_PATH,
                Parameter(
                    "rows", f"1 to {HOLDER_ROWS_MAX}", kind=int, default=holders.ROWS_DEFAULT
                ),
                Parameter("key", "a key whose consumer is wanted, of Key_Shared"),
                Parameter("key_base64", "true: the key is in base64", enum=("true", "false")),
            ),
            errors=(400, 403, 404, 405, 412),
        )
    }

    async def get(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name, params = topic_name(**where), query(request)
        check_subscription(subscription)
        rows = number(params, "rows", holders.ROWS_DEFAULT, 1, HOLDER_ROWS_MAX)
        key = params.get("key") or None
        if key is not None and len(key) > KEY_CHARS_MAX:
            raise InvalidField("key", f"at most {KEY_CHARS_MAX} characters")
        key_base64 = params.get("key_base64") == "true"
        return json_answer(
            await self.work(
                lambda engine: holders.of_subscription(
                    engine, name, subscription, rows=rows, key=key, key_base64=key_base64
                )
            )
        )


class MessageHoldersView(ClusterView):
    """Holders of one message, at every subscription of its topic."""

    read_rights = CONSUME
    calls = {
        "get": Call(
            "listMessageHolders",
            shapes.MessageHoldersAnswer,
            (*TOPIC_PATH, Parameter("message", "ledger:entry or ledger:entry:index", place="path")),
            errors=(400, 404, 405, 412),
        )
    }

    async def get(self, request: HttpRequest, message: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(
            await self.work(lambda engine: holders.of_message(engine, name, message))
        )


class AcknowledgeView(PreviewedView):
    """Acknowledge one message for a subscription, so that it is not delivered. A request is first a ``preview`` of it,
    then acknowledges exactly that message by the ``token``."""

    write_rights = CONSUME_SUBSCRIPTION
    for_operators = frozenset({"POST"})
    calls = {
        "post": Call(
            "acknowledgeMessage",
            (shapes.AcknowledgeMessagePreview, shapes.AcknowledgeMessageReceipt),
            _SUBSCRIPTION_PATH,
            body=shapes.AcknowledgeMessageBody,
            errors=(400, 404, 405, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name, user = topic_name(**where), actor_of(request)
        check_subscription(subscription)
        body = checked(shapes.AcknowledgeMessageBody, request)
        return await self.previewed(
            body,
            lambda engine: acknowledgement.preview(
                engine,
                name,
                subscription,
                user,
                message=body["message"],
                partition=body.get("partition"),
            ),
            lambda engine, token: acknowledgement.apply(engine, name, subscription, user, token),
        )


class ChangesView(ClusterView):
    """The last change of each subscription, to check whether one was made, and to undo it."""

    read_rights = CONSUME
    calls = {
        "get": Call("lastChanges", shapes.LastChanges, TOPIC_PATH, errors=(400, 404, 405, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(await self.work(lambda engine: services.changes(engine, name)))
