"""Conditional and compressed answers to GET: 304 for a known ETag, gzip for long answers when the client accepts it."""

import asyncio
import zlib
from hashlib import blake2b

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

COMPRESSED_BYTES_MIN = 4_096
"""Size in bytes from which an answer is compressed; shorter ones fit into few packets anyway."""
COMPRESSED_PER_TURN = 1 << 17
HASHED_PER_TURN = 1 << 20
"""Bytes hashed or compressed before other requests run: about 2 ms."""
GZIP = 16 + zlib.MAX_WBITS
LEVEL = 1


async def conditional(request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
    """Return the answer to a GET or HEAD with a strong ETag: as 304 without a body, compressed, or complete.

    Answers to other methods, and those without a body or with another status than 200, are returned unchanged.
    """
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
    """Return whether If-None-Match names the content in any of its codings; ``W/`` is ignored (RFC 9110, 13.1.2)."""
    names = {part.strip().removeprefix("W/").strip('"') for part in header.split(",")}
    return bool(names & {"*", tag, f"{tag}-gzip"})


def _accepts_gzip(request: HttpRequest) -> bool:
    for part in request.META.get("HTTP_ACCEPT_ENCODING", "").lower().split(","):
        coding, _, parameter = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return parameter.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _tag(content: bytes) -> str:
    digest = blake2b(content[:HASHED_PER_TURN], digest_size=12)
    for start in range(HASHED_PER_TURN, len(content), HASHED_PER_TURN):
        await asyncio.sleep(0)
        digest.update(content[start : start + HASHED_PER_TURN])
    return digest.hexdigest()


async def _compressed(content: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
    parts = []
    for start in range(0, len(content), COMPRESSED_PER_TURN):
        parts.append(packer.compress(content[start : start + COMPRESSED_PER_TURN]))
        await asyncio.sleep(0)
    parts.append(packer.flush())
    return b"".join(parts)
