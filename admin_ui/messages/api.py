"""REST of the messages of a topic."""

from contextlib import closing

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.calls import TOPIC_PATH, Call, ClusterView, Parameter, PreviewedView, query
from admin_ui.messages import exporting, publishing, selectors, shapes
from admin_ui.rights import CONSUME, PRODUCE
from gateway.http.auth.access import acting_role
from gateway.http.bodies import json_answer, object_body
from gateway.services.browsing.latest_values import KEYS_MAX

OCTETS = "application/octet-stream"
ONE_PATH = (*TOPIC_PATH, Parameter("message", "ledger:entry or ledger:entry:index", place="path"))

BEGINNING = (
    Parameter(
        "start",
        "where to begin; latest reads backwards unless the direction is given",
        enum=selectors.STARTS,
    ),
    Parameter("time", "begin at this publish time, in epoch milliseconds", int),
    Parameter("position", "begin at this message, ledger:entry or ledger:entry:index"),
    Parameter("subscription", "begin where this subscription stands"),
    Parameter("direction", enum=selectors.DIRECTIONS),
)
COMPACTED = Parameter(
    "compacted",
    "true: the latest value of each key, from the topic's compaction and what follows it; a page is of the messages"
    " that it looked at, and later ones replace or remove its keys",
    enum=selectors.BOOLEANS,
)
CONDITIONS = (
    Parameter("key", "exact"),
    Parameter("producer", "exact"),
    Parameter("property", "name or name=value; several times for several"),
    Parameter("text", "in the value, whatever its case"),
    Parameter("path", "a path that the value has, such as $.lines[0].price"),
    Parameter("equals", "what is at the path"),
)


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
                *BEGINNING,
                COMPACTED,
                Parameter("after", "go on behind an earlier page: its after"),
                Parameter(
                    "limit",
                    f"1 to {selectors.LIMIT_MAX}; keys of a compacted page: to {KEYS_MAX}",
                    int,
                    default=selectors.LIMIT_DEFAULT,
                ),
                *CONDITIONS,
            ),
            errors=(400, 405, 409, 412),
        ),
        "post": Call(
            "publishMessages",
            (shapes.PublishPreview, shapes.PublishReceipt),
            TOPIC_PATH,
            body=shapes.PublishBody,
            errors=(400, 404, 405, 409, 412),
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


class MessagesExportView(_MessagesView):
    """The messages of a query as a file, complete or none. Headers have how many it has, and why it ends."""

    calls = {
        "get": Call(
            "exportMessages",
            parameters=(
                *TOPIC_PATH,
                Parameter("format", "default jsonl", enum=tuple(exporting.FORMATS)),
                *BEGINNING,
                COMPACTED,
                Parameter(
                    "limit",
                    f"1 to {exporting.MESSAGES_MAX}",
                    int,
                    default=exporting.MESSAGES_DEFAULT,
                ),
                *CONDITIONS,
            ),
            errors=(400, 405, 409, 412, 422),
            file=exporting.FORMATS["jsonl"],
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponseBase:
        name, params = self.name(where), query(request)
        result = await exporting.export(self.work, name, params, request.GET.getlist("property"))
        kind = params.get("format", "jsonl")
        answer = StreamingHttpResponse(
            exporting.pieces(result.file), content_type=exporting.FORMATS[kind]
        )
        answer["Content-Length"] = str(result.size)
        answer["Content-Disposition"] = f'attachment; filename="{_safe(name.local)}.{kind}"'
        answer["X-Export-Messages"] = str(result.messages)
        answer["X-Export-Scanned"] = str(result.scanned)
        answer["X-Export-Stopped"] = result.stopped
        return answer


class MessageView(_MessagesView):
    """One message with all of its metadata, and up to a megabyte of its value; at each of its chunks the whole one."""

    calls = {"get": Call("getMessage", shapes.MessageAnswer, ONE_PATH, errors=(400, 405, 412))}

    async def get(self, request: HttpRequest, message: str, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(await self.work(lambda engine: selectors.one(engine, name, message)))


class MessageValueView(_MessagesView):
    """The value of one message as a file: as its producer sent it; as it is stored of encrypted ones, and of
    chunks whose message cannot be joined."""

    calls = {
        "get": Call("downloadMessage", parameters=ONE_PATH, errors=(400, 405, 412), file=OCTETS)
    }

    async def get(self, request: HttpRequest, message: str, **where: str) -> HttpResponse:
        name = self.name(where)
        value = await self.work(lambda engine: selectors.value(engine, name, message))
        answer = HttpResponse(value, content_type=OCTETS)
        file = _safe(f"{name.local}-{message.replace(':', '-')}")
        answer["Content-Disposition"] = f'attachment; filename="{file}"'
        return answer


def _safe(name: str) -> str:
    """Return a name that a file may have."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "_" for c in name)
