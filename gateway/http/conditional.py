"""What a GET's client has already is not sent again (ETag, 304), and what is long is compressed for who asks."""

import asyncio
import zlib
from hashlib import blake2b

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

COMPRESSED_BYTES_MIN = 4_096
"""Shorter answers fit into few packets anyway."""
COMPRESSED_PER_TURN = 1 << 17
HASHED_PER_TURN = 1 << 20
"""Bytes before other requests get their turn: about 2 ms."""
GZIP = 16 + zlib.MAX_WBITS
LEVEL = 1


async def conditional(request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
    """The answer to a GET or HEAD with a strong ETag, or 304 without a body, or compressed; any other as it is."""
    if answer.status_code != 200 or request.method not in ("GET", "HEAD"):
        return answer
    if not isinstance(answer, HttpResponse) or not answer.content:
        return answer
    content = answer.content
    tag = await _tag(content)
    compressible = len(content) >= COMPRESSED_BYTES_MIN
    coding = "-gzip" if compressible and _accepts_gzip(request) else ""
    answer.headers["ETag"] = f'"{tag}{coding}"'
    if compressible:
        answer.headers["Vary"] = "Accept-Encoding"
    known = request.META.get("HTTP_IF_NONE_MATCH")
    if known is not None and _holds(known, tag):
        answer.status_code = 304
        answer.content = b""
        del answer.headers["Content-Type"]
    elif coding:
        answer.headers["Content-Encoding"] = "gzip"
        answer.content = await _compressed(content)
    return answer


def _holds(header: str, tag: str) -> bool:
    """Whether If-None-Match names the content, in whichever coding it was sent; ``W/`` is ignored as it must be."""
    names = {part.strip().removeprefix("W/").strip('"') for part in header.split(",")}
    return bool(names & {"*", tag, f"{tag}-gzip"})


def _accepts_gzip(request: HttpRequest) -> bool:
    for part in request.META.get("HTTP_ACCEPT_ENCODING", "").lower().split(","):
        coding, _, parameter = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return parameter.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _tag(content: bytes) -> str:
    found = blake2b(content[:HASHED_PER_TURN], digest_size=12)
    for start in range(HASHED_PER_TURN, len(content), HASHED_PER_TURN):
        await asyncio.sleep(0)
        found.update(content[start : start + HASHED_PER_TURN])
    return found.hexdigest()


async def _compressed(content: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
    parts = []
    for start in range(0, len(content), COMPRESSED_PER_TURN):
        parts.append(packer.compress(content[start : start + COMPRESSED_PER_TURN]))
        await asyncio.sleep(0)
    parts.append(packer.flush())
    return b"".join(parts)
