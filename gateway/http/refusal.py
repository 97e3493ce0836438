"""How a WebSocket handshake is refused: an HTTP status, and the HTML page of Pulsar's web container with the reason."""

from collections.abc import Awaitable, Callable
from html import escape
from http import HTTPStatus
from typing import Any

TEXT_MAX = 1000
CONTENT_TYPE = "text/html;charset=utf-8"

Send = Callable[[dict[str, Any]], Awaitable[None]]


def phrase_of(status: int) -> str:
    """What stands behind the status in the answer's first line."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def page(status: int, reason: str) -> bytes:
    """The page, whose title holds ``reason`` in one line of at most 1,000 characters; without one the phrase."""
    text = escape(" ".join(reason.split())[:TEXT_MAX] or phrase_of(status))
    head = f"<html><head><title>Error {status} {text}</title></head>"
    return f"{head}<body><h2>HTTP ERROR {status} {text}</h2></body></html>\n".encode()


async def refuse(send: Send, status: int, reason: str = "") -> None:
    """Turn a handshake down; its ``websocket.connect`` was received, nothing was accepted yet."""
    body = page(status, reason)
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
