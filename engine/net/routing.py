"""Routing of commands by a table of routes to the command families, and of their answers back to the client."""

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
    """Permission that a client needs for a command."""

    CONNECTED = "connected"
    """No further permission: the command concerns the connection, or something on it that was authorised when it was
    opened."""
    LOOKUP = "lookup"
    LIST_TOPICS = "list topics"
    PRODUCE = "produce"
    CONSUME = "consume"


@dataclass(frozen=True, slots=True)
class Route:
    """Handler of a command. ``handler(family, body)`` returns the answer, an awaitable of the answer, or None."""

    handler: Callable[[Any, Any], Answer]
    access: Access = Access.CONNECTED


Routes = Mapping[int, Route]
"""Routes by command type. A family's ROUTES holds those of its commands."""


def refused(text: str) -> Route:
    """Return the route of a request that is refused for every client."""

    def refuse(family: object, body: Any) -> bytes:
        return commands.error(body.request_id, ServerError.NotAllowedError, text)

    return Route(refuse)


class Router:
    """Router of one connection's commands. Commands that wait run as tasks of the connection; at ``waiting_max`` of
    them the connection is held.

    A failed request is answered with ERROR; one that violates the protocol ends the connection.
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
        """Route the commands of ``routes`` to ``family``."""
        for kind, route in routes.items():
            self._routes[kind] = (family, route)

    def handle(self, command: Any) -> None:
        """Handle one command. Raises ProtocolViolation."""
        kind = command.type
        family, route = self._routes[kind]
        body = getattr(command, commands.FIELD_OF_TYPE[kind])
        answer = route.handler(family, body)
        if isinstance(answer, bytes):
            self._connection.send(answer)
        elif answer is not None:
            self.answer_later(answer, body.request_id)

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` completes. ``again`` is sent behind a refusal that may pass."""
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
