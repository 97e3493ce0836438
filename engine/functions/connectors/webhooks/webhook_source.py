"""Requests as messages: an HTTP server, which answers once a message is stored."""

import asyncio
import hmac
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from engine.functions.connectors.connector_settings import fields, number, text, texts, whole
from engine.functions.connectors.spi import ConnectorContext, ConnectorError, Record, Source
from engine.functions.connectors.tls_settings import PemFiles, server_tls_fields
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork

CONNECTIONS_MAX = 1000
BODIES_BYTES_MAX = 256 << 20
"""Bytes of bodies that are received at the same time at most, which bounds the connections."""
WHOLE, LINES = "whole", "lines"
RUN_MAX = 1000
"""Records of one run at most."""
SOURCE_SETTINGS = fields(
    ("port",),
    host=text("Host", "Address on which the server listens", "127.0.0.1"),
    port=whole(
        "Port", "Port of instance 0; each further instance has the next one", None, 1, 65_535
    ),
    path=text("Path", "Path of the requests", "/", pattern="^/"),
    token=text("Token", "Requests must have it as Authorization: Bearer TOKEN", secret=True),
    **server_tls_fields(),
    records=text(
        "Records",
        "whole: a body is a message; lines: each of its lines is",
        WHOLE,
        choices=(WHOLE, LINES),
    ),
    keyHeader=text("Header of the key", "Header that has the message's key"),
    headers=texts("Headers", "Headers that become properties of the message, by lower-case name"),
    maxBytes=whole("Bytes", "Bytes of a body at most", 1 << 20, 1, 5 << 20),
    maxPending=whole(
        "Pending", "Messages that wait to be stored; more are answered 503", 10_000, 1, 10**6
    ),
    maxPendingBytes=whole(
        "Pending bytes",
        "Bytes of messages that wait to be stored; more are answered 503",
        64 << 20,
        1 << 20,
        1 << 30,
    ),
    timeoutSeconds=number(
        "Timeout", "Seconds in which a message must be stored, else 504", 30.0, 0.1, 600
    ),
)


class _Pending:
    """The answer to a request, which waits until all its messages are stored."""

    def __init__(self, records: int) -> None:
        self.left = records
        self.answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def settled(self, record: Record, error: BaseException | None) -> None:
        self.left -= 1
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_result(_refusal(503, "The message could not be stored"))
        elif not self.left:
            self.answer.set_result(Response(204))


class WebhookSource(Source):
    """A source of requests by POST and PUT."""

    answers_senders = True

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``. Raises ConnectorError when the port is in use."""
        self._settings = settings
        self._queue: deque[Record] = deque()
        self._unsettled = self._unsettled_bytes = 0
        self._arrived = asyncio.Event()
        self._pending: dict[_Pending, None] = {}
        self._files = PemFiles(settings)
        self._server = HttpServer(
            LoopNetwork(),
            self._handle,
            connections_max=min(CONNECTIONS_MAX, BODIES_BYTES_MAX // settings["maxBytes"] or 1),
            body_bytes_max=settings["maxBytes"],
        )
        port = settings["port"] + context.instance
        try:
            await self._server.listen(settings["host"], port, tls=self._files.server_context())
        except (OSError, OverflowError) as error:
            raise ConnectorError(f"configs.port: {settings['host']}:{port}: {error}") from error

    async def _handle(self, request: Request) -> Response:
        refusal = self._refused(request)
        if refusal is not None:
            return refusal
        values = [request.body]
        if self._settings["records"] == LINES:
            values = [line for line in request.body.split(b"\n") if line]
        if not values:
            return Response(204)
        size = sum(map(len, values))
        if (
            self._unsettled + len(values) > self._settings["maxPending"]
            or self._unsettled_bytes + size > self._settings["maxPendingBytes"]
        ):
            busy = _refusal(503, "Too many messages wait to be stored")
            return busy._replace(headers=(("Retry-After", "1"),))
        pending = _Pending(len(values))
        self._unsettled += len(values)
        self._unsettled_bytes += size
        self._pending[pending] = None
        self._queue += [self._record(request, value, pending) for value in values]
        self._arrived.set()
        try:
            async with asyncio.timeout(self._settings["timeoutSeconds"]):
                return await pending.answer
        except TimeoutError:
            return _refusal(504, "The message was not stored in time; it may be later")
        finally:
            del self._pending[pending]

    def _refused(self, request: Request) -> Response | None:
        if request.path != self._settings["path"]:
            return _refusal(404, "No such path")
        if request.method not in ("POST", "PUT"):
            return _refusal(405, "POST and PUT are served here")._replace(
                headers=(("Allow", "POST, PUT"),)
            )
        token = self._settings.get("token")
        given = request.headers.get("authorization", "")
        if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return _refusal(401, "The token is missing or wrong")._replace(
                headers=(("WWW-Authenticate", "Bearer"),)
            )
        return None

    def _record(self, request: Request, value: bytes, pending: _Pending) -> Record:
        headers = request.headers
        properties = {
            name: headers[name]
            for name in map(str.lower, self._settings["headers"])
            if name in headers
        }
        properties |= {
            f"query.{name}": values[-1] for name, values in parse_qs(request.query).items()
        }

        def settled(record: Record, error: BaseException | None) -> None:
            self._unsettled -= 1
            self._unsettled_bytes -= len(value)
            pending.settled(record, error)

        key = headers.get(self._settings.get("keyHeader", "").lower()) or None
        return Record(value, key=key, properties=properties, on_settled=settled)

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        return [self._queue.popleft() for _ in range(min(len(self._queue), RUN_MAX))]

    async def close(self) -> None:
        """See ``Source``. Requests whose messages are not stored are answered 503."""
        for pending in self._pending:
            if not pending.answer.done():
                pending.answer.set_result(_refusal(503, "The source stops"))
        await asyncio.sleep(0)  # the answers are written
        await self._server.close()
        self._files.close()


def _refusal(status: int, reason: str) -> Response:
    return json_response(status, {"reason": reason})
