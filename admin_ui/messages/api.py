"""REST of the messages of a topic."""

from contextlib import closing

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import TOPIC_PATH, Call, ClusterView, Parameter, PreviewedView, query
from admin_ui.messages import publishing, selectors, shapes
from admin_ui.rights import CONSUME, PRODUCE
from gateway.http.auth.access import acting_role
from gateway.http.bodies import json_answer, object_body

OCTETS = "application/octet-stream"
ONE_PATH = (*TOPIC_PATH, Parameter("message", "ledger:entry or ledger:entry:index", place="path"))


class _MessagesView(ClusterView):
    read_rights = CONSUME
    shows_payloads = frozenset({"GET"})


class MessagesView(_MessagesView, PreviewedView):
    """Messages from a place of the topic on, over all its partitions by publish time; and messages that are published,
    or with ``preview`` only checked. The audit log does not keep the body, which holds payloads."""

    write_rights = PRODUCE
    keeps_body = False

    calls = {
        "get": Call(
            "browseMessages",
            shapes.MessagesAnswer,
            (
                *TOPIC_PATH,
                Parameter(
                    "start",
                    "where to begin; latest reads backwards unless the direction is given",
                    enum=selectors.STARTS,
                ),
                Parameter("time", "begin at this publish time, in epoch milliseconds", int),
                Parameter("position", "begin at this message, ledger:entry or ledger:entry:index"),
                Parameter("subscription", "begin where this subscription stands"),
                Parameter("direction", enum=selectors.DIRECTIONS),
                Parameter("after", "go on behind an earlier page: its after"),
                Parameter(
                    "limit", f"1 to {selectors.LIMIT_MAX}", int, default=selectors.LIMIT_DEFAULT
                ),
                Parameter("key", "exact"),
                Parameter("producer", "exact"),
                Parameter("property", "name or name=value; several times for several"),
                Parameter("text", "in the value, whatever its case"),
                Parameter("path", "a path that the value has, such as $.lines[0].price"),
                Parameter("equals", "what is at the path"),
            ),
            errors=(400, 412),
        ),
        "post": Call(
            "publishMessages",
            (shapes.PublishPreview, shapes.PublishReceipt),
            TOPIC_PATH,
            body=shapes.PublishBody,
            errors=(400, 404, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, params = self.name(where), query(request)
        properties = request.GET.getlist("property")
        return json_answer(
            await self.work(lambda engine: selectors.page(engine, name, params, properties))
        )

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, body = self.name(where), object_body(request) or {}
        prepared = await self.work(lambda engine: publishing.prepare(engine, name, body))
        if body.get("preview") is True:
            return json_answer(prepared.answer)
        acting = self.cluster.clients.use(acting_role(self.identity))
        with closing(acting):
            return json_answer(await publishing.publish(acting.publisher, prepared))


class MessageView(_MessagesView):
    """One message with all of its metadata, and up to a megabyte of its value."""

    calls = {"get": Call("getMessage", shapes.MessageAnswer, ONE_PATH, errors=(400, 412))}

    async def get(self, request: HttpRequest, message: str, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(await self.work(lambda engine: selectors.one(engine, name, message)))


class MessageValueView(_MessagesView):
    """The value of one message as a file: as its producer sent it, of encrypted ones and chunks as it is stored."""

    calls = {"get": Call("downloadMessage", parameters=ONE_PATH, errors=(400, 412), file=OCTETS)}

    async def get(self, request: HttpRequest, message: str, **where: str) -> HttpResponse:
        name = self.name(where)
        value = await self.work(lambda engine: selectors.value(engine, name, message))
        answer = HttpResponse(value, content_type=OCTETS)
        file = f"{name.local}-{message.replace(':', '-')}"
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "_" for c in file)
        answer["Content-Disposition"] = f'attachment; filename="{safe}"'
        return answer
