"""Bodies of uploads, which are received after the caller's rights are known: to a file, within bounds.

The handler reads every other body before a view is called, in memory. An upload is a form with a file at a path that
takes one; its body stays in the connection until the view asks for it.
"""

import asyncio
import re
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from tempfile import TemporaryFile

from django.conf import settings
from django.http import HttpRequest

from engine.base.errors import MagnetarError, NotReady
from gateway.clusters.cluster import Parts
from gateway.clusters.registry import clusters_for
from gateway.http.exchange import (
    ClientGoneError,
    EncodedBodyError,
    Message,
    Receive,
    SlowBodyError,
    drop_rest,
)
from gateway.http.forms.multipart import is_form

TIMEOUT_S = 300.0
"""Time within which an upload must be complete."""
FORM_BYTES_MAX = 2 << 20
"""Bytes of a form beside the file in it."""
LINGERS = "magnetar.lingers"
"""Extension of a server that itself drops what comes of a body behind its answer, before it closes the connection."""
UPLOADS_MAX = 8
"""Uploads that a gateway receives at once."""
_PATH = re.compile(
    rb"(/clusters/[^/]+)?/(admin/v[23]/(functions|sinks?|sources?|packages)|api/v1/functions)/"
)
"""Beginnings of the paths that take uploads."""


class TooLargeUploadError(MagnetarError):
    """An upload with more bytes than the gateway takes."""


class UploadSlots:
    """The uploads in progress, of which a process has few."""

    def __init__(self, owner: Parts) -> None:
        self.taken = 0

    def take(self) -> None:
        """Begin an upload. Raises NotReady."""
        if self.taken >= UPLOADS_MAX:
            raise NotReady(f"{UPLOADS_MAX} uploads are in progress; try again")
        self.taken += 1


def is_upload(scope: Message) -> bool:
    """Return whether the body of a request is received by its view."""
    if scope["method"] not in ("POST", "PUT"):
        return False
    raw = scope.get("raw_path") or scope["path"].encode()
    if _PATH.match(raw) is None:
        return False
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return any(is_form(kind.decode("latin-1")) for kind in kinds)


def bytes_max() -> int:
    """Return the bytes that the body of an upload may have."""
    return int(settings.ENVIRONMENT.package_bytes_max) + FORM_BYTES_MAX


class LateBody:
    """The body of a request that is still to be received. ``receive`` is called once, or ``drop``."""

    def __init__(self, scope: Message, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._is_pending = True

    async def receive(self, request: HttpRequest) -> bytes | mmap:
        """Return the body, in a file that goes with the last reference to it.

        Raises NotReady while too many are received, TooLargeUploadError, SlowBodyError, EncodedBodyError,
        ClientGoneError.
        """
        slots = clusters_for(request).part(UploadSlots)
        slots.take()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._to_file()
        except TimeoutError as error:
            raise SlowBodyError(TIMEOUT_S) from error
        finally:
            slots.taken -= 1

    async def _to_file(self) -> bytes | mmap:
        limit, size = bytes_max(), 0
        refusal = TooLargeUploadError(
            f"The request body is larger than {limit} bytes (package_bytes_max)"
        )
        for name, value in self._scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > limit:
                raise refusal
            if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                raise EncodedBodyError(value.decode("latin-1"))
        with TemporaryFile() as file:
            is_open = True
            while is_open:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                piece = message.get("body", b"")
                size += len(piece)
                if size > limit:
                    raise refusal
                file.write(piece)
                is_open = message.get("more_body", False)
            self._is_pending = False
            file.flush()
            return mmap(file.fileno(), 0, access=ACCESS_READ) if size else b""

    async def drop(self) -> bool:
        """Drop what is left, within bounds, so that the client reads the answer; return False where the connection
        must be closed behind the answer, because more may come."""
        if not self._is_pending or LINGERS in (self._scope.get("extensions") or {}):
            return True
        self._is_pending = False
        if any(name == b"expect" for name, _ in self._scope["headers"]):
            return False
        with suppress(ClientGoneError):
            return await drop_rest(self._receive)
        return False


async def form_body(request: HttpRequest) -> bytes | mmap:
    """Return the body of a form. Raises what ``LateBody.receive`` raises."""
    late = getattr(request, "late", None)
    return await late.receive(request) if late is not None else request.body
