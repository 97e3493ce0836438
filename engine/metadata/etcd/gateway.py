"""Calls of etcd's JSON gateway (``/v3/…``): members in turn, tokens of a user, errors.

All calls go to one member until it fails. Whether a failed call may be sent to another one is known to the caller: a
read may, and a write only when it was not sent.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.metadata.etcd.messages import JsonObject, MalformedError, number, parsed
from engine.metadata.store import StoreUnavailableError
from engine.net.http_client import HttpClient, HttpError, NotReachedError, StreamedAnswer

log = logging.getLogger(__name__)

INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION = 3, 5, 9
OUT_OF_RANGE, PERMISSION_DENIED, UNAUTHENTICATED = 11, 7, 16
_CALLERS_FAULT = frozenset(
    {INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION, OUT_OF_RANGE}
)
"""Codes of gRPC for calls that another member refuses as well; all others are failures of the service."""
_REFUSED_IN_TEXT = (400, 401, 403, 404)
REFUSAL_BYTES_MAX = 200
"""Bytes of an answer that is no message, in the error."""
_TOKEN_REFUSED = ("invalid auth token", "user name is empty", "revision of auth store is old")
_WITH_LEADER = ("Grpc-Metadata-hasleader", "true")
"""Header of a watch that is to end when its member has no leader: it would be silent, and not up to date."""


class EtcdRefusedError(MagnetarError):
    """A call that etcd refused without carrying it out; ``code`` is gRPC's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class AccessError(MagnetarError):
    """etcd refused the user or the password."""


class EtcdUser(NamedTuple):
    """A user of etcd."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"EtcdUser({self.name!r}, ********)"


class EtcdGateway:
    """Client of the members of one etcd, given by their URLs. ``client`` bounds the time of each attempt."""

    def __init__(
        self, members: Sequence[str], client: HttpClient, user: EtcdUser | None, *, first: int = 0
    ) -> None:
        self._members = [url.rstrip("/") for url in members]
        self._client = client
        self._user = user
        self._token = ""
        self._signing_in = asyncio.Lock()
        self._current = first % len(members)

    @property
    def member(self) -> str:
        """URL of the member that the next call goes to."""
        return self._members[self._current]

    def leave(self, member: str) -> None:
        """Send the next calls to another member than ``member``, which failed."""
        if member == self.member:
            self._current = (self._current + 1) % len(self._members)

    def close(self) -> None:
        self._client.close()

    async def call(self, method: str, body: JsonObject, *, repeatable: bool) -> JsonObject:
        """Call a method, such as ``kv/range``, and return its answer.

        With ``repeatable`` each member is tried once; else the next one is tried only while the call was not sent.
        Raises EtcdRefusedError, AccessError; StoreUnavailableError without an answer, with unknown outcome.
        """
        failure = StoreUnavailableError("no member")
        for _ in self._members:
            member = self.member
            try:
                return await self._with_token(member, method, body)
            except NotReachedError as error:
                failure = StoreUnavailableError(str(error))
            except (HttpError, StoreUnavailableError) as error:
                failure = StoreUnavailableError(str(error))
                if not repeatable:
                    self.leave(member)
                    break
            self.leave(member)
        raise failure

    async def watch(self, request: JsonObject) -> StreamedAnswer:
        """Open a watch at the current member. Raises the errors of ``call``; the caller closes the answer."""
        member = self.member
        try:
            await self._sign_in_once(member)
            data = json.dumps({"create_request": request}).encode()
            headers = [_WITH_LEADER, *self._headers()]
            answer = await self._client.open(
                "POST", f"{member}/v3/watch", headers=headers, body=data
            )
        except HttpError as error:
            raise StoreUnavailableError(str(error)) from error
        if answer.status == 200:
            return answer
        try:
            raise _refusal(answer.status, await answer.read())
        except HttpError as error:
            raise StoreUnavailableError(str(error)) from error
        except EtcdRefusedError as error:
            if self.refused(str(error), error.code):
                raise StoreUnavailableError(str(error)) from error
            raise
        finally:
            answer.close()

    def refused(self, reason: str, code: int = 0) -> bool:
        """Return whether the token was refused, which the next call replaces then."""
        refused = self._is_token(reason, code)
        if refused:
            self._token = ""
        return refused

    def _is_token(self, reason: str, code: int) -> bool:
        return self._user is not None and (
            code == UNAUTHENTICATED or any(text in reason for text in _TOKEN_REFUSED)
        )

    async def _with_token(self, member: str, method: str, body: JsonObject) -> JsonObject:
        """Call a method, and once more with a new token when the token was refused."""
        await self._sign_in_once(member)
        token = self._token
        try:
            return await self._post(member, method, body)
        except EtcdRefusedError as error:
            if not self._is_token(str(error), error.code):
                raise
        if self._token == token:  # else another call has signed in again
            self._token = ""
        await self._sign_in_once(member)
        return await self._post(member, method, body)

    async def _sign_in_once(self, member: str) -> None:
        """Sign in unless there is a token; one of concurrent callers does."""
        if self._user is None or self._token:
            return
        async with self._signing_in:
            if self._user is not None and not self._token:
                await self._sign_in(member, self._user)

    async def _sign_in(self, member: str, user: EtcdUser) -> None:
        body = {"name": user.name, "password": user.password}
        try:
            answer = await self._post(member, "auth/authenticate", body)
        except EtcdRefusedError as error:
            if error.code == FAILED_PRECONDITION:  # authentication is not enabled
                log.warning("etcd asks for no user and password member=%s", member)
                self._user = None
                return
            raise AccessError(f"etcd refused user {user.name}: {error}") from None
        self._token = str(answer.get("token", ""))

    def _headers(self) -> list[tuple[str, str]]:
        return [("Authorization", self._token)] if self._token else []

    async def _post(self, member: str, method: str, body: JsonObject) -> JsonObject:
        """Send a request and return its answer. Raises HttpError, EtcdRefusedError, StoreUnavailableError."""
        answer = await self._client.request(
            "POST",
            f"{member}/v3/{method}",
            headers=self._headers(),
            body=json.dumps(body, separators=(",", ":")).encode(),
        )
        if answer.status != 200:
            raise _refusal(answer.status, answer.body)
        try:
            message = parsed(answer.body)
            if "error" in message:  # a streaming method, whose status was sent before
                raise _refusal(0, answer.body)
        except MalformedError as error:
            raise StoreUnavailableError(f"{member} gave a malformed answer: {error}") from error
        return message


def _refusal(status: int, body: bytes) -> EtcdRefusedError | StoreUnavailableError:
    """Return the error of an answer that is one."""
    try:
        message = parsed(body)
        error = message.get("error", "")
        if isinstance(error, dict):
            message = {**error, "code": error.get("grpc_code", 0)}
            error = error.get("message", "")
        code = number(message, "code")
    except MalformedError:
        # The gateway's server refuses some requests in plain text: paths that it has not, and certificates with a
        # common name, which it would not pass on.
        text = body[:REFUSAL_BYTES_MAX].decode(errors="replace").strip()
        reason = f"etcd answered with status {status}: {text}"
        refused = status in _REFUSED_IN_TEXT
        return EtcdRefusedError(reason, 0) if refused else StoreUnavailableError(reason)
    if code in _CALLERS_FAULT or code == UNAUTHENTICATED or _token_text(str(error)):
        return EtcdRefusedError(str(error), code)
    return StoreUnavailableError(f"etcd failed: {error}")


def _token_text(reason: str) -> bool:
    return any(text in reason for text in _TOKEN_REFUSED)
