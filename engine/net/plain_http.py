"""Parsing of plain HTTP/1.1 messages without h11: one complete message with a length and a regular head. Pure.

For anything else (a part of a message, chunks, more than one message, unusual spaces, ``Connection``, ``Expect``,
another version) the functions return None and h11 parses it, so that nothing is accepted that h11 refuses.
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
    """A complete request; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class PlainResponse(NamedTuple):
    """A response with its complete body."""

    status: int
    body: bytes


def parse_request(data: bytes) -> PlainRequest | None:
    """Parse ``data`` as exactly one request; None when it is not a plain one."""
    head = _REQUEST.match(data, 0, HEAD_BYTES_MAX)
    if head is None:
        return None
    headers = _headers(head[3])
    if headers is None or "host" not in headers:
        return None
    if len(data) - head.end() != _length(headers, "0"):
        return None
    return PlainRequest(head[1].decode(), head[2].decode(), headers, data[head.end() :])


def parse_response(data: bytes) -> PlainResponse | None:
    """Parse ``data`` as exactly one response, not to HEAD; None when it is not a plain one."""
    head = _RESPONSE.match(data, 0, HEAD_BYTES_MAX)
    if head is None or head[1] in (b"204", b"304"):
        return None
    headers = _headers(head[2])
    if headers is None or len(data) - head.end() != _length(headers, ""):
        return None
    return PlainResponse(int(head[1]), data[head.end() :])


def _headers(lines: bytes) -> dict[str, str] | None:
    """Return the header values by name in lower case; None when a name occurs twice or changes how to parse the
    message."""
    headers: dict[str, str] = {}
    for line in lines.decode("ascii").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name = name.lower()
        if name in headers or name in _NOT_PLAIN:
            return None
        headers[name] = value.strip(" ")
    return headers


def _length(headers: dict[str, str], default: str) -> int:
    """Return the bytes of the body; -1 when the header is not a plain number."""
    length = headers.get("content-length", default)
    return int(length) if length.isdecimal() and length.isascii() and len(length) < 12 else -1
