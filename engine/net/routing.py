"""Routing of commands by a table of routes to the command families, and of their answers back to the client."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.auth.identity import Identity
from engine.auth.judge import Judge, Judgement, Verdict, judge_call
from engine.auth.rights import AUTHENTICATED, PUBLIC, Right, Rights, all_of
from engine.base.budget import Budget
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.net.refused_commands import RefusedCommands
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire.errors import CodedError, ProtocolViolation, ServerError

log = logging.getLogger(__name__)

HOLD = "requests"
JUDGING = "authorization"
_ANSWERED = Verdict(False)
"""Verdict about a command that was answered already, because its resource is not valid or the judge failed."""
Answer = bytes | Awaitable[bytes] | None


Refuse = Callable[[Any, Any, ServerError, str], bytes]


def _error(family: object, body: Any, code: ServerError, text: str) -> bytes:
    return commands.error(body.request_id, code, text)


@dataclass(frozen=True, slots=True)
class Route:
    """Handler of a command, and the rights that a client needs for it.

    ``handler(family, body)`` returns the answer, an awaitable of the answer, or None. ``refuse(family, body, code,
    text)`` returns the answer to a client that may not use the command; the default is ERROR. ``refusal`` is the text
    of AuthorizationError where Apache's broker has one for the command, else empty: the client reads the reason.
    Raises TypeError without a right.
    """

    handler: Callable[[Any, Any], Answer]
    rights: Rights
    refuse: Refuse = _error
    refusal: str = ""
    judged: tuple[Right[Any], ...] = field(init=False)
    """The rights that the judge is asked about; empty for most commands, which then cost nothing more."""

    def __post_init__(self) -> None:
        judged = tuple(right for right in all_of(self.rights) if right.judged)
        object.__setattr__(self, "judged", judged)


Routes = Mapping[int, Route]
"""Routes by command type. A family's ROUTES holds those of its commands."""


def refused(text: str) -> Route:
    """Return the route of a request that is refused for every client."""

    def refuse(family: object, body: Any) -> bytes:
        return commands.error(body.request_id, ServerError.NotAllowedError, text)

    return Route(refuse, AUTHENTICATED)


class Router:
    """Router of one connection's commands. Commands that wait run as tasks of the connection; at ``waiting_max`` of
    them the connection is held.

    ``judge`` is asked before the handler of a command that needs a right is called (A1). While it decides, the
    connection is held and the commands behind it wait, so that a CLOSE never precedes the command that opens. SEND,
    FLOW and ACK are not judged: they act on what was authorised when it was opened.

    A failed request is answered with ERROR; one that violates the protocol ends the connection.
    """

    def __init__(
        self,
        connection: Connection,
        tasks: TaskScope,
        waiting_max: int,
        judge: Judge,
        identity: Callable[[], Identity],
        refused_commands: RefusedCommands,
    ) -> None:
        """Create without routes. ``identity`` returns the identity of the connection's client."""
        self._judge = judge
        self._identity = identity
        self._refused_commands = refused_commands
        self._undecided: deque[tuple[object, Route, Any]] = deque()
        """The command about which the judge decides, and those behind it."""
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
        if (route.judged or self._undecided) and not self._passes(family, route, body):
            return
        answer = route.handler(family, body)
        if answer is not None:
            self._reply(answer, body)

    def _reply(self, answer: bytes | Awaitable[bytes], body: Any) -> None:
        if isinstance(answer, bytes):
            self._connection.send(answer)
        else:
            self.answer_later(answer, body.request_id)

    def _passes(self, family: object, route: Route, body: Any) -> bool:
        """Return whether the command's handler may be called now; False when it was refused, or waits for a verdict."""
        if route.rights is PUBLIC:  # PONG proves that the peer is alive, whatever waits
            return True
        if self._undecided:
            self._undecided.append((family, route, body))
            return False
        judgement = self._judgement(family, route, body)
        if isinstance(judgement, Verdict):
            return self._is_allowed(family, route, body, judgement)
        self._undecided.append((family, route, body))
        self._connection.hold(JUDGING)
        self._tasks.spawn("authorization", self._decide(judgement))
        return False

    def _judgement(self, family: object, route: Route, body: Any) -> Judgement:
        """Return the judgement about a command; an error is a refusal, answered here. Raises ProtocolViolation."""
        try:
            return judge_call(self._judge, self._identity(), route.judged, body)
        except MagnetarError as error:
            return self._unjudged(family, route, body, error)

    def _unjudged(self, family: object, route: Route, body: Any, error: MagnetarError) -> Verdict:
        """Answer a command whose resource or verdict is not known. Raises ProtocolViolation."""
        if isinstance(error, ProtocolViolation):
            raise error
        code = error.code if isinstance(error, CodedError) else ServerError.ServiceNotReady
        self._connection.send(route.refuse(family, body, code, str(error)))
        return _ANSWERED

    def _is_allowed(self, family: object, route: Route, body: Any, verdict: Verdict) -> bool:
        """Return whether the command is allowed; one that is not is answered here."""
        if not verdict.allowed and verdict is not _ANSWERED:
            reason = verdict.reason
            self._refused_commands.note(
                self._connection.peer_name,
                type(body).__name__.removeprefix("Command"),
                self._identity().role,
                reason,
            )
            code = ServerError.AuthorizationError
            text = verdict.client_text or route.refusal or reason
            self._connection.send(route.refuse(family, body, code, text))
        return verdict.allowed

    async def _decide(self, judgement: Judgement) -> None:
        """Handle the command that waits for this judgement and those behind it, in their order."""
        try:
            while not self._connection.closing:
                family, route, body = self._undecided[0]
                try:
                    verdict = judgement if isinstance(judgement, Verdict) else await judgement
                except MagnetarError as error:
                    verdict = self._unjudged(family, route, body, error)
                if self._is_allowed(family, route, body, verdict):
                    answer = route.handler(family, body)
                    if answer is not None:
                        self._reply(answer, body)
                self._undecided.popleft()
                if not self._undecided:
                    break
                judgement = self._judgement(*self._undecided[0])
        except ProtocolViolation as error:
            self._connection.close(error)
        self._connection.release(JUDGING)

    def answer_later(self, answer: Awaitable[bytes], request_id: int, again: bytes = b"") -> None:
        """Answer the request when ``answer`` completes. ``again`` is sent behind a refusal that may pass."""
        self._waiting.take(0)
        self._tasks.spawn("request", self._answer(answer, request_id, again))

    def awaits(self) -> None:
        """Count a request as waiting whose handler returned None, until ``answered``."""
        self._waiting.take(0)

    def answered(self, reply: bytes) -> None:
        """Answer a request that was counted by ``awaits``. ``reply`` is empty when the client requested no answer, or
        when ``answer_later`` gives it."""
        self._waiting.give(0)
        if reply:
            self._connection.send(reply)

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
