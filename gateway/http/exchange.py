"""One HTTP exchange with the ASGI server: a request's body read within bounds, an answer sent with backpressure."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from engine.net.http import DROPPED_BYTES_MAX, LINGER_S
from gateway.http.security import HEADERS

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

BODY_TIMEOUT_S = 10.0
"""Time within which a body must be complete, so that slow clients do not hold memory for longer."""
PIECE_BYTES = 1 << 16
NOT_STORED = (b"Cache-Control", b"no-store")
REVALIDATED = (b"Cache-Control", b"private, no-cache")
"""Storage of an answer that names none itself: only the browser may store an answer with a tag, and it asks each time
whether the caller may still read it."""
READER_TIMEOUT_S = 60.0
"""Time within which a client must have room for the next piece; then the answer is cut off."""


class ClientGoneError(Exception):
    """The client disconnected before its request was complete."""


class SlowBodyError(Exception):
    """The body was not complete within ``limit_s`` seconds."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"The request body did not arrive within {limit_s:g} s")


class EncodedBodyError(Exception):
    """The body is compressed, so its size is unknown before it is decompressed."""


async def read_body(scope: Message, receive: Receive) -> bytes:
    """Return the complete body.

    Raises RequestDataTooBig when it is longer than DATA_UPLOAD_MAX_MEMORY_SIZE, after the rest of it was dropped.
    Raises SlowBodyError, EncodedBodyError and ClientGoneError.
    """
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            # With ``Expect: 100-continue`` the client has not sent the body yet and will not after a refusal.
            if not any(header == b"expect" for header, _ in scope["headers"]):
                await drop_rest(receive)
            raise RequestDataTooBig
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise EncodedBodyError(value.decode("latin-1"))
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                return await _read_rest(body, receive, limit)
        except TimeoutError as error:
            raise SlowBodyError(BODY_TIMEOUT_S) from error
    if len(body) > limit:
        raise RequestDataTooBig
    return body


async def _read_rest(first: bytes, receive: Receive, limit: int) -> bytes:
    body = bytearray(first)
    while len(body) <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if not message.get("more_body", False) and len(body) <= limit:
            return bytes(body)
    await drop_rest(receive)
    raise RequestDataTooBig


async def drop_rest(receive: Receive) -> bool:
    """Receive and drop the rest of a refused body, for at most LINGER_S and DROPPED_BYTES_MAX; return whether that was
    all of it.

    The server closes the connection after the answer, and a client that still sends would see a reset instead of it.
    """
    dropped = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while dropped <= DROPPED_BYTES_MAX:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                if not message.get("more_body", False):
                    return True
                dropped += len(message["body"])
    return False


class WithRepeatedHeaders(HttpResponse):
    """An answer with headers that occur several times, which Django's mapping cannot hold.

    ``repeated_headers`` are sent after the others.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.repeated_headers: list[tuple[str, str]] = []


async def send_answer(
    answer: HttpResponseBase, send: Send, *, head: bool, secure: bool = False
) -> None:
    """Send the answer as ASGI messages; without its body if ``head``. ``secure``: the request came by TLS, so its
    cookies are for TLS alone. Cancel-safe: the answer is then cut off."""
    headers = list(answer.headers.items())
    if isinstance(answer, WithRepeatedHeaders):
        headers += answer.repeated_headers
    fields = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
    fields += HEADERS
    if not answer.has_header("Cache-Control"):
        fields.append(REVALIDATED if answer.has_header("ETag") else NOT_STORED)
    for cookie in answer.cookies.values():
        if secure:
            cookie["secure"] = True
        fields.append((b"Set-Cookie", cookie.output(header="").encode("ascii").strip()))
    content = answer.content if isinstance(answer, HttpResponse) else None
    has_length = answer.status_code in (204, 304) or answer.has_header("Content-Length")
    if content is not None and not has_length:
        fields.append((b"Content-Length", b"%d" % len(content)))
    await send(
        {"type": "http.response.start", "status": answer.status_code, "headers": fields},
    )
    if head or answer.status_code in (204, 304):
        content = b""
    if content is not None and len(content) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": content})
        return
    try:
        if content is not None:
            for start in range(0, len(content), PIECE_BYTES):
                await _send_piece(content[start : start + PIECE_BYTES], send)
        else:
            assert isinstance(answer, StreamingHttpResponse)
            pieces: Any = aiter(answer)
            async with aclosing(pieces):
                async for piece in pieces:
                    await _send_piece(piece, send)
    except TimeoutError:
        return  # The server closes the connection of an incomplete answer, so the client detects it.
    await send({"type": "http.response.body"})


async def _send_piece(piece: bytes, send: Send) -> None:
    """Send a piece of the body; the server waits until the client has room. Raises TimeoutError."""
    async with asyncio.timeout(READER_TIMEOUT_S):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
