"""Refusal of a WebSocket handshake: an HTTP status and the HTML page of Pulsar's web container with the reason."""

from collections.abc import Awaitable, Callable
from html import escape
from http import HTTPStatus
from typing import Any

TEXT_MAX = 1000
CONTENT_TYPE = "text/html;charset=utf-8"

Send = Callable[[dict[str, Any]], Awaitable[None]]


def phrase_of(status: int) -> str:
    """Return the reason phrase of a status, for the answer's first line."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"


def page(status: int, reason: str) -> bytes:
    """Return the page with ``reason`` in one line of at most 1,000 characters, or with the status's phrase."""
    text = escape(" ".join(reason.split())[:TEXT_MAX] or phrase_of(status))
    head = f"<html><head><title>Error {status} {text}</title></head>"
    return f"{head}<body><h2>HTTP ERROR {status} {text}</h2></body></html>\n".encode()


async def refuse(send: Send, status: int, reason: str = "") -> None:
    """Refuse a handshake whose ``websocket.connect`` was received and that is not accepted yet."""
    body = page(status, reason)
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
