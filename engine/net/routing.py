"""Where commands go: from a table of routes to the command families, and their answers back to the client."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire.errors import CodedError, ProtocolViolation, ServerError

log = logging.getLogger(__name__)

HOLD = "requests"
Answer = bytes | Awaitable[bytes] | None


class Access(Enum):
    """What a client must be allowed before its command is done."""

    CONNECTED = "connected"
    """Nothing more: it is about the connection, or about something opened on it, which was allowed then."""
    LOOKUP = "lookup"
    LIST_TOPICS = "list topics"
    PRODUCE = "produce"
    CONSUME = "consume"


@dataclass(frozen=True, slots=True)
class Route:
    """``handler(family, body)`` does the command: its answer, one that the client waits for, or None."""

    handler: Callable[[Any, Any], Answer]
    access: Access = Access.CONNECTED


Routes = Mapping[int, Route]
"""By command type. A family's ROUTES holds those of the commands it does."""


def refused(text: str) -> Route:
    """The route of a request that nobody may make."""

    def refuse(family: object, body: Any) -> bytes:
        return commands.error(body.request_id, ServerError.NotAllowedError, text)

    return Route(refuse)


class Router:
    """One connection's commands. Those that wait run as its tasks, at most ``waiting_max``; at that many it is held.

    A failed request is answered with ERROR, one that breaks the protocol ends the connection.
    """

    def __init__(self, connection: Connection, tasks: TaskScope, waiting_max: int) -> None:
        self._connection = connection
        self._tasks = tasks
        self._routes: dict[int, tuple[object, Route]] = {}
        self._waiting = Budget(
            1,
            waiting_max,
            on_high=lambda: connection.hold(HOLD),
            on_low=lambda: connection.release(HOLD),
        )

    def add(self, family: object, routes: Routes) -> None:
        """``family`` does the commands of ``routes``."""
        for kind, route in routes.items():
            self._routes[kind] = (family, route)

    def take(self, command: Any) -> None:
        """Do one command. Raises ProtocolViolation."""
        kind = command.type
        family, route = self._routes[kind]
        body = getattr(command, commands.FIELD_OF_TYPE[kind])
        answer = route.handler(family, body)
        if isinstance(answer, bytes):
            self._connection.send(answer)
        elif answer is not None:
            self.answer_later(answer, body.request_id)

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` is there. ``again`` follows a refusal that may pass."""
        self._waiting.take(0)
        self._tasks.spawn("request", self._answer(answer, request_id, again))

    async def _answer(self, answer: Awaitable[bytes], request_id: int, again: bytes) -> None:
        try:
            reply = await answer
        except ProtocolViolation as error:
            self._connection.close(error)
            return
        except asyncio.CancelledError:
            if self._tasks.closed:
                raise
            text = "What the request waited for was given up, try again"
            reply = commands.error(request_id, ServerError.ServiceNotReady, text) + again
        except MagnetarError as error:
            code, level = ServerError.UnknownError, logging.WARNING
            if isinstance(error, CodedError):
                code, level = error.code, logging.INFO
            log.log(level, "request refused client=%s: %s", self._connection.peer_name, error)
            reply = commands.error(request_id, code, str(error))
            if error.retriable:
                reply += again
        finally:
            self._waiting.give(0)
        self._connection.send(reply)
