"""SessionTable that exist, changed by ``SessionTable.apply`` only, and what a connection of one is to the machine."""

import hmac
from typing import NamedTuple

from engine.metadata.server.changes import SessionClosed, SessionOpened

SessionChange = SessionOpened | SessionClosed


class StoredSession(NamedTuple):
    timeout_ms: int
    password: bytes


class AclIdentity(NamedTuple):
    """AclIdentity of a client by which ACLs grant rights: scheme ip or digest."""

    scheme: str
    id: str


class SessionClient:
    """A connection of a session, as the machine sees it: whose watches it sets and whose identities it checks.

    The server's connection may be a subclass or keep one. Identities begin with the peer's address; AUTH adds to them.
    """

    __slots__ = ("__weakref__", "identities", "session_id")

    def __init__(self, session_id: int, address: str) -> None:
        self.session_id = session_id
        self.identities: list[AclIdentity] = [AclIdentity("ip", address)]


class SessionTable:
    """SessionTable by id. Their timers are the server's."""

    def __init__(self) -> None:
        self._sessions: dict[int, StoredSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def apply(self, change: SessionChange) -> None:
        """Make a change. Made twice it is made once."""
        if isinstance(change, SessionOpened):
            self._sessions[change.session_id] = StoredSession(change.timeout_ms, change.password)
        else:
            self._sessions.pop(change.session_id, None)

    def ids(self) -> list[int]:
        return list(self._sessions)

    def get(self, session_id: int) -> StoredSession | None:
        return self._sessions.get(session_id)

    def accepts(self, session_id: int, password: bytes) -> bool:
        """Return whether the session exists and this is its password."""
        session = self._sessions.get(session_id)
        return session is not None and hmac.compare_digest(session.password, password)

    def changes(self) -> list[SessionOpened]:
        """Return the changes that make these sessions: what a snapshot stores."""
        return [
            SessionOpened(session_id, session.timeout_ms, session.password)
            for session_id, session in self._sessions.items()
        ]
