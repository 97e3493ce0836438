"""State of one replicated subscription: the snapshots that it may still pass, and the last updates (G4)."""

from bisect import insort
from collections.abc import Callable

from engine.base.ids import Position
from engine.wire.geo.markers import ClusterSnapshot


class ReplicatedPosition:
    """Snapshots that a subscription did not pass yet, at most ``room``, and its updates from and to other clusters.

    ``entries_between`` counts the entries from one position (inclusive) to another one.
    """

    __slots__ = (
        "_entries_between",
        "_room",
        "applied_from",
        "applied_ms",
        "sent_ms",
        "snapshot_ms",
        "snapshots",
    )

    def __init__(self, room: int, entries_between: Callable[[Position, Position], int]) -> None:
        self._room = room
        self._entries_between = entries_between
        self.snapshots: list[ClusterSnapshot] = []
        """Snapshots in the order of their positions here."""
        self.snapshot_ms = 0
        """Time at which the last snapshot was read, 0 before the first one; as in the following."""
        self.sent_ms = 0
        """Time at which the last update for other clusters was written."""
        self.applied_ms = 0
        """Time at which the last update of another cluster was applied."""
        self.applied_from = ""
        """The cluster that wrote it; empty before the first one."""

    def add(self, snapshot: ClusterSnapshot, now_ms: int) -> None:
        """Add a snapshot. When there is no room, the one with the nearest neighbours is dropped.

        So a subscription that is far behind what was read keeps one that it passes soon, which the oldest would not
        be, and others at distances that are about the same.
        """
        self.snapshot_ms = now_ms
        kept = self.snapshots
        if any(known.here == snapshot.here for known in kept):
            return  # the marker was read again
        insort(kept, snapshot, key=_here)
        if len(kept) > self._room:
            del kept[min(range(1, len(kept) - 1), key=self._gap, default=0)]

    def _gap(self, i: int) -> int:
        return self._entries_between(self.snapshots[i - 1].here, self.snapshots[i + 1].here)

    def passed(self, mark_delete: Position) -> ClusterSnapshot | None:
        """Return the newest snapshot up to ``mark_delete``, and drop all up to it; None when none was passed."""
        newest = None
        while self.snapshots and self.snapshots[0].here <= mark_delete:
            newest = self.snapshots.pop(0)
        return newest


def _here(snapshot: ClusterSnapshot) -> Position:
    return snapshot.here
