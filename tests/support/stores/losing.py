"""A metadata session that ends at chosen calls."""

from typing import Any

from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.store import Watch


class LosingStore(MemoryStore):
    """A store that loses connection and session before or after chosen calls. The client detects the loss of the
    connection, then that of the session."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server, 10.0)
        self.calls = 0
        self.lost = 0
        self.losses: dict[int, str] = {}

    @property
    def lives(self) -> bool:
        """True while the server has the session as well."""
        return self.session_id in self._server._sessions

    def lose_at(self, losses: dict[int, str]) -> None:
        """Set the losses: number of a call from now → ``before`` or ``after`` it."""
        self.calls, self.losses = 0, losses

    def lose(self) -> None:
        self.lost += 1
        self._server.expire(self.session_id)
        self._broken()

    async def _call(self, op: str, path: str, *args: Any, watch: Watch | None = None) -> Any:
        when = self.losses.pop(self.calls, "")
        self.calls += 1
        if when == "before":
            self.lose()
        result = await super()._call(op, path, *args, watch=watch)
        if when == "after":
            self.lose()
        return result
