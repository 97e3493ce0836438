"""Calls of the REST interface, of Magnetar's gateway or of an Apache Pulsar broker."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from engine.base.names import TopicName
from engine.net.http_client import HttpClient, HttpError, NotReachedError
from engine.net.network import LoopNetwork, Network
from magnetar.command.connecting.client import tls, token
from magnetar.command.connecting.failures import SIGN_IN, unreachable
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 256 << 20
REDIRECTS_MAX = 5
REASON_MAX = 500
_CODES = {401: Exit.REFUSED, 403: Exit.REFUSED, 404: Exit.MISSING, 503: Exit.UNREACHABLE}
_REASONS = {401: "not signed in", 403: "not allowed", 404: "not found"}
_HINTS = {401: SIGN_IN, 403: "Ask an administrator for the right", 503: "See `magnetar doctor`"}


class Admin:
    """The REST interface of one cluster; made by ``administered``."""

    def __init__(self, connection: ClusterAddress, network: Network, timeout_s: float) -> None:
        secure = connection.admin_url.startswith("https")
        self.url = connection.admin_url
        self._connection = connection
        self._http = HttpClient(
            network, timeout_s=timeout_s, tls=tls(connection) if secure else None
        )
        self._headers: list[tuple[str, str]] = []
        if text := token(connection):
            self._headers.append(("Authorization", f"Bearer {text}"))

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer's JSON, or its text; None for an empty one.

        Raises CommandFailed for a status of errors, and without a usable answer.
        """
        status, data = await self.answer(method, path, body)
        if status >= 300:
            raise refusal(status, data)
        if not data:
            return None
        try:
            return json.loads(data)
        except ValueError:
            return data.decode(errors="replace")

    async def answer(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return status and body, after redirects. Raises CommandFailed without a usable answer."""
        data = b"" if body is None else json.dumps(body).encode()
        return await self.answer_bytes(method, path, data, "application/json")

    async def answer_bytes(
        self, method: str, path: str, data: bytes, content_type: str
    ) -> tuple[int, bytes]:
        """Return status and body, as ``answer`` does, for a request with these bytes."""
        try:
            return await self._answer(method, path, data, content_type)
        except NotReachedError as error:
            raise unreachable(error, self._connection, self.url) from error
        except HttpError as error:
            text = " ".join(str(error).split())
            raise CommandFailed(text, Exit.UNREACHABLE, "See `magnetar doctor`") from error

    async def _answer(
        self, method: str, path: str, data: bytes, content_type: str
    ) -> tuple[int, bytes]:
        url = f"{self.url}{path}"
        headers = (
            [("Content-Type", content_type), *self._headers] if content_type else self._headers
        )
        for _ in range(REDIRECTS_MAX + 1):
            stream = await self._http.open(method, url, headers=headers, body=data)
            try:
                if stream.status not in (301, 302, 307, 308) or not stream.location:
                    return stream.status, await _body(stream)
                target = urljoin(url, stream.location)
            finally:
                stream.close()
            # A token must not leave TLS because of an answer.
            if urlsplit(target).scheme != urlsplit(url).scheme:
                raise CommandFailed(f"{self.url} redirects to {target[:200]}, another scheme")
            url = target
        raise CommandFailed(f"{self.url} redirects too often")

    def close(self) -> None:
        self._http.close()


@asynccontextmanager
async def administered(
    connection: ClusterAddress, network: Network | None = None, timeout_s: float = TIMEOUT_S
) -> AsyncIterator[Admin]:
    """Yield the REST interface, whose connections are closed at the end."""
    admin = Admin(connection, network or LoopNetwork(), timeout_s)
    try:
        yield admin
    finally:
        admin.close()


async def _body(stream: Any) -> bytes:
    pieces, size = [], 0
    while piece := await stream.read():
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise CommandFailed(f"an answer is larger than {ANSWER_BYTES_MAX >> 20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


def refusal(status: int, data: bytes) -> CommandFailed:
    """Return the error of an answer with a status of errors."""
    reason = reason_of(data) or _REASONS.get(status, f"status {status}")
    return CommandFailed(reason, _CODES.get(status, Exit.FAILED), _HINTS.get(status, ""))


def reason_of(data: bytes) -> str:
    """Return the reason in the body of an error, in one line."""
    text = data.decode(errors="replace")
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        text = str(document.get("reason") or document.get("detail") or "")
    elif "<html" in text.lower():
        text = ""
    text = " ".join(text.split())[:REASON_MAX]
    return "".join(c if c.isprintable() else "?" for c in text)


def topic_path(topic: str) -> str:
    """Return the path of a topic, given by its full name."""
    name = TopicName.parse(topic)
    return f"/admin/v2/{name.domain}/{name.namespace}/{quote(name.local, safe='')}"
