"""REST of changes of a subscription's position."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, Call, ClusterView, Parameter, Shape, checked, http_url
from admin_ui.params import topic_name
from admin_ui.subscriptions import services, shapes
from engine.base.names import check_subscription
from gateway.http.bodies import json_answer


def _changes(operation: str, body: Shape) -> dict[str, Call]:
    parameters = (*TOPIC_PATH, Parameter("subscription", place="path"))
    errors = (400, 404, 405, 412)
    return {
        "post": Call(operation, shapes.CursorChange, parameters, body=body, errors=errors),
    }


class CursorView(ClusterView):
    """Move a subscription's position: first ask what it would do (``preview``), then do it."""

    change: ClassVar[services.Change]
    body_shape: ClassVar[Shape]

    async def post(self, request: HttpRequest, subscription: str, **where: str) -> HttpResponse:
        name = topic_name(**where)
        check_subscription(subscription)
        asked = checked(self.body_shape, request)
        amounts = {"count": asked.get("count"), "timestamp": asked.get("timestamp")}
        if asked["preview"]:
            found = await self.work(
                lambda engine: services.preview(engine, name, subscription, self.change, **amounts),
            )
            return json_answer(found)
        await self.work(
            lambda engine: services.apply(engine, name, subscription, self.change, **amounts),
        )
        said = services.commands(http_url(request), name, subscription, self.change, **amounts)
        return json_answer({"done": True, "commands": said})


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
