"""Questions of the worker to an instance, as lines of JSON on a socket that only the two have. The instance asks for
the brokers.

The end of the socket is the end of the worker: the instance then kills itself with all processes that it started, so
that nothing runs unwatched.
"""

import asyncio
import base64
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from engine.base.errors import MagnetarError

log = logging.getLogger(__name__)

LINE_BYTES_MAX = 16 * 1024 * 1024
BROKERS_S = 2.0
"""Seconds in which the worker must name the brokers; without an answer the instance uses those that it knows."""
Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]


def packed(value: bytes | None) -> str | None:
    """Return bytes as JSON can hold them."""
    return None if value is None else base64.b64encode(value).decode()


def unpacked(text: str | None) -> bytes | None:
    """Return the bytes of ``packed``."""
    return None if text is None else base64.b64decode(text)


class ControlEnd:
    """The instance's end. ``answers``: by operation; ``on_lease`` is called with the end of a renewed lease."""

    def __init__(self, answers: Mapping[str, Answer], on_lease: Callable[[float], None]) -> None:
        self._answers = answers
        self._on_lease = on_lease
        self._writer: asyncio.StreamWriter | None = None
        self._brokers: asyncio.Future[str] | None = None
        """The answer of the worker, while that is awaited."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the worker is gone, then end this process and its children by force."""
        self._writer = writer
        loop = asyncio.get_running_loop()
        try:
            while line := await reader.readline():
                request = json.loads(line)
                if "lease" in request:
                    self._on_lease(request["lease"])
                    continue
                if "brokers" in request:
                    self._learn_brokers(request["brokers"])
                    continue
                # A slow answer holds up no other: status is asked for while a trigger runs.
                task = loop.create_task(self._answer(request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (ConnectionError, ValueError) as error:
            log.error("the worker's end of the control socket is broken: %s", error)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    async def _answer(self, request: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = await self._answers[request["ask"]](request)
        except MagnetarError as error:
            answer["error"] = str(error)
        except Exception as error:
            log.exception("%s cannot be answered", request["ask"])
            answer["error"] = repr(error)
        self.send(answer)

    async def brokers(self) -> str:
        """Return the service URL of the brokers that there are now; empty when the worker does not know it, or does not
        answer in time. Cancel-safe."""
        answer = self._brokers
        if answer is None:
            answer = self._brokers = asyncio.get_running_loop().create_future()
            self.send({"brokers": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(BROKERS_S):
                return await asyncio.shield(answer)
        return ""

    def _learn_brokers(self, url: str) -> None:
        answer, self._brokers = self._brokers, None
        if answer is not None:
            answer.set_result(url)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a line to the worker."""
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def drained(self) -> None:
        """Wait until everything was passed to the socket."""
        if self._writer is not None:
            await self._writer.drain()
