"""REST of changes of a subscription's position."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    TOPIC_PATH,
    Body,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    Shape,
    actor_of,
    checked,
)
from admin_ui.params import topic_name
from admin_ui.subscriptions import deletion, disconnection, services, shapes, tokens
from engine.admin.api import CursorChange
from engine.base.names import TopicName, check_subscription
from gateway.http.bodies import json_answer


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
    """Move a subscription's position: first ask what it would do (``preview``), then have exactly that done
    (``token``)."""

    change: ClassVar[CursorChange]
    body_shape: ClassVar[Shape]

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        check_subscription(subscription)
        asked = checked(self.body_shape, request)
        if asked["preview"]:
            return await self._preview(request, name, subscription, asked)
        if asked.get("token"):
            return await self._apply(request, name, subscription, asked["token"])
        return await self._at_once(request, name, subscription, asked)

    async def _preview(
        self, request: HttpRequest, name: TopicName, subscription: str, asked: Body
    ) -> HttpResponse:
        user = actor_of(request)
        found = await self.work(
            lambda engine: services.preview(
                engine,
                name,
                subscription,
                self.change,
                user,
                count=asked.get("count"),
                timestamp=asked.get("timestamp"),
                undo=asked.get("id"),
            )
        )
        return json_answer(found)

    async def _apply(
        self, request: HttpRequest, name: TopicName, subscription: str, token: str
    ) -> HttpResponse:
        confirmed = tokens.read(token, str(name), subscription, self.change, actor_of(request))
        done = await self.work(lambda engine: services.apply(engine, name, confirmed))
        return json_answer(done.body, done.status)

    async def _at_once(
        self, request: HttpRequest, name: TopicName, subscription: str, asked: Body
    ) -> HttpResponse:
        raise AssertionError("the body's shape asks for a token")


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
    """Take the last change back: at once, if the cursor can be what it was; else by preview and token."""

    change = "undo"
    body_shape = shapes.UndoBody
    calls = _changes("undo", shapes.UndoBody)

    async def _at_once(
        self, request: HttpRequest, name: TopicName, subscription: str, asked: Body
    ) -> HttpResponse:
        user = actor_of(request)
        done = await self.work(
            lambda engine: services.undo(engine, name, subscription, user, asked["id"])
        )
        return json_answer(done.body, done.status)


_SUBSCRIPTION_PATH = (*TOPIC_PATH, Parameter("subscription", place="path"))


class DeleteView(PreviewedView):
    """Delete a subscription: first ask what is lost (``preview``), then have that done (``token``)."""

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
        asked = checked(shapes.DeleteSubscriptionBody, request)
        if asked["preview"]:
            force = asked["force"]
            found = await self.work(
                lambda engine: deletion.preview(engine, name, subscription, user, force=force)
            )
            return json_answer(found)
        token = asked["token"]
        done = await self.work(
            lambda engine: deletion.apply(engine, name, subscription, user, token)
        )
        return json_answer(done.body, done.status)


class DisconnectView(PreviewedView):
    """Disconnect one consumer: first ask who that is (``preview``), then have that one disconnected (``token``)."""

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
        asked = checked(shapes.DisconnectBody, request)
        return await self.previewed(
            asked,
            lambda engine: disconnection.preview(
                *(engine, name, subscription, user),
                name=asked["name"],
                address=asked.get("address", ""),
                partition=asked.get("partition"),
            ),
            lambda engine, token: disconnection.apply(engine, name, subscription, user, token),
        )


class ChangesView(ClusterView):
    """The last change of each subscription, to see whether one was made, and to undo it."""

    calls = {
        "get": Call("lastChanges", shapes.LastChanges, TOPIC_PATH, errors=(400, 404, 405, 412))
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = topic_name(**where)
        return json_answer(await self.work(lambda engine: services.changes(engine, name)))
