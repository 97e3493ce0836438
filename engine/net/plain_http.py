"""The plain case of HTTP/1.1, read without h11: a whole message in one piece, its length told, its head regular. Pure.

Whatever is anything else (a part of a message, chunks, more than one message, odd spaces, ``Connection``, ``Expect``,
a foreign version) is None here and h11's to judge, so that nothing is accepted which h11 refuses.
"""

import re
from typing import NamedTuple

HEAD_BYTES_MAX = 16 << 10
_FIELDS = rb"((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?(?:[!-~](?:[ \t!-~]*[!-~])?)?\r\n)+)\r\n"
_REQUEST = re.compile(rb"(GET|POST) (/[!-~]*) HTTP/1\.1\r\n" + _FIELDS)
_RESPONSE = re.compile(rb"HTTP/1\.1 ([2-5][0-9][0-9]) [ -~]*\r\n" + _FIELDS)
_NOT_PLAIN = frozenset(
    {"transfer-encoding", "connection", "expect", "upgrade", "keep-alive", "trailer", "te"}
)


class PlainRequest(NamedTuple):
    """Header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class PlainResponse(NamedTuple):
    """``body`` is complete."""

    status: int
    body: bytes


def take_request(data: bytes) -> PlainRequest | None:
    """The request that ``data`` is, nothing more and nothing less."""
    head = _REQUEST.match(data, 0, HEAD_BYTES_MAX)
    if head is None:
        return None
    headers = _headers(head[3])
    if headers is None or "host" not in headers:
        return None
    if len(data) - head.end() != _length(headers, "0"):
        return None
    return PlainRequest(head[1].decode(), head[2].decode(), headers, data[head.end() :])


def take_response(data: bytes) -> PlainResponse | None:
    """The response that ``data`` is, nothing more and nothing less. Not to HEAD."""
    head = _RESPONSE.match(data, 0, HEAD_BYTES_MAX)
    if head is None or head[1] in (b"204", b"304"):
        return None
    headers = _headers(head[2])
    if headers is None or len(data) - head.end() != _length(headers, ""):
        return None
    return PlainResponse(int(head[1]), data[head.end() :])


def _headers(lines: bytes) -> dict[str, str] | None:
    """By name in lower case; None when one comes twice or changes how the message is to be read."""
    found: dict[str, str] = {}
    for line in lines.decode("ascii").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in found or name in _NOT_PLAIN:
            return None
        found[name] = value.strip(" ")
    return found


def _length(headers: dict[str, str], default: str) -> int:
    """Bytes of the body, -1 when they are not told as a plain number."""
    told = headers.get("content-length", default)
    return int(told) if told.isdecimal() and told.isascii() and len(told) < 12 else -1
