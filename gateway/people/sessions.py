"""Sessions in the database, each with what its owner reads of it: address, browser, and when it was used last."""

from collections.abc import Mapping
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.db import InterfaceError, OperationalError, transaction
from django.utils import timezone

from engine.auth.credentials import AuthenticationFailed
from engine.base.errors import NotFound
from gateway.people.models import PersonSession
from gateway.services.clock import now_ms

SEEN_EVERY_MS = 60_000
"""Interval at which the use of a session is stored at most."""
ORIGIN = "origin"
"""Key of a session's data: values of its columns, from the sign-in."""


class LastUse:
    """The stored time of a session's last use, for all requests of the session."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int = 0) -> None:
        self.at_ms = at_ms


class SessionStore(DatabaseStore):
    """Django's store over ``PersonSession``."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.last_use = LastUse()

    def hold(self, data: dict[str, Any], last_use: LastUse) -> None:
        """Use data that was read already."""
        self._session_cache = data
        self.last_use = last_use

    @classmethod
    def get_model_class(cls) -> type[PersonSession]:
        return PersonSession

    def create_model_instance(self, data: dict[str, Any]) -> PersonSession:
        return _with_columns(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> PersonSession:
        return _with_columns(await super().acreate_model_instance(data), data)

    def load(self) -> dict[str, Any]:
        return self._loaded(self._get_session_from_db())  # type: ignore[attr-defined]

    async def aload(self) -> dict[str, Any]:
        return self._loaded(await self._aget_session_from_db())  # type: ignore[attr-defined]

    def _loaded(self, row: PersonSession | None) -> dict[str, Any]:
        if row is None:
            return {}
        self.last_use = LastUse(row.seen_at_ms)
        data: dict[str, Any] = self.decode(row.session_data)
        return data

    def save(self, must_create: bool = False) -> None:
        """Store the session. Raises AuthenticationFailed when it was ended meanwhile, and the database's errors, which
        Django hides."""
        try:
            super().save(must_create)
        except UpdateError as error:
            if isinstance(error.__context__, OperationalError | InterfaceError):
                raise error.__context__ from error
            raise _ended() from error

    async def note_use(self) -> None:
        """Store that the session is used now, unless that was stored within the last minute."""
        now = now_ms()
        if now - self.last_use.at_ms >= SEEN_EVERY_MS and self.session_key:
            self.last_use.at_ms = now
            await PersonSession.objects.filter(pk=self.session_key).aupdate(seen_at_ms=now)


def _with_columns(row: Any, data: dict[str, Any]) -> PersonSession:
    session: PersonSession = row
    user = data.get(SESSION_KEY)
    session.user_id = int(user) if user else None
    for name, value in data.get(ORIGIN, {}).items():
        setattr(session, name, value)
    session.seen_at_ms = now_ms()
    return session


def _ended() -> AuthenticationFailed:
    return AuthenticationFailed("the session was ended", "SESSION_ENDED")


def origin(public_id: str, address: str, browser: str) -> dict[str, Any]:
    """Return the values under ``ORIGIN`` of a session that begins."""
    return {
        "public_id": public_id,
        "address": address[:64],
        "browser": browser[:255],
        "created_at_ms": now_ms(),
    }


def lock_sessions(user_id: int) -> None:
    """Wait, in a transaction, for other changes of a user's sessions. Otherwise a session whose key is being replaced
    would be missed under both keys."""
    list(get_user_model().objects.select_for_update().filter(pk=user_id).values_list("pk"))


@transaction.atomic
def end_sessions(user_id: int, *, besides: str | None = None, public_id: str = "") -> int:
    """End the sessions of a user (A27), except the one with the key ``besides``; with ``public_id`` only that one.
    Return the number of ended sessions."""
    lock_sessions(user_id)
    rows = PersonSession.objects.filter(user_id=user_id)
    if besides:
        rows = rows.exclude(pk=besides)
    if public_id:
        rows = rows.filter(public_id=public_id)
    deleted, _ = rows.delete()
    return deleted


@transaction.atomic
def replace_key(session: SessionStore, values: Mapping[str, Any]) -> None:
    """Change a session of a person and replace its key. Raises AuthenticationFailed when it was ended meanwhile."""
    lock_sessions(int(session[SESSION_KEY]))
    deleted, _ = PersonSession.objects.filter(pk=session.session_key).delete()
    if not deleted:
        raise _ended()
    session.update(values)
    session.create()
    session.modified = False


def remove_expired() -> None:
    """Delete the sessions whose time is over."""
    PersonSession.objects.filter(expire_date__lt=timezone.now()).delete()


async def rows_of(user_id: int, current: str | None = None) -> list[dict[str, Any]]:
    """Return the sessions of a user as rows, the newest first. ``current``: the key of the caller's own."""
    rows = PersonSession.objects.filter(user_id=user_id, expire_date__gt=timezone.now())
    return [
        {
            "id": row.public_id,
            "current": row.session_key == current,
            "created_at": row.created_at_ms,
            "last_seen_at": row.seen_at_ms,
            "address": row.address,
            "browser": row.browser,
        }
        async for row in rows.order_by("-created_at_ms")
    ]


async def end_session(user_id: int, public_id: str) -> None:
    """End a session of a user. Raises NotFound."""
    if not await sync_to_async(end_sessions)(user_id, public_id=public_id):
        raise NotFound("No such session")
