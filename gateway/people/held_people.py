"""The people who use this gateway, held in memory for less than a second, and the open sockets that end with them.

The rights of a session and of a personal token derive from a person. They end when the person is disabled or deleted,
loses the role or has it at another level, and those of a session also when it is ended (A20). What this gateway itself
changes counts from its commit on; what another gateway or a command changes, after ``HELD_S`` at most (A31).
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from asgiref.sync import sync_to_async
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
)
from django.db import DatabaseError, transaction
from django.db.models import Q
from django.db.models.signals import post_delete, post_save
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from engine.base.tasks import TaskScope, contained, restarting
from gateway.clusters.registry import Clusters
from gateway.people.acting import may_act
from gateway.people.backend import NAME
from gateway.people.models import Person, PersonSession
from gateway.people.sessions import LastUse, SessionStore

CHECK_S = 0.4
"""Interval at which the people of open sockets are read."""
HELD_S = 0.9
"""Time for which what was read counts, from the start of the read."""
ROOM_MIN = 256
"""Number of held credentials from which on those that no longer count are dropped."""


class Credential(NamedTuple):
    """Key of a session, or, of a personal token, the name of its person."""

    session: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """A person who may sign in. ``data`` and ``last_use`` are those of the session, empty for a name."""

    user: Any
    data: Mapping[str, Any]
    last_use: LastUse
    stored: str = ""

    def session(self, key: str) -> SessionStore:
        """Return the session with this key for one request, which may change it."""
        store = SessionStore(key)
        store.hold(dict(self.data), self.last_use)
        return store


class _Held(NamedTuple):
    """A credential as it was read. ``revision`` is that of this gateway's own changes when the read began."""

    known: Known
    revision: int
    until_s: float


@dataclass(slots=True)
class _Watch:
    """The client of an open socket. ``in_doubt``: the last read says that its credential does not count any more."""

    credential: Credential
    stands: Callable[[Known | None], bool]
    ended: Callable[[], None]
    in_doubt: bool = False


class HeldPeople:
    """The held people and their sessions, a part of the process's clusters. ``watch`` and the function that it returns
    are called on the event loop of the sockets."""

    def __init__(self, clusters: Clusters) -> None:
        self._held: dict[Credential, _Held] = {}
        self._room = ROOM_MIN
        self._revision = 0
        self._watches: dict[object, _Watch] = {}
        self._tasks: TaskScope | None = None
        for model in (get_user_model(), Person, PersonSession):
            # Django keeps weak references to the methods.
            post_save.connect(self._note_change, sender=model)
            post_delete.connect(self._note_change, sender=model)

    def _note_change(self, using: str, **_: object) -> None:
        # A read that begins before the commit must not count after it.
        transaction.on_commit(self._forget, using=using)

    def _forget(self) -> None:
        self._revision += 1

    async def known(self, credential: Credential) -> Known | None:
        """Return who a credential makes known; None when it counts no more. Raises DatabaseError."""
        held = self._held.get(credential)
        if held is not None and held.revision == self._revision and time.monotonic() < held.until_s:
            return held.known
        return (await self._renewed([credential]))[credential]

    async def _renewed(
        self, credentials: Iterable[Credential]
    ) -> Mapping[Credential, Known | None]:
        revision, until_s = self._revision, time.monotonic() + HELD_S
        read = await sync_to_async(self._read)(tuple(credentials))
        if len(self._held) > self._room:
            now = time.monotonic()
            self._held = {key: held for key, held in self._held.items() if now < held.until_s}
            self._room = max(ROOM_MIN, 2 * len(self._held))
        for credential, known in read.items():
            if known is None:
                self._held.pop(credential, None)
            else:
                self._held[credential] = _Held(known, revision, until_s)
        return read

    def _read(self, credentials: tuple[Credential, ...]) -> dict[Credential, Known | None]:
        """Read credentials by two queries, in a thread."""
        keys = [credential.session for credential in credentials if credential.session]
        names = [credential.person for credential in credentials if credential.person]
        rows = {}
        if keys:
            valid = PersonSession.objects.filter(pk__in=keys, expire_date__gt=timezone.now())
            rows = {row.session_key: row for row in valid}
        sessions = {key: self._session(row) for key, row in rows.items()}
        ids = {data.get(SESSION_KEY) for data, _ in sessions.values()} - {None}
        named = Q(pk__in=ids) | Q(username__in=names)
        active = get_user_model().objects.select_related("person").filter(named, is_active=True)
        users = [user for user in active if may_act(user)]
        by_id = {str(user.pk): user for user in users}
        by_name = {user.get_username(): user for user in users}
        read: dict[Credential, Known | None] = {}
        for credential in credentials:
            read[credential] = None
            if credential.session in sessions:
                data, last_use = sessions[credential.session]
                user = by_id.get(data.get(SESSION_KEY, ""))
                if user is not None and _is_confirmed(data, user):
                    stored = rows[credential.session].session_data
                    read[credential] = Known(user, data, last_use, stored)
            elif credential.person in by_name:
                read[credential] = Known(by_name[credential.person], {}, LastUse())
        return read

    def _session(self, row: PersonSession) -> tuple[Mapping[str, Any], LastUse]:
        """Return the data of a session and its last use. What is stored as before is not decoded again."""
        held = self._held.get(Credential(session=row.session_key))
        if held is not None and held.known.stored == row.session_data:
            return held.known.data, held.known.last_use
        return SessionStore().decode(row.session_data), LastUse(row.seen_at_ms)

    def watch(
        self,
        credential: Credential,
        stands: Callable[[Known | None], bool],
        ended: Callable[[], None],
    ) -> Callable[[], None]:
        """Call ``ended`` within a second after ``stands`` is false for who the credential makes known; return a
        function that ends this. While the database does not answer, nothing ends."""
        key = object()
        self._watches[key] = _Watch(credential, stands, ended)
        if self._tasks is None:
            self._tasks = TaskScope("people")
            self._tasks.spawn("follow", restarting("watch of people", self._follow))

        def stop() -> None:
            self._watches.pop(key, None)
            if not self._watches and self._tasks is not None:
                self._tasks.cancel()
                self._tasks = None

        return stop

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            watches = tuple(self._watches.items())
            try:
                known = await self._renewed({watch.credential for _, watch in watches})
            except DatabaseError:
                continue
            for key, watch in watches:
                if watch.stands(known[watch.credential]):
                    watch.in_doubt = False
                elif not watch.in_doubt:
                    # The browser of a session whose key was replaced must have the new key before its socket ends.
                    watch.in_doubt = True
                elif self._watches.pop(key, None) is not None:
                    with contained("the end of a socket"):
                        watch.ended()


def _is_confirmed(data: Mapping[str, Any], user: Any) -> bool:
    """Return whether a session is one by the user's present password."""
    shown = data.get(HASH_SESSION_KEY) or ""
    known = constant_time_compare(shown, user.get_session_auth_hash())
    return known and data.get(BACKEND_SESSION_KEY) == NAME
